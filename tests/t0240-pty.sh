#!/bin/bash
# Terminals: whose they are, typing, job control, resizing, the last bytes, and what must be refused.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 nsenter pgrep ps

start_hutchd
pid=$(hutchd_pid)
box b
tty_of() { printf '{"cmd":%s,"pty":{%s}}' "$(jq -Rn --arg c "$1" '$c')" "${2-}"; }
on_tty() { out b "$(tty_of "$1" "${2-}")" | tr -d '\r'; }
# begin SCRIPT: a command with a terminal that runs; x is its directory, 5 types into it.
begin() {
	N=$(node b "$(tty_of "$1" "${2-}")") x=$T/b/exec/$N
	exec 5>"$x/stdin"
}
# shows REGEX: the terminal shows it, soon.
shows() { wait_for 10 eval "timeout 2 head -c \$(stat -c %s '$x/stdout') '$x/stdout' | tr -d '\r' | grep -Eq '$1'"; }
finished() { exec 5>&-; timeout 10 bash -c "echo kill >'$x/ctl'; cat '$x/code'"; }

# What a command sees.
is 'tty, size, TERM' "$(on_tty 'tty; stty size; echo $TERM' | tr '\n' ' ')" '/dev/pts/0 24 80 xterm-256color '
is 'size and term as asked' "$(on_tty 'stty size; echo $TERM' '"rows":50,"cols":132,"term":"vt100"' | tr '\n' ' ')" '50 132 vt100 '
is 'env wins over term' "$(out b '{"cmd":"echo $TERM","pty":{"term":"vt100"},"env":{"TERM":"dumb"}}')" $'dumb\r'
is 'no terminal, no TERM' "$(out b 'echo "<$TERM>"; tty')" $'<>\nnot a tty'
is 'stdin, stdout and stderr are it' "$(on_tty 'for i in 0 1 2; do test -t $i && echo yes; done; echo e >&2; echo t >/dev/tty' | tr '\n' ' ')" 'yes yes yes e t '
run b "$(tty_of 'echo e >&2')"
is 'stderr is empty, and ends' "$(timeout 5 cat "$X/stderr" | wc -c) $(res stderr_bytes)" '0 0'
for user in 0 1000:1000; do
	got=$(out b "{\"cmd\":\"echo x >/dev/stderr; echo y >\$(tty); stat -c '%u %G %a' \$(tty); id -u\",\"user\":\"$user\",\"pty\":{}}" | tr -d '\r' | tr '\n' ' ')
	is "it belongs to the command's user ($user)" "$got" "x y ${user%:*} tty 620 ${user%:*} "
done
is 'it leads a session of this terminal' "$(on_tty 'ps -o pid=,sid=,pgid=,tpgid= -p $$' | awk '{ print ($1 == $2) ($1 == $3) ($4 > 0) }')" 111
is 'terminals inside, by others, are of the same devpts' "$(on_tty 'python3 -c "import pty,os; print(os.ttyname(pty.openpty()[1]))"')" /dev/pts/1

# A named node, and the spec's exec.
mkdir "$T/b/exec/named"
ok 'set pty.rows' timeout 5 bash -c "printf 'set pty.rows 33\nset pty.cols 44\n' >$T/b/exec/named/ctl"
refused 'winsize before the command' EAGAIN "echo winsize 1 2 >$T/b/exec/named/ctl"
said 'and says what to do' EAGAIN 'set pty.rows 1'
refused 'no stdin, no terminal' EINVAL "echo set stdin null >$T/b/exec/named/ctl"
said 'and says so' EINVAL 'stdin'
echo 'stty size; sleep 0.1' >"$T/b/exec/named/cmd"
is 'has that size' "$(timeout 10 cat "$T/b/exec/named/stdout")" $'33 44\r'
ok 'the same again' timeout 5 bash -c "echo 'stty size; sleep 0.1' >$T/b/exec/named/cmd"
is 'cmd shows it' "$(jq -c .pty "$T/b/exec/named/cmd")" '{"rows":33,"cols":44}'
refused 'no terminal without output' EINVAL "echo '{\"cmd\":\"x\",\"pty\":{},\"stdout\":\"null\"}' >$T/b/exec/new"

# Typing. Who has stopped typing has not gone away.
begin 'read a; echo "<$a>"; read b; echo "<$b>"; cat; echo after; cat; echo end'
exec 5>&-
echo one >"$x/stdin"
ok 'a line' shows '^<one>$'
echo two >"$x/stdin"
ok 'another, by another writer' shows '^<two>$'
printf 'three' >"$x/stdin"
ok 'it echoes' shows three
ok 'close-stdin' timeout 5 bash -c "echo close-stdin >$x/ctl"
ok 'ends the input, in the middle of a line too' shows '^threethreeafter$'
echo four >"$x/stdin"
ok 'and the terminal goes on' shows '^four$'
ok 'close-stdin again' timeout 5 bash -c "echo close-stdin >$x/ctl"
is 'and the command ends' "$(timeout 10 cat "$x/code")" 0
ok 'close-stdin of one that is over' timeout 5 bash -c "echo close-stdin >$x/ctl"
refused 'writing to it' EPIPE "echo x >$x/stdin"

