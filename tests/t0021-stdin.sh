#!/bin/bash
# stdin: who may hold it open, what ends it, and what a full pipe does.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 dash

start_hutchd
box b
# reader: a command that copies stdin to stdout; sets x. got: its output once it has ended.
reader() { x=$T/b/exec/$(node b "${1:-cat}"); }
got() { timeout 20 cat "$x/stdout" || echo "(cat: status $?)"; }
runs() { [ "$(timeout 5 cat "$x/status")" = running ]; }
still() { sleep 0.4; ok "$1" runs; }
ended() { ok "$1" wait_for 5 eval '[ "$(timeout 5 cat $x/status)" = "exited 0" ]'; }

head -c 300000 /dev/urandom >"$W/data"
writers=(
	'echo hi > @' 'echo hi >> @' 'dash -c "echo hi > @"' 'printf "hi\n" > @' '/usr/bin/printf "hi\n" > @'
	'/bin/echo hi > @' 'echo hi | tee @' 'echo hi | tee -a @' 'echo hi | cat > @' 'echo hi | dd of=@ status=none'
	'(echo -n h; echo i) > @' '(echo -n h; sleep 1; echo i) > @' 'exec 3> @; printf h >&3; echo i >&3'
	'python3 -c "open(\"@\", \"w\").write(\"hi\n\")"' 'python3 -c "open(\"@\", \"a\").write(\"hi\n\")"'
	'perl -e "open(my \$f, q(>), q(@)); print \$f qq(hi\n)"' $'cat <<X > @\nhi\nX'
	'node -e "fs.writeFileSync(\"@\", \"hi\\n\")"' 'node -e "fs.promises.writeFile(\"@\", \"hi\\n\")"'
	'(/bin/echo -n h; /bin/echo i) > @'
)
for w in "${writers[@]}"; do
	reader
	ok "write: ${w//$'\n'/ }" timeout 10 bash -c "${w//@/$x/stdin}"
	is "got: ${w//$'\n'/ }" "$(got)" hi
