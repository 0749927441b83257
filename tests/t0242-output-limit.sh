#!/bin/bash
# What a stream keeps: output_limit, on_full, what readers give back, keep, limits.output.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
E=$T/b/exec
# A command's output tells at each place which one it is: lines of 8 bytes.
lines() { printf 'seq -f %%07.0f %s %s' "$1" "$2"; }
want() { seq -f %07.0f "$1" "$2" | sha256sum; }
# json REQUEST: runs it; its name is in $N.
json() {
	exec 9<>"$E/new"
	printf '%s' "$1" >&9
	read -r -t 10 N <&9 || N=none
	exec 9>&-
}
status_is() { [ "$(timeout 5 cat "$E/$1/status" 2>&1)" = "$2" ]; }
size_is() { [ "$(stat -c %s "$E/$1/$2")" = "$3" ]; }

# --- wait: the default

json "{\"cmd\":\"$(lines 1 10000); echo over >&2\",\"output_limit\":16000}"
ok 'full: status says so' wait_for 10 status_is "$N" 'running (stdout full)'
is 'full: exactly the limit is kept' "$(stat -c %s "$E/$N/stdout")" 16000
is 'full: and its blocks' "$(stat -c %b "$E/$N/stdout")" 32
is 'full: poll of the result agrees' "$(python3 - "$E/$N/code" <<'X'
import os, select, sys
p = select.poll(); p.register(os.open(sys.argv[1], os.O_RDONLY), select.POLLIN)
print(len(p.poll(200)))
X
)" 0
timeout 30 sha256sum <"$E/$N/stdout" >"$W/sum"
is 'a reader gets all, from the first byte on' "$(cat "$W/sum")" "$(want 1 10000)"
is 'and the command ends' "$(timeout 10 cat "$E/$N/code")" 0
is 'the other stream lost nothing' "$(timeout 5 cat "$E/$N/stderr")" over
is 'nothing was truncated' "$(jq -c '[.truncated,.stdout_bytes]' "$E/$N/result.json")" '[false,80000]'
refused 'what was consumed is gone' EIO "head -c 1 $E/$N/stdout"
ok 'what was not given back is there' python3 - "$E/$N/stdout" <<'X'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
at = 80000 - 8
assert os.pread(fd, 100, at) == b"0010000\n", os.pread(fd, 100, at)
X

# dd makes packets of what it writes: a read(2) of a part throws the rest away.
packets="$(lines 1 10000) | dd bs=4000 iflag=fullblock oflag=direct status=none"
json "{\"cmd\":\"$packets\",\"output_limit\":9000}"
ok 'packets: full' wait_for 10 status_is "$N" 'running (stdout full)'
is 'packets: exactly the limit is kept' "$(stat -c %s "$E/$N/stdout")" 9000
timeout 30 sha256sum <"$E/$N/stdout" >"$W/sum"
is 'packets: a reader gets all of them' "$(cat "$W/sum")" "$(want 1 10000)"
is 'packets: and the command ends' "$(timeout 10 cat "$E/$N/code")" 0
json "{\"cmd\":\"$packets\",\"output_limit\":9000,\"on_full\":\"drop\"}"
is 'packets: dropped at the limit' "$(timeout 10 cat "$E/$N/stdout" | sha256sum)" \
	"$(seq -f %07.0f 1 10000 | head -c 9000 | sha256sum)"
is 'packets: which is said' "$(jq -c '[.truncated,.stdout_bytes]' "$E/$N/result.json")" '[true,9000]'

json "{\"cmd\":\"$(lines 1 10000)\",\"output_limit\":\"8K\"}"
wait_for 10 status_is "$N" 'running (stdout full)'
dd if="$E/$N/stdout" of="$W/first" bs=4096 count=1 2>/dev/null
ok 'a reader that stops after a part makes room for as much' wait_for 10 size_is "$N" stdout 12288
ok 'and it is full again' wait_for 10 status_is "$N" 'running (stdout full)'
like 'the part is gone' "$(head -c 1 "$E/$N/stdout" 2>&1)" 'Input/output error'
ok 'another goes on where it ended, by offset' bash -c \
	"{ cat $W/first; tail -c +4097 $E/$N/stdout; } | timeout 20 sha256sum >$W/sum"
is 'and all is there' "$(cat "$W/sum")" "$(want 1 10000)"