# Job control.
begin 'exec bash --norc --noprofile -i' '"term":"dumb"'
echo 'PS1=; set -m; stty -echo; echo ready' >&5
ok 'a shell' shows '^ready$'
echo 'sleep 6401; echo "code $?"' >&5
ok 'a job in the foreground' wait_for 5 pgrep -f '^sleep 6401'
printf '\003' >&5
echo 'echo "after $((40 + 2))"' >&5
ok 'Ctrl-C ends the job' shows '^after 42$'
ok 'and only the job' test "$(status_of b "$N")" = running
no 'it is gone' pgrep -f '^sleep 6401'
echo 'sleep 6402' >&5
ok 'another job' wait_for 5 pgrep -f '^sleep 6402'
printf '\032' >&5
echo 'jobs' >&5
ok 'Ctrl-Z stops it' shows 'Stopped +sleep 6402'
echo 'fg' >&5
ok 'fg: it runs' wait_for 5 eval '[ "$(ps -o stat= -p "$(pgrep -f "^sleep 6402")" | cut -c1)" = S ]'
printf '\034' >&5
echo 'exit 7' >&5
is 'Ctrl-\ ends it; the shell exits' "$(timeout 10 cat "$x/code")" 7
exec 5>&-

# Resizing.
begin 'trap "echo WINCH \$(stty size)" WINCH; echo ready; while :; do sleep 0.05; done'
ok 'it runs' shows '^ready$'
ok 'winsize' timeout 5 bash -c "echo winsize 40 100 >$x/ctl"
ok 'SIGWINCH arrives, and the size is new' shows '^WINCH 40 100$'
for bad in '' 1 '0 1' '1 0' '1 65536' '1 2 3' 'a b' '-1 2' '1x2' '99999999999999999999 1'; do
	refused "winsize $bad" EINVAL "echo 'winsize $bad' >$x/ctl"
done
ok 'the largest' timeout 5 bash -c "echo winsize 65535 65535 >$x/ctl"
ok 'arrives' shows '^WINCH 65535 65535$'
is 'kill' "$(finished)" 137
ok 'winsize of one that is over' timeout 5 bash -c "echo winsize 1 1 >$x/ctl"
n=$(node b 'exec sleep 6403')
text=$(timeout 5 bash -c "echo winsize 1 1 >$T/b/exec/$n/ctl" 2>&1)
like 'winsize without a terminal' "$text" 'Inappropriate ioctl'
said 'says why' ENOTTY "has no terminal"

# The last bytes. Without a pause between the write and the end, many times.
last='["python3","-c","import os,sys,tty\ntty.setraw(1)\nb=b\"x\"*99999+b\"y\"\nwhile b: b=b[os.write(1,b):]\nos._exit(0)"]'
bad=0
for i in {1..25}; do
	run b "{\"cmd\":$last,\"pty\":{}}"
	[ "$(res stdout_bytes) $(stat -c %s "$X/stdout") $(tail -c 2 "$X/stdout")" = '100000 100000 xy' ] || bad=$((bad + 1))
done
is '100 kB and the end at once: all there with the result, 25 times' "$bad" 0
bad=0
for i in {1..25}; do
	run b '{"cmd":["python3","-c","import os,tty,time,signal\nsignal.signal(1,1)\ntty.setraw(1)\nif os.fork()==0: time.sleep(900)\nb=b\"z\"*9000\nwhile b: b=b[os.write(1,b):]\nos._exit(0)"],"pty":{}}'
	[ "$(res stdout_bytes) $(res streams_open)" = '9000 true' ] || bad=$((bad + 1))
done
is 'the same when a background process keeps the terminal' "$bad" 0
ok 'which ends with it' eval "timeout 5 bash -c 'echo kill >$X/ctl'; timeout 10 cat $X/stdout | wc -c | grep -qx 9000"
echo kill >"$T/b/ctl"
run b "$(tty_of 'exec <&- >&- 2>&-; sleep 0.3; echo again >/dev/tty')"
is 'a leader that lets go of it for a while has not hung up' "$(timeout 5 cat "$X/stdout")" $'again\r'
# shellcheck disable=SC2016
run b "$(tty_of 'set -m; (trap "echo hup >/tmp/hup; exit" HUP; sleep 6405) & fg >/dev/null & sleep 0.2; kill -9 $$')"
is 'a leader that is killed' "$C" 137
head -c 300000 /dev/urandom | base64 >"$W/text"
N=$(node b "$(tty_of 'stty raw -echo; echo ready; head -c '"$(stat -c %s "$W/text")"' | md5sum')") x=$T/b/exec/$N
ok 'raw' shows ready
timeout 20 bash -c "cat $W/text >$x/stdin"
like 'what is typed fast arrives whole' "$(timeout 10 cat "$x/stdout")" "$(md5sum <"$W/text" | cut -d' ' -f1)"

