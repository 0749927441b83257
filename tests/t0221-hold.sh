#!/bin/bash
# hold: what is held goes when its last handle closes, however that came about, and not before.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
gone_box() { wait_for 5 eval "! test -e $T/$1"; }
there() { test -e "$T/$1/state"; }

# Each way of opening it for writing and closing it.
for how in 'touch H' ': > H' 'true >> H' 'truncate -s 0 H' 'echo x > H' 'cp /dev/null H' 'exec 9> H' 'exec 9> H; echo bye >&9' \
	'python3 -c "open(\"H\", \"w\")"' 'dd if=/dev/zero of=H bs=64k count=20 status=none' 'node -e "fs.writeFileSync(\"H\", \"\")"'; do
	box b
	ok "$how" timeout 5 bash -c "${how//H/$T/b/hold}"
	ok "$how: it is removed" gone_box b
done

# What is not one.
box b
refused 'reading it' EACCES "cat $T/b/hold"
for how in 'stat %h' 'ls -l %h' 'test -w %h' 'find %d -newer %h' 'grep -rs x %d' 'tar -C %d -cf - . | wc -c' 'cp -a %d/. %c' \
	'python3 -c "import os; os.open(\"%h\", os.O_PATH)"'; do
	mkdir "$W/copy"
	how=${how//%h/$T/b/hold} how=${how//%d/$T/b} how=${how//%c/$W/copy}
	timeout 10 bash -c "$how" >/dev/null 2>&1
	rm -rf "$W/copy"
	sleep 0.1
	ok "it stays: ${how//"$T"/T}" there b
done

# The last handle counts: of several processes, inherited, duplicated, passed on.
exec 5>"$T/b/hold" 6>"$T/b/hold"
sleep 300 7>"$T/b/hold" 5>&- 6>&- & keeper=$!
exec 5>&-
is 'stats.json counts them' "$(timeout 5 jq .holds "$T/stats.json")" 2
exec 6>&-
sleep 0.3
ok 'one of three is left' there b
{ kill -KILL $keeper; wait $keeper; } 2>/dev/null
ok 'kill -9 of the last holder' gone_box b
box b
bash -c 'exec 9>"$1"; sleep 0.6 & exit 0' _ "$T/b/hold"
ok 'a child has inherited it' there b
ok 'until it ends' gone_box b
is 'passed through a socket' "$(box b; timeout 20 python3 - "$T/b" <<'X'
import os, socket, sys, time
hold, state = sys.argv[1] + "/hold", sys.argv[1] + "/state"
a, b = socket.socketpair()
fd = os.open(hold, os.O_WRONLY)
socket.send_fds(a, [b"x"], [fd]); os.close(fd)
time.sleep(0.3); print(os.path.exists(state))          # in flight
got = socket.recv_fds(b, 1, 1)[1][0]
time.sleep(0.3); print(os.path.exists(state))          # received
os.close(got)
for _ in range(100):
    if not os.path.exists(state): break
    time.sleep(0.05)
print(os.path.exists(state))
X
)" $'True\nTrue\nFalse'

# With all that is in it: commands, readers, writers.
box b
exec 5>"$T/b/hold"
n=$(node b 'sleep 7201 & setsid sleep 7202 & echo up; wait')
wait_for 5 test -s "$T/b/exec/$n/stdout"
(exec 5>&-; timeout 30 cat "$T/b/exec/$n/code" >/dev/null 2>&1) & reader=$! # it would hold as well
sleep 0.2
exec 5>&-
ok 'a sandbox at work' gone_box b
ok 'its reader is freed' gone $reader 5
ok 'its processes are gone' wait_for 5 eval '! pgrep -f "^sleep 720[12]$"'
ok 'events says so' wait_for 5 eval '[ "$(jq -r "select(.sandbox == \"b\") | .event" "$T/events" | tail -1)" = removed ]'
box b
exec 5>"$T/b/hold"
echo stop >"$T/b/ctl"
wait_for 5 state_is b stopped
exec 5>&-
ok 'a stopped one as well' gone_box b

# A name that comes back is another sandbox.
box b
exec 5>"$T/b/hold"
ok 'rmdir of one that is held' timeout 5 rmdir "$T/b"
box b
exec 5>&-
sleep 0.3
is 'an old handle does not remove the new one' "$(timeout 5 cat "$T/b/state")" running

# 200 holders, in an order of their own.
is '200 handles, closed in any order' "$(timeout 30 python3 - "$T/b" <<'X'
import os, random, sys, time
fds = [os.open(sys.argv[1] + "/hold", os.O_WRONLY) for _ in range(200)]
random.seed(5); random.shuffle(fds)
for fd in fds[1:]: os.close(fd)
time.sleep(0.3); print(os.path.exists(sys.argv[1] + "/state"))
X
)" True
ok 'and the last' gone_box b

# Of a command: it is killed; its node and its result stay.
box b
n=$(node b 'echo kept; sleep 7203 & setsid sleep 7204 & wait')
x=$T/b/exec/$n
wait_for 5 test -s "$x/stdout"
exec 5>"$x/hold" 6>"$x/hold"
exec 5>&-
sleep 0.3
is 'a command that is held by one more' "$(status_of b "$n")" running
exec 6>&-
is 'is killed with the last' "$(timeout 10 cat "$x/code") $(status_of b "$n") $(timeout 5 cat "$x/stdout")" '137 killed kept'
ok 'with its family' wait_for 5 eval '! pgrep -f "^sleep 720[34]$"'
ok 'touch of it afterwards' timeout 5 touch "$x/hold"
is 'changes nothing' "$(status_of b "$n")" killed
run b 'exit 3'
touch "$X/hold"
is 'nor of one that is over' "$(status_of b "$N")" 'exited 3'
mkdir "$T/b/exec/named"
exec 5>"$T/b/exec/named/hold"
echo 'exec sleep 7205' >"$T/b/exec/named/cmd"
wait_for 5 status_is b named running
exec 5>&-
is 'held before it had a command' "$(timeout 10 cat "$T/b/exec/named/code") $(status_of b named)" '137 killed'
( exec 5>"$T/b/exec/$(node b 'exec sleep 7206')/hold"; exec -a holder sleep 300 ) & holder=$!
wait_for 5 eval 'pgrep -f "^sleep 7206$" && pgrep -f "^holder 300$"'
kill -KILL $holder
wait $holder 2>/dev/null
ok 'kill -9 of its holder' wait_for 5 eval '! pgrep -f "^sleep 7206$"'
is 'the sandbox runs on' "$(out b 'echo on')" on

# A holder that outlives hutchd holds nothing any more; so what it held goes with hutchd.
box free
exec 5>"$T/b/hold"
for how in crash stop; do
	${how}_hutchd
	start_hutchd
	is "$how: what was held is gone, the rest is there" "$(find "$T" -mindepth 1 -maxdepth 1 -type d -printf '%f ')" 'free '
	exec 5>&-
	box b
	exec 5>"$T/b/hold"
done
exec 5>&-
ok 'and nothing else of it' gone_box b
stop_hutchd