json "{\"cmd\":\"$(lines 1 50000)\",\"output_limit\":8000}"
wait_for 10 status_is "$N" 'running (stdout full)'
is 'the slowest of two readers decides' "$(timeout 30 python3 - "$E/$N" <<'X'
import os, sys, time
d = sys.argv[1]
size = lambda: os.stat(d + "/stdout").st_size
slow = os.open(d + "/stdout", os.O_RDONLY); fast = os.open(d + "/stdout", os.O_RDONLY)
got = os.read(slow, 800)
while len(os.read(fast, 4000)) == 4000 and size() < 8800: pass
deadline = time.time() + 10
while size() < 8800 and time.time() < deadline: time.sleep(0.01)
time.sleep(0.3)
print(size(), end=" ")
while True:
    more = os.read(slow, 1000)
    got += more
    if not more: break
    at = os.lseek(fast, 0, os.SEEK_CUR)
    if at - len(got) < 0: os.read(fast, len(got) - at)
print(len(got), got[-8:])
X
)" "8800 400000 b'0050000\n'"

json "{\"cmd\":\"$(lines 1 50000)\",\"output_limit\":8000}"
wait_for 10 status_is "$N" 'running (stdout full)'
is 'one that jumps about holds nothing and consumes nothing' "$(timeout 30 python3 - "$E/$N" <<'X'
import os, sys, time
d = sys.argv[1]
fd = os.open(d + "/stdout", os.O_RDONLY)
for at in (0, 7000, 100, 5000): os.pread(fd, 8, at)
time.sleep(0.3)
print(os.stat(d + "/stdout").st_size, open(d + "/status").read().strip())
f = open(d + "/stdout", "rb", buffering=0)
f.seek(8)
print(len(f.readall()))
X
)" $'8008 running (stdout full)\n399992'

json "{\"cmd\":\"$(lines 1 20000) >&2; $(lines 1 200)\",\"output_limit\":1000}"
ok 'stderr too' wait_for 10 status_is "$N" 'running (stderr full)'
ok 'rmdir of a full one' rmdir "$E/$N"
json "{\"cmd\":\"$(lines 1 20000) >&2 & $(lines 1 20000); wait\",\"output_limit\":1000}"
ok 'both' wait_for 10 status_is "$N" 'running (stdout and stderr full)'
echo kill >"$E/$N/ctl"
is 'kill of a full one' "$(timeout 10 cat "$E/$N/status" "$E/$N/code" | tr '\n' ' ')" 'killed 137 '
size=$(stat -c %s "$E/$N/stdout")
ok 'what was in the pipe is there, beyond the limit' test "$size" -gt 1000
is 'byte by byte' "$(timeout 5 sha256sum <"$E/$N/stdout")" "$(seq -f %07.0f 1 20000 | head -c "$size" | sha256sum)"

json "{\"cmd\":\"$(lines 1 125)\",\"output_limit\":1000}"
is 'exactly the limit is not over it' "$(timeout 10 cat "$E/$N/code")" 0
ok 'and ends' timeout 5 cat "$E/$N/stdout"
json "{\"cmd\":\"$(lines 1 126)\",\"output_limit\":1000}"
is 'what was left in the pipe when the leader ended is kept' \
	"$(timeout 10 cat "$E/$N/code") $(timeout 5 sha256sum <"$E/$N/stdout")" "0 $(want 1 126)"

json '{"cmd":"(sleep 0.5; seq 1 100000 >&2) & seq 1 100","output_limit":5000}'
is 'a child that was left behind is bound as well' "$(timeout 10 cat "$E/$N/code")" 0
ok 'to the limit' wait_for 10 size_is "$N" stderr 5000
is 'until somebody reads' "$(timeout 10 wc -l <"$E/$N/stderr")" 100000

json '{"cmd":"{ sleep 0.3; seq 1 10000; } & exit 0","output_limit":1000}'
is 'what children leave in the pipe' "$(timeout 10 cat "$E/$N/code")" 0
ok 'is kept when they are gone, for nobody waits any more' wait_for 10 size_is "$N" stdout 48894
ok 'and the stream ends' timeout 5 cat "$E/$N/stdout"
json '{"cmd":"seq 1 500","output_limit":100}'
timeout 10 cat "$E/$N/code" >/dev/null
exec 8<"$E/$N/stdout"
rmdir "$E/$N"
is 'a handle on what was removed reads on' "$(timeout 5 cat <&8 | wc -l)" 500
exec 8<&-

# A reader that is at its end already when it gets full has consumed all there is.
json '{"cmd":"for i in 1 2 3 4; do head -c 1000 /dev/zero; sleep 0.2; done","output_limit":1000}'
is 'a reader that follows a small limit' "$(timeout 10 cat "$E/$N/stdout" | wc -c)" 4000