done
for w in 'cat SRC > @' 'cp SRC @' 'cat SRC >> @' 'cat SRC | tee @' 'dd if=SRC of=@ bs=3001 status=none' \
	'python3 -c "import shutil; shutil.copyfile(\"SRC\", \"@\")"' 'node -e "fs.createReadStream(\"SRC\").pipe(fs.createWriteStream(\"@\"))"'; do
	reader
	w=${w//SRC/$W/data}
	ok "300 kB: $w" timeout 10 bash -c "exec >/dev/null; ${w//@/$x/stdin}"
	is "300 kB arrive: $w" "$(got | md5sum)" "$(md5sum <"$W/data")"
done
reader 'cat; wc -l < /proc/self/status > /dev/null; echo after'
printf 'a\nb\nc\n' >"$x/stdin"
is 'three lines of printf' "$(got | tr '\n' ' ')" 'a b c after '

# What ends it and what does not.
reader; ok ': > stdin' timeout 5 bash -c ": > $x/stdin"; ended 'ends it'
: >"$W/empty"
reader; ok 'cat empty > stdin' timeout 5 bash -c "cat $W/empty > $x/stdin"; ended 'ends it'
reader; ok 'cp empty stdin' timeout 5 cp "$W/empty" "$x/stdin"; ended 'ends it'
reader
ok 'touch' timeout 5 touch "$x/stdin"; still 'does not end it'
ok 'true >>' timeout 5 bash -c "true >> $x/stdin"; still 'does not end it'
ok 'truncate -s0' timeout 5 truncate -s0 "$x/stdin"; still 'does not end it'
ok 'stat' timeout 5 stat "$x/stdin"; still 'does not end it'
refused 'reading it' EACCES "cat $x/stdin"; still 'does not end it'
timeout 5 bash -c "exec 3<>$x/stdin" 2>/dev/null
is 'exec 3<> does not hang' "$([ $? != 124 ] && echo fine)" fine
exec 5>>"$x/stdin"
echo a >>"$x/stdin"; still 'an open handle holds it'
: >"$x/stdin"; still 'against > as well'
echo b >&5
sleep 0.2; exec 5>&-; ended 'the last handle ends it'
is 'all of it arrived' "$(got | tr '\n' ' ')" 'a b '
refused 'writing after the end' EPIPE "echo x > $x/stdin"
refused 'appending after the end' EPIPE "echo x >> $x/stdin"
said 'and said' EPIPE

reader; exec 5>"$x/stdin"
echo held >&5
ok 'close-stdin' timeout 5 bash -c "echo close-stdin > $x/ctl"; ended 'ends it against an open handle'
no 'writing to that handle fails' eval 'echo x >&5'
exec 5>&-
ok 'close-stdin twice' timeout 5 bash -c "echo close-stdin > $x/ctl"
reader
(exec 6>"$x/stdin"; echo from-dead >&6; kill -KILL "$BASHPID"; sleep 5); ended 'a writer that was killed ends it'
is 'and what it wrote arrived' "$(got)" from-dead
n=$(node b '{"cmd":["cat"],"stdin":"null"}') x=$T/b/exec/$n; ended '"stdin":"null" is at the end from the start'
refused 'writing to it' EPIPE "echo x > $x/stdin"

# A conversation.
reader sh
exec 5>"$x/stdin" 6<"$x/stdout"
for i in 1 2 3; do
	echo "echo \$(($i * 7))" >&5
	read -r -t 10 line <&6
	is "conversation, answer $i" "$line" $((i * 7))
done
echo 'cd /tmp; pwd; exit 9' >&5
read -r -t 10 line <&6
is 'it keeps its state' "$line" /tmp
is 'and ends as it wants' "$(timeout 5 cat "$x/code")" 9
exec 5>&- 6<&-

# A full pipe parks its writer; it loses nothing, and nobody else waits.
park() { # a writer of 1 MB to a command that does not read: sets pid
	head -c 1000000 /dev/zero | tr '\0' z >"$W/mega"
	env --default-signal=INT,PIPE bash -c 'cat "$1" > "$2"; exit $?' _ "$W/mega" "$x/stdin" 2>"$W/parked" &
	sleep 0.7
	pid=$(pgrep -P $! -x cat || echo $!)
}
asleep() { is "$1" "$(awk '/^State/ { print $2 }' "/proc/$pid/status")" S; }
for signal in INT TERM KILL; do
	reader 'exec sleep 3215'
	park
	asleep "a parked writer sleeps interruptibly (SIG$signal)"
	ok 'another writer with > passes' timeout 5 bash -c ": > $x/stdin"
	ok 'touch passes' timeout 5 touch "$x/stdin"
	timeout 5 chmod 600 "$x/stdin" 2>/dev/null
	is 'chmod does not hang' "$([ $? != 124 ] && echo fine)" fine
	ok 'stat and status pass' timeout 5 bash -c "stat $x/stdin; cat $x/status"
	timeout 2 bash -c "echo second > $x/stdin" & second=$!
	ok 'a second writer of bytes can be ended' gone $second 5
	kill -$signal "$pid"
	ok "SIG$signal frees it" gone "$pid" 2
	timeout 5 bash -c "echo kill > $x/ctl"
	ok 'the command is gone' wait_for 5 eval '[ "$(cat $x/status)" = killed ]'
done
reader 'while [ ! -e /tmp/go ]; do sleep 0.05; done; wc -c'
park
run b 'touch /tmp/go'
ok 'a parked writer goes on when the command reads' gone "$pid" 10
is 'nothing was lost' "$(got)" 1000000
reader 'exec sleep 3216'
park
timeout 5 bash -c "echo kill > $x/ctl"
ok 'a parked writer is freed when the command ends' gone "$pid" 5
like 'with EPIPE' "$(cat "$W/parked")" 'Broken pipe'
reader 'head -c 3; sleep 0.1'
timeout 20 bash -c "cat $W/mega > $x/stdin" 2>/dev/null
is 'a command that stops reading ends as it should' "$(got) $(timeout 5 cat "$x/code")" 'zzz 0'
reader 'exec sleep 3217'
is 'non-blocking: takes what fits, then EAGAIN' "$(timeout 10 python3 - "$x/stdin" <<'X'
import os, select, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)
n = 0
try:
    while n < 10000000: n += os.write(fd, b"x" * 65536)
except BlockingIOError: print("EAGAIN", 0 < n < 2000000, select.select([], [fd], [], 0.3)[1])
X
)" 'EAGAIN True []'
stop_hutchd