# A full stream stops what is shown, until somebody reads.
N=$(node b '{"cmd":"stty -opost; seq -f %07.0f 1 20000","pty":{},"output_limit":16384}') x=$T/b/exec/$N
ok 'full: status says so' wait_for 10 status_is b "$N" 'running (stdout full)'
is 'full: a reader gets all of it' "$(timeout 20 cat "$x/stdout" | md5sum)" "$(seq -f %07.0f 1 20000 | md5sum)"
is 'full: and it ends' "$(timeout 10 cat "$x/code")" 0
run b '{"cmd":"stty -opost; seq -f %07.0f 1 20000","pty":{},"output_limit":16384,"on_full":"drop"}'
is 'dropped: it runs on' "$C $(res truncated)" '0 true'
is 'dropped: what came first is kept' "$(timeout 10 head -c 16384 "$X/stdout" | md5sum)" "$(seq -f %07.0f 1 2048 | md5sum)"

# A terminal that nobody reads parks its writer.
begin 'stty raw -echo; echo ready; exec sleep 6406'
ok 'one that does not read' shows ready
bash -c "cat $W/text >$x/stdin" 2>"$W/parked" & writer=$!
sleep 0.5 # the kernel makes room once: what is typed moves on to where it is read
bash -c "cat $W/text >$x/stdin" 2>/dev/null & second=$!
sleep 0.5
is 'its writer waits' "$(awk '/^State/ { print $2 }' /proc/$writer/status)" S
refused 'close-stdin finds no room, and says so' EAGAIN "echo close-stdin >$x/ctl"
is 'kill ends it' "$(finished)" 137
ok 'and the writers' eval 'gone $writer 5 && gone $second 5'
like 'with EPIPE' "$(cat "$W/parked")" 'Broken pipe'
run b '{"cmd":"sleep 20","timeout_s":0.3,"pty":{}}'
is 'timeout' "$C" 124

# Descriptors, and how many there may be.
steady
base=$(fds)
for i in {1..20}; do echo '{"cmd":"echo x; exec sleep 6407","pty":{}}' >"$T/b/exec/new"; done
wait_for 10 eval '[ "$(pgrep -fc "^sleep 6407")" = 20 ]'
got=$(fds)
ok "20 live ones cost $((got - base)) descriptors, at most 7 each" test $((got - base)) -le 140
echo kill >"$T/b/ctl"
ok 'none when they are over' wait_for 10 eval '[ "$(fds)" -le "$base" ]'
on_tty 'python3 -c "
import os
held = []
try:
    while True: held.append(os.openpty())
except OSError: pass
print(len(held), flush=True)
import time; time.sleep(3)" & sleep 1.5' >"$W/held"
ok "a sandbox can have $(head -n 1 "$W/held") terminals" test "$(head -n 1 "$W/held")" -lt 256
N=$(node b "$(tty_of 'python3 -c "
import os
held = []
try:
    while True: held.append(os.openpty())
except OSError: pass
print(len(held), flush=True)
import time; time.sleep(60)"')") x=$T/b/exec/$N
ok 'it has them all' shows '^[0-9]+$'
run b "$(tty_of 'echo never')"
like 'one more fails, and says why' "$(status_of b "$N")" 'failed: open a terminal: there are as many as'
is 'with 125' "$C" 125
echo kill >"$x/ctl"
ok 'then there is room again' wait_for 10 eval '[ "$(on_tty "echo room")" = room ]'

# Something else where /dev/pts was. (Nobody inside may mount; the host's root is who does it here.)
box h
first=$(node h 'exec sleep 6408')
wait_for 5 status_is h "$first" running
one=$(ps -o ppid= -p "$(pgrep -f '^sleep 6408')" | tr -d ' ')
inside() { nsenter -t "$one" -m -- "$@"; }
hostile() { # WHAT: refused with a sentence, and hutchd is well
	local start
	start=$(now_ms)
	run h '{"cmd":"echo never","pty":{}}'
	like "$1: refused" "$(status_of h "$N")" "failed: open a terminal: the sandbox's /dev/pts is not the one"
	ok 'at once' test $(($(now_ms) - start)) -lt 5000
	is 'other commands run' "$(out h 'echo fine')" fine
}
inside mount -t tmpfs none /dev/pts
hostile 'an empty directory'
inside mkfifo /dev/pts/ptmx
hostile 'a fifo'
inside rm /dev/pts/ptmx
inside ln -s /proc/1/root/dev/null /dev/pts/ptmx
hostile 'a link'
inside rm /dev/pts/ptmx
inside mknod /dev/pts/ptmx c 1 3
hostile 'another device'
inside umount /dev/pts
is 'and without that, it works' "$(out h '{"cmd":"tty","pty":{}}')" $'/dev/pts/0\r'
inside mount -t tmpfs none /dev
hostile 'an empty /dev'
inside umount /dev
echo stop >"$T/h/ctl"
ok 'it can be stopped' wait_for 10 state_is h stopped
stop_hutchd