# A shell reads a block and goes back: it must not be told EIO.
json '{"cmd":"seq 1 300000","output_limit":"1100K"}'
wait_for 10 status_is "$N" 'running (stdout full)'
is 'lines read by a shell' "$(timeout 20 bash -c "{ for i in 1 2 3 4 5; do read -r l; done; echo \$l; } < $E/$N/stdout")" 5
echo kill >"$E/$N/ctl"

# Nothing is spent on one that is full.
json '{"cmd":"yes","output_limit":"64K"}'
wait_for 10 status_is "$N" 'running (stdout full)'
pid=$(hutchd_pid)
ticks() { awk '{print $14 + $15}' "/proc/$pid/stat"; }
before=$(ticks)
sleep 1
ok 'a full pipe that nobody reads costs the daemon nothing' test $(($(ticks) - before)) -le 5
echo 'signal STOP' >"$E/$N/ctl"
echo kill >"$E/$N/ctl"
is 'its end is seen' "$(timeout 10 cat "$E/$N/code")" 137

# --- drop

json "{\"cmd\":\"$(lines 1 100000); echo done >&2\",\"output_limit\":8000,\"on_full\":\"drop\"}"
is 'drop: the command runs on' "$(timeout 20 cat "$E/$N/code" "$E/$N/stderr" | tr '\n' ' ')" '0 done '
is 'drop: the front is kept' "$(timeout 5 sha256sum <"$E/$N/stdout")" "$(want 1 1000)"
is 'drop: and it is said' "$(jq -c '[.truncated,.stdout_bytes]' "$E/$N/result.json")" '[true,8000]'
is 'drop: nothing is given back' "$(head -c 8 "$E/$N/stdout")" 0000001
json "{\"cmd\":\"$(lines 1 1000)\",\"output_limit\":8000,\"on_full\":\"drop\"}"
is 'drop: exactly the limit is not over it' "$(jq -c '[.truncated,.stdout_bytes]' "$E/$N/result.json")" '[false,8000]'

# --- keep

json "{\"cmd\":\"$(lines 1 10000)\",\"output_limit\":8000,\"keep\":true}"
wait_for 10 status_is "$N" 'running (stdout full)'
is 'keep: a reader gives nothing back' "$(timeout 1 cat "$E/$N/stdout" | sha256sum)" "$(want 1 1000)"
ok 'keep: it stays full' status_is "$N" 'running (stdout full)'
is 'keep: and the front stays' "$(head -c 8 "$E/$N/stdout")" 0000001
rmdir "$E/$N"

# --- keys

mkdir "$E/set" && printf 'set output_limit 4K\nset on_full drop\nset keep true\n' >"$E/set/ctl"
lines 1 10000 >"$E/set/cmd"
is 'set' "$(jq -c '[.truncated,.stdout_bytes]' "$E/set/result.json")" '[true,4096]'
is 'cmd tells' "$(jq -c '[.output_limit,.on_full,.keep]' "$E/set/cmd")" '[4096,"drop",true]'
for v in 0 -1 1.5 '"x"' '"1Q"' '"-1"' '""' '"99999999999T"' null '[]'; do
	refused "output_limit $v" EINVAL "echo '{\"cmd\":\"true\",\"output_limit\":$v}' > $E/new"
done
said 'it is told' EINVAL 'output_limit: must be a number of bytes'
refused 'on_full' EINVAL "echo '{\"cmd\":\"true\",\"on_full\":\"stop\"}' > $E/new"
refused 'keep' EINVAL "echo '{\"cmd\":\"true\",\"keep\":1}' > $E/new"
json '{"cmd":"true","id":"same","output_limit":268435456}'
ok 'the default written out is the same request' bash -c "echo '{\"cmd\":\"true\",\"id\":\"same\"}' > $E/new"
refused 'another limit is another one' EEXIST "echo '{\"cmd\":\"true\",\"id\":\"same\",\"output_limit\":1}' > $E/new"

# --- the sandbox's own limit

