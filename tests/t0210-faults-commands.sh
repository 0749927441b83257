#!/bin/bash
# What users of such systems saw go wrong with commands and their output, each a case here.
#
# Others of the kind are elsewhere: an end of input that does not arrive, t0021; a slow reader of
# 1 GB, t0071; kill and timeouts against setsid and fork storms, t0220; 5000 short commands, t0230.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
running() { pgrep -fc -- "$1"; }
# quick WHAT SECONDS FROM: it took less than that since FROM (now_ms).
quick() { ok "$1: in less than $2 s" test $(($(now_ms) - $3)) -lt $(($2 * 1000)); }

# The kill ended the shell, and its children lived on.
n=$(node b 'sleep 6101 & (sleep 6102 &); setsid sleep 6103 & nohup sleep 6104 >/dev/null 2>&1 & sh -c "sh -c \"sleep 6105; :\"; :" & echo up; wait')
x=$T/b/exec/$n
ok 'kill and children: five run' wait_for 5 eval '[ "$(running "^sleep 610[1-5]$")" = 5 ]'
echo kill >"$x/ctl"
is 'kill and children: killed' "$(timeout 5 cat "$x/code") $(status_of b "$n")" '137 killed'
ok 'kill and children: none lives on' wait_for 5 eval '[ "$(running "^sleep 610")" = 0 ]'
is 'kill and children: the stream ends' "$(timeout 5 cat "$x/stdout")" up

# At the timeout the leader died, and a server that it had started kept the port.
server='import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 4711)); s.listen(); print("listens", flush=True); time.sleep(6106)'
jq -nc --arg s "$server" '{cmd: ["sh", "-c", "setsid python3 -c \"$0\" & wait", $s], timeout_s: 0.8}' >"$W/serve"
for i in 1 2; do
	run b "$(cat "$W/serve")"
	is "a port after the timeout, round $i" "$C $(status_of b "$N") $(timeout 5 cat "$X/stdout" "$X/stderr")" \
		'124 timed_out listens'
done
ok 'a port after the timeout: nobody has it' wait_for 5 eval '[ "$(running "[s]leep.6106")" = 0 ]'

# A child in the background held the pipes, and the result came when the child ended.
before=$(now_ms)
run b '{"cmd":["sh","-c","sleep 61 &"],"timeout_s":1}'
is 'a child in the background, with a timeout' "$C $(status_of b "$N")" '0 exited 0'
quick 'a child in the background, with a timeout' 20 "$before"
before=$(now_ms)
run b 'echo server up; sleep 62 &'
is 'a child in the background, without one' "$C $(timeout 5 head -n 1 "$X/stdout") $(res streams_open)" '0 server up true'
quick 'a child in the background, without one' 20 "$before"
(timeout 30 cat "$X/stdout" >"$W/held"; echo "$?" >>"$W/held") & reader=$!
sleep 0.3
ok 'its stream is still open' kill -0 $reader
ok 'rmdir of it ends its child' timeout 5 rmdir "$X"
ok 'and its reader' gone $reader 10
ok 'really' wait_for 5 eval '[ "$(running "^sleep 62$")" = 0 ]'
echo kill >"$T/b/ctl"

# A slow reader lost bytes.
n=$(node b 'seq 400000')
is 'a reader that takes a little at a time' "$(timeout 60 python3 - "$T/b/exec/$n/stdout" <<'X'
import hashlib, os, random, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
h, rnd, i = hashlib.md5(), random.Random(1), 0
while True:
    if i % 40 == 0: time.sleep(0.01)
    data = os.read(fd, rnd.randrange(1, 20000)); i += 1
    if not data: break
    h.update(data)
print(h.hexdigest())
X
)" "$(seq 400000 | md5sum | cut -d ' ' -f 1)"

