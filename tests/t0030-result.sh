#!/bin/bash
# result.json, code and status: every way in which a command can end.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

start_hutchd
box b

# ends WHAT REQUEST STATUS-REGEX CODE RESULT: result is [exit_code,signal,timed_out,reason].
ends() {
	run b "$2" 30 || { fail "$1: accepted"; return; }
	like "$1: status" "$(status_of b "$N")" "^$3\$"
	is "$1: code" "$C" "$4"
	is "$1: result" "$(timeout 5 jq -c '[.exit_code,.signal,.timed_out,.reason]' "$X/result.json")" "$5"
}

ends 'exit 0' 'true' 'exited 0' 0 '[0,"",false,"exited"]'
is 'every key is there, in any order' "$(timeout 5 jq -c 'keys' "$X/result.json")" \
	'["duration_ms","error","exit_code","finished_at","oom_killed","pid","reason","signal","started_at","stderr_bytes","stdout_bytes","streams_open","timed_out","truncated","usage"]'
is 'every key of usage' "$(timeout 5 jq -c '.usage | keys' "$X/result.json")" \
	'["context_switches_involuntary","cpu_sys_ms","cpu_user_ms","io_read_bytes","io_write_bytes","page_faults_major","peak_memory_bytes"]'
is 'their types' "$(timeout 5 jq -c '[.duration_ms,.error,.pid,.started_at,.stdout_bytes,.truncated,.streams_open,.exit_code | type]' "$X/result.json")" \
	'["number","string","number","string","number","boolean","boolean","number"]'
is 'not truncated, streams closed, no error' "$(timeout 5 jq -c '[.truncated,.streams_open,.error]' "$X/result.json")" '[false,false,""]'
like 'RFC 3339' "$(res started_at) $(res finished_at)" '^(20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9:]{8}(\.[0-9]+)?(Z|[+-]00:00) ?){2}$'
ok 'it is one line of JSON' test "$(wc -l <"$X/result.json")" -le 1
is 'the same every time it is read' "$(cat "$X/result.json" "$X/result.json" | sort -u | wc -l)" 1
ok 'the pid is one inside' test "$(res pid)" -gt 1 -a "$(res pid)" -lt 10000
for n in 1 7 124 125 126 127 128 137 255; do
	ends "exit $n" "exit $n" "exited $n" $n "[$n,\"\",false,\"exited\"]"