ok 'limits.output' bash -c "echo '{\"name\":\"s\",\"limits\":{\"output\":\"100K\"},\"exec\":{\"output_limit\":\"64K\"}}' > $T/new"
wait_for 10 state_is s running
is 'spec.json says it' "$(jq -c '[.limits.output,.exec.output_limit]' "$T/s/spec.json")" '[102400,65536]'
is 'the default too' "$(jq -c '[.limits.output,.exec.output_limit]' "$T/b/spec.json")" '[4294967296,268435456]'
for i in 1 2 3; do echo "$(lines 1 5000)" >"$T/s/exec/new"; timeout 10 cat "$T/s/exec/$i/code" >/dev/null; done
like 'the oldest output went' "$(cat "$T/s/exec/1/stdout" 2>&1)" 'Input/output error'
is 'its result stays' "$(jq -c '[.exit_code,.stdout_bytes]' "$T/s/exec/1/result.json")" '[0,40000]'
is 'its blocks are none' "$(stat -c %b "$T/s/exec/1/stdout")" 0
is 'the others are there' "$(cat "$T/s/exec/2/stdout" "$T/s/exec/3/stdout" | wc -c)" 80000
# hutchd hears of the end before it has looked at the pipe, since it has to hear of another end first.
ok 'another of them' bash -c "echo '{\"name\":\"late\",\"limits\":{\"output\":\"100K\"}}' > $T/new"
wait_for 10 state_is late running
for i in 1 2; do run late "$(lines 1 5000)"; done
node late 'sleep 0.5' >/dev/null
node late "sleep 1; $(lines 1 5000)" >/dev/null
kill -STOP "$(hutchd_pid)"
sleep 2
kill -CONT "$(hutchd_pid)"
is 'the output of one that has ended meanwhile' "$(timeout 10 cat "$T/late/exec/4/code") $(wc -c <"$T/late/exec/4/stdout")" '0 40000'
like 'makes the oldest go too' "$(cat "$T/late/exec/1/stdout" 2>&1)" 'Input/output error'
rmdir "$T/late"
echo '{"cmd":"'"$(lines 1 5000)"'","keep":true}' >"$T/s/exec/new"
timeout 10 cat "$T/s/exec/4/code" >/dev/null
echo "$(lines 1 7000)" >"$T/s/exec/new"
timeout 10 cat "$T/s/exec/5/code" >/dev/null
is 'those of requests with keep are exempt' "$(timeout 5 sha256sum <"$T/s/exec/4/stdout")" "$(want 1 5000)"
echo '{"cmd":"'"$(lines 1 12000)"'; sleep 100","keep":true,"output_limit":"1M"}' >"$T/s/exec/new"
like 'with none left to go' "$(wait_for 10 eval "[ \"\$(cat $T/s/exec/6/status)\" = 'running (stdout full)' ]"; cat "$T/s/exec/6/status")" 'running \(stdout full\)'
ok 'rmdir of another' rmdir "$T/s/exec/4"
ok 'makes room' wait_for 10 eval "[ \"\$(cat $T/s/exec/6/status)\" = running ]"
echo kill >"$T/s/exec/6/ctl"
timeout 10 cat "$T/s/exec/6/code" >/dev/null
is 'and nothing was lost' "$(timeout 5 sha256sum <"$T/s/exec/6/stdout")" "$(want 1 12000)"
# Who has read all that there is of both streams waits for the command, and not the other way round.
echo '{"name":"tight","limits":{"output":"100K"}}' >"$T/new"
wait_for 10 state_is tight running
n=$(node tight 'head -c 102400 /dev/zero >&2; head -c 1000000 /dev/zero')
is 'a full sandbox: what was read of the other stream makes room' \
	"$(timeout 20 cat "$T/tight/exec/$n/output" | wc -c) $(timeout 20 cat "$T/tight/exec/$n/code")" '1102400 0'
n=$(node tight 'for i in $(seq 40); do head -c 90000 /dev/zero; head -c 90000 /dev/zero >&2; done')
is 'also where a shell might go back' \
	"$(timeout 20 cat "$T/tight/exec/$n/output" | wc -c) $(timeout 20 cat "$T/tight/exec/$n/code")" '7200000 0'
rmdir "$T/tight"
refused 'more than the config allows' EINVAL "echo '{\"limits\":{\"output\":\"5G\"}}' > $T/new"
refused 'a limit that this version has not' EINVAL "echo '{\"limits\":{\"memory\":\"5G\"}}' > $T/new"

# --- after a restart

stop_hutchd
start_hutchd
is 'after a restart: what was given back is EIO still' "$(cat "$T/s/exec/1/stdout" 2>&1 | grep -c 'Input/output error')" 1
is 'its size is known' "$(stat -c %s "$T/s/exec/1/stdout")" 40000
is 'what was kept is there' "$(timeout 5 sha256sum <"$T/s/exec/6/stdout")" "$(want 1 12000)"
is 'limits.output too' "$(jq -c .limits.output "$T/s/spec.json")" 102400