# A very short command lost its output.
bad=
exec 3<>"$T/b/exec/new"
for ((i = 0; i < 200; i++)); do
	printf '["echo","%s"]' $i >&3
	read -r n <&3
	[ "$(cat "$T/b/exec/$n/code" "$T/b/exec/$n/stdout")" = "0"$'\n'"$i" ] || bad+=" $i"
done
exec 3>&-
is 'a very short command has its output when its result is there' "$bad" ''

# The end of the input was not forwarded; or could not be without losing the output.
n=$(node b '["cat"]')
: >"$T/b/exec/$n/stdin"
is 'cat of nothing ends' "$(timeout 10 cat "$T/b/exec/$n/code")" 0
n=$(node b 'cat > /dev/null; seq 100000; echo late >&2')
exec 5>"$T/b/exec/$n/stdin"
echo some >&5
echo close-stdin >"$T/b/exec/$n/ctl"
is 'input closed, and all the output comes after it' \
	"$(timeout 10 md5sum <"$T/b/exec/$n/stdout") $(timeout 10 cat "$T/b/exec/$n/stderr")" "$(seq 100000 | md5sum) late"
exec 5>&-

# stdout and stderr came merged; what came before a timeout was dropped.
run b '{"cmd":"echo out; echo err >&2; printf half; sleep 63","timeout_s":0.5}'
is 'before a timeout, each stream on its own' "$C|$(timeout 5 cat "$X/stdout")|$(timeout 5 cat "$X/stderr")" $'124|out\nhalf|err'
run b '["python3","-u","-c","import os, signal; os.write(1, b\"o\" * 70000); os.write(2, b\"e\" * 300); os.kill(os.getpid(), signal.SIGSEGV)"]'
is 'before a crash' "$C $(stat -c %s "$X/stdout") $(stat -c %s "$X/stderr")" '139 70000 300'

# A program that does not exist: -1 and no text; or it hung.
before=$(now_ms)
run b '["no-such-program-here"]'
is 'no such program: as a shell says it' "$C" 127
like 'no such program: status says why' "$(status_of b "$N")" '^failed: .*no-such-program-here'
like 'no such program: result says why' "$(res error)" 'no-such-program-here'
is 'no such program: both streams end' "$(timeout 5 cat "$X/stdout" "$X/stderr"; echo $?)" 0
refused 'no such program: its input is at the end' EPIPE "echo x > $X/stdin"
quick 'no such program' 20 "$before"
run b '{"cmd":["true"],"cwd":"/no/such/place"}'
like 'no such directory: the same' "$C $(status_of b "$N")" '^12[5-7] failed: .*/no/such/place'

# Input left open: tools that look for a terminal or an end waited for ever.
run b '{"cmd":"cat; wc -c; echo end","stdin":"null"}'
is 'no input, by request' "$(timeout 5 cat "$X/stdout" | tr '\n' ' ')" '0 end '
mkdir "$T/b/exec/quiet"
echo 'set stdin null' >"$T/b/exec/quiet/ctl"
echo 'cat; echo end' >"$T/b/exec/quiet/cmd"
is 'no input, by set' "$(timeout 5 cat "$T/b/exec/quiet/code" "$T/b/exec/quiet/stdout" | tr '\n' ' ')" '0 end '
echo '{"name":"mute","exec":{"stdin":"null"}}' >"$T/new"
wait_for 5 state_is mute running
is 'no input, by spec' "$(out mute 'cat; echo end')" end
run mute '{"cmd":["cat"],"stdin":"pipe"}' 1
is 'the request wins over the spec' "$(status_of mute "$N")" running
ok 'rmdir' timeout 5 rmdir "$T/mute"

# A character on the border of two chunks was broken.
printf '%s' 'import sys
for n in 4095, 4096, 65535, 65536, 131071, 262143, 1048575:
    sys.stdout.write("x" * (n - 1) + "\u00e4\u20ac\U0001f600" + "\n"); sys.stdout.flush()' >"$W/utf8.py"