done
for s in TERM:15 KILL:9 SEGV:11 ABRT:6 HUP:1 INT:2 PIPE:13 USR1:10 USR2:12 FPE:8 ILL:4 BUS:7 TRAP:5 QUIT:3 ALRM:14 XCPU:24 SYS:31; do
	ends "signal ${s%:*}" "kill -${s%:*} \$\$" "signaled SIG${s%:*}" $((128 + ${s#*:})) "[-1,\"SIG${s%:*}\",false,\"signaled\"]"
done
ends 'a signal of the child is an exit of the shell' 'sh -c "kill -9 \$\$"; exit $?' 'exited 137' 137 '[137,"",false,"exited"]'

# Time-outs.
before=$(now_ms)
ends 'a time-out' '{"cmd":"echo begun; sleep 4321 & sleep 4322 & wait","timeout_s":0.7}' timed_out 124 '[-1,"SIGKILL",true,"timed_out"]'
ok 'not before its time' test $(($(now_ms) - before)) -ge 600
is 'what was written before is kept' "$(timeout 5 cat "$X/stdout")" begun
is 'the whole process group died' "$(out b 'cat /proc/[0-9]*/cmdline | tr "\0" " " | grep -Ec "sleep 432[12]"')" 0
ok 'duration_ms is about that' test "$(timeout 5 jq .duration_ms "$T/b/exec/$N/result.json")" -ge 0
ends 'a time-out that is not reached' '{"cmd":"exit 3","timeout_s":30}' 'exited 3' 3 '[3,"",false,"exited"]'
ends 'timeout_s 0 is none' '{"cmd":"sleep 0.3","timeout_s":0}' 'exited 0' 0 '[0,"",false,"exited"]'
ends 'timeout_s -1 is none' '{"cmd":"sleep 0.3","timeout_s":-1}' 'exited 0' 0 '[0,"",false,"exited"]'
ends 'a background child does not delay a time-out' '{"cmd":"sleep 30 & sleep 40","timeout_s":0.5}' timed_out 124 '[-1,"SIGKILL",true,"timed_out"]'
ends 'a command that ignores signals' '{"cmd":"trap \"\" TERM INT HUP; while :; do sleep 0.1; done","timeout_s":0.5}' timed_out 124 '[-1,"SIGKILL",true,"timed_out"]'

# What cannot be started is a result, not a refused write.
before=$(errors)
ends 'not found' '["no-such-program","x"]' 'failed: .*no-such-program.*' 127 '[-1,"",false,"failed"]'
like 'not found: the error' "$(res error)" 'no-such-program'
is 'not found: usage is null' "$(res usage)" null
ends 'not found, with a slash' '["/no/such/program"]' 'failed: .*/no/such/program.*' 127 '[-1,"",false,"failed"]'
ends 'not executable' '["/etc/passwd"]' 'failed: .*/etc/passwd.*' 126 '[-1,"",false,"failed"]'
ends 'a directory' '["/usr"]' 'failed: .*' 126 '[-1,"",false,"failed"]'
ends 'an empty name' '[""]' 'failed: .*' 127 '[-1,"",false,"failed"]'
run b '{"cmd":["true"],"cwd":"/no/such/dir"}'
like 'a missing cwd: status' "$(status_of b "$N")" '^failed: .*/no/such/dir'
like 'a missing cwd: code' "$C" '^12[567]$'
run b '{"cmd":["true"],"cwd":"/etc/passwd"}'
like 'a cwd that is a file' "$(status_of b "$N")" '^failed: .*/etc/passwd'
run b '{"cmd":["true"],"user":"nobody-of-that-name"}'
like 'an unknown user' "$(status_of b "$N")" '^failed: .*nobody-of-that-name'
run b '{"cmd":["true"],"user":"70000"}'
is 'a user whose id is not one inside' "$(status_of b "$N") $C" "failed: the sandbox has no id for the user '70000' 126"
run b '{"cmd":["true"],"user":"1:70000"}'
like 'or whose group is not' "$(status_of b "$N")" "^failed: the sandbox has no id for the user '1:70000'"
ends 'not found, by a script' 'no-such-program' 'exited 127' 127 '[127,"",false,"exited"]'
is 'none of these is a refused write' "$(errors)" "$before"
is 'a file without an interpreter line is not executable' \
	"$(out b 'echo "echo x" > /root/plain; chmod +x /root/plain'; run b '["/root/plain"]'; echo "$C")" 126

# kill and signal.
n=$(node b 'echo on; sleep 4323 & sleep 4324 & wait')
x=$T/b/exec/$n
wait_for 5 test -s "$x/stdout"
echo kill >"$x/ctl"
is 'kill: code' "$(timeout 5 cat "$x/code")" 137
is 'kill: status' "$(status_of b "$n")" killed
is 'kill: result' "$(timeout 5 jq -c '[.exit_code,.signal,.timed_out,.reason]' "$x/result.json")" '[-1,"SIGKILL",false,"killed"]'
is 'kill: its children are gone' "$(out b 'cat /proc/[0-9]*/cmdline | tr "\0" " " | grep -Ec "sleep 432[34]"')" 0
is 'kill: what it wrote is kept' "$(timeout 5 cat "$x/stdout")" on
for name in TERM SIGTERM 15; do
	n=$(node b 'exec sleep 4325')
	echo "signal $name" >"$T/b/exec/$n/ctl"
	is "signal $name" "$(timeout 5 cat "$T/b/exec/$n/code") $(status_of b "$n")" '143 signaled SIGTERM'
done
n=$(node b 'sleep 4326; echo not-alone')
wait_for 5 status_is b "$n" running
sleep 0.3
echo 'signal INT' >"$T/b/exec/$n/ctl"
is 'signal reaches the process group' "$(timeout 5 cat "$T/b/exec/$n/code")" 130

# Numbers.
run b 'head -c 12345 /dev/zero; head -c 678 /dev/zero >&2'
is 'stdout_bytes and stderr_bytes' "$(res stdout_bytes) $(res stderr_bytes)" '12345 678'
# What was in the pipe when the leader ended is in the spool when the result is there, whoever
# else holds the pipe.
bad=
for ((i = 0; i < 20; i++)); do
	run b 'head -c 60000 /dev/zero; sleep 5 & head -c 40000 /dev/zero >&2; kill -9 $$'
	got="$(res stdout_bytes) $(stat -c %s "$X/stdout") $(res stderr_bytes) $(stat -c %s "$X/stderr")"
	[ "$got" = '60000 60000 40000 40000' ] || bad+=" $got;"
done
is 'a result has all that was written before' "$bad" ''
timeout 5 bash -c "echo kill > $T/b/ctl"
run b 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'
ok 'cpu time is counted' test "$(res usage.cpu_user_ms)" -gt 0
run b '["python3","-c","x = bytearray(60000000)"]'
ok 'peak memory is counted' test "$(res usage.peak_memory_bytes)" -gt 50000000
run b 'sleep 0.6'
ok 'duration_ms is counted' test "$(res duration_ms)" -ge 500 -a "$(res duration_ms)" -lt 20000
ok 'finished after it started' test "$(date -d "$(res finished_at)" +%s%N)" -ge "$(date -d "$(res started_at)" +%s%N)"
is 'stderr merged' "$(out b '{"cmd":"echo a; echo b >&2; echo c","stderr":"merge"}' | tr '\n' ' ')" 'a b c '
run b '{"cmd":"echo a; echo b >&2","stdout":"null"}'
is 'stdout null' "$(timeout 5 cat "$X/stdout")|$(timeout 5 cat "$X/stderr")" '|b'
run b '{"cmd":"echo a; echo b >&2","stderr":"null"}'
is 'stderr null' "$(timeout 5 cat "$X/stdout")|$(timeout 5 cat "$X/stderr")" 'a|'
is 'env of a request' "$(out b '{"cmd":"echo $A-$B","env":{"A":"x y","B":""}}')" 'x y-'
is 'cwd of a request' "$(out b '{"cmd":["pwd"],"cwd":"/usr/bin"}')" /usr/bin
is 'user of a request' "$(out b '{"cmd":"id -u; id -g","user":"1000:1001"}' | tr '\n' ' ')" '1000 1001 '
is 'user by name' "$(out b '{"cmd":"id -un","user":"root"}')" root
stop_hutchd