run b "$(jq -nc --rawfile s "$W/utf8.py" '{cmd: ["python3", "-c", $s]}')"
is 'characters on the borders of chunks' "$(timeout 10 md5sum <"$X/stdout")" "$(python3 "$W/utf8.py" | md5sum)"
is 'read in uneven pieces' "$(timeout 20 dd if="$X/stdout" bs=4097 status=none | md5sum)" "$(python3 "$W/utf8.py" | md5sum)"
n=$(node b '["cat"]')
python3 "$W/utf8.py" >"$T/b/exec/$n/stdin"
is 'and the same through the input' "$(timeout 10 md5sum <"$T/b/exec/$n/stdout")" "$(python3 "$W/utf8.py" | md5sum)"
run b "$(jq -nc '{cmd: ["printf", "%s", "ä€😀"], env: {"Ü": "ß"}}')"
is 'in arguments' "$(timeout 5 cat "$X/stdout")" 'ä€😀'

# Over the cap everything was thrown away: the front is kept, and what is lost is said.
run b '{"cmd":"seq 1 100000","output_limit":1000,"on_full":"drop"}'
is 'over the cap the front is kept' "$(timeout 5 cat "$X/stdout" | md5sum)" "$(seq 1 100000 | head -c 1000 | md5sum)"
is 'and the rest is said to be lost' "$(res truncated)" true
# What is not there yet must not be taken for granted.
refused 'a limit that this version does not keep is refused by its name' EINVAL \
	"echo '{\"cmd\":\"true\",\"limits\":{\"memory\":10}}' > $T/b/exec/new"
said 'and said' EINVAL limits

# Noise on stdout pushed a short stderr out.
run b 'echo first >&2; head -c 60000000 /dev/zero; echo last >&2'
is 'noise on one stream' "$(timeout 5 cat "$X/stderr" | tr '\n' ' ')$(stat -c %s "$X/stdout") $(res truncated)" 'first last 60000000 false'

# A process that was ended by SIGKILL reported 9.
run b '["sh","-c","kill -9 $$"]'
is 'SIGKILL' "$C $(status_of b "$N") $(timeout 5 jq -c '[.exit_code,.signal,.reason]' "$X/result.json")" '137 signaled SIGKILL [-1,"SIGKILL","signaled"]'
run b '["sh","-c","exit 9"]'
is 'and exit 9 is something else' "$C $(status_of b "$N")" '9 exited 9'

# A signal to everybody inside ended process 1.
for how in 'kill -15 0' 'kill -9 -1' 'kill -15 -1' 'kill -9 1' 'kill -STOP 1' 'kill -SEGV 1' 'kill -ABRT 1' 'pkill -9 -f .'; do
	run b "$how; sleep 0.1"
	is "process 1 outlives '$how'" "$(timeout 5 cat "$T/b/state") $(out b 'echo on')" 'running on'
done

# A race on SIGCHLD: ECHILD and a made-up exit status.
is 'exit codes while orphans are reaped' "$(timeout 60 python3 - "$T/b/exec" <<'X'
import os, sys
base, bad, nodes = sys.argv[1], [], []
fd = os.open(base + "/new", os.O_RDWR)
for i in range(400):
    os.write(fd, f"(true & true &) ; (exit 7) & exit {i % 251}".encode())
    nodes.append(os.read(fd, 100).decode().strip())
for i, n in enumerate(nodes):
    code = open(f"{base}/{n}/code").read().strip()
    if code != str(i % 251): bad.append((i, code))
print(bad)
X
)" '[]'

# Zombies piled up, until fork failed.
run b 'for i in $(seq 800); do (true &); done; echo done'
is '800 orphans' "$(timeout 5 cat "$X/stdout")" done
ok 'none is left as a zombie' wait_for 5 eval '[ "$(out b "grep -l ^State:.Z /proc/[0-9]*/status | wc -l")" = 0 ]'
stop_hutchd
