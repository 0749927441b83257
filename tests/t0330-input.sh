#!/bin/bash
# input: standard input by offset, for who resumes; and what counts as having written to stdin.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3

start_hutchd
box b
# reader [COMMAND]: by default one that copies its input; sets x. got: its output once it has ended.
reader() { x=$T/b/exec/$(node b "${1:-cat}"); }
sleeper() { rm -f "$W/go"; run b 'rm -f /tmp/go'; reader 'while [ ! -e /tmp/go ]; do sleep 0.05; done; cat'; }
go() { run b 'touch /tmp/go'; }
got() { timeout 20 cat "$x/stdout" || echo "(cat: status $?)"; }
sum() { timeout 60 md5sum <"$x/stdout"; }
taken() { stat -c %s "$x/input"; }
running() { [ "$(timeout 5 cat "$x/status")" = running ]; }
still() { sleep 0.4; ok "$1" running; }
close_stdin() { timeout 5 bash -c "echo close-stdin > $x/ctl"; }
ended() { ok "$1" wait_for 5 eval '[ "$(timeout 5 cat $x/status)" = "exited 0" ]'; }
# fill: so much that a pipe takes no more.
fill() {
	timeout 10 python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)
try:
    while True: os.write(fd, b"f" * 65536)
except BlockingIOError: pass' "$x/input"
}
head -c 3000000 /dev/urandom >"$W/data"
want=$(md5sum <"$W/data")

# Offsets: what was taken is skipped, what follows is written, a gap is refused.
reader
is 'at first nothing was taken' "$(taken)" 0
ok 'from the beginning' timeout 5 bash -c "printf 0123 > $x/input"
is 'st_size is what was taken' "$(taken)" 4
still 'closing it is no end'
ok 'the same again' timeout 5 bash -c "printf 0123 > $x/input"
is 'is skipped' "$(taken)" 4
ok 'a part of it' bash -c "printf 12 | timeout 5 dd of=$x/input bs=1 seek=1 status=none"
ok 'some of which is new' bash -c "printf 23456 | timeout 5 dd of=$x/input bs=9 seek=2 oflag=seek_bytes status=none"
is 'that much is taken' "$(taken)" 7
ok 'right behind it' bash -c "printf 78 | timeout 5 dd of=$x/input bs=1 seek=7 conv=notrunc status=none"
refused 'a gap' EINVAL "printf x | dd of=$x/input bs=1 seek=10 status=none"
said 'names the offset that was expected' EINVAL '9 bytes.*offset 10'
refused 'a gap of one' EINVAL "printf x | dd of=$x/input bs=1 seek=10 conv=notrunc status=none"
is 'took nothing' "$(taken)" 9
for how in ": > $x/input" "truncate -s 0 $x/input" "truncate -s 3 $x/input" "touch $x/input" "true >> $x/input"; do
	ok "no effect: ${how//$x\//}" timeout 5 bash -c "$how"
done
is 'st_size is as before' "$(taken)" 9
still 'it has not ended'
refused 'reading it' EACCES "cat $x/input"
ok 'close-stdin' close_stdin
ended 'ends it'
is 'what arrived' "$(got)" 012345678
refused 'a new byte after the end' EPIPE "printf 0123456789 | dd of=$x/input bs=1 skip=9 seek=9 status=none"
said 'says so' EPIPE
refused 'a gap after the end' EPIPE "printf x | dd of=$x/input bs=1 seek=20 status=none"
ok 'what was taken before is skipped then too' timeout 5 bash -c "printf 012345678 > $x/input"
is 'st_size of a finished one' "$(taken)" 9

# One pipe, two files.
reader
printf abc >>"$x/input"
exec 5>>"$x/stdin"
printf def >&5
is 'bytes of stdin count' "$(taken)" 6
printf abcdefghi >"$x/input"
is 'and are skipped in input' "$(taken)" 9
still 'an open stdin holds it'
exec 5>&-
ended 'as its close ends it, and input has no part in that'
is 'one stream' "$(got)" abcdefghi
reader
exec 5>>"$x/stdin"
printf x >"$x/input"
exec 5>&-
still 'a write to input is none to stdin'
exec 5>>"$x/input"
printf y >"$x/stdin"
ended 'an open input does not hold it'
exec 5>&-
is 'both arrived' "$(got)" xy

# Appending: at the end, wherever that is by then.
reader
exec 5>>"$x/input" 6>>"$x/input"
printf 1 >&5; printf 2 >&6; printf 3 >&5; printf 4 >&5; printf 5 >&6
exec 5>&- 6>&-
ok 'dd oflag=append' bash -c "printf 6 | timeout 5 dd of=$x/input oflag=append conv=notrunc status=none"
ok 'O_APPEND that was set later' timeout 5 python3 -c "
import fcntl, os
fd = os.open('$x/input', os.O_WRONLY); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND); os.write(fd, b'7')"
is 'each is at the end' "$(taken)" 7
exec 5>"$x/input"
printf 1234567 >&5; printf 8 >&5; printf 9 >&5
exec 5>&-
close_stdin
is 'none was lost or came twice' "$(got)" 123456789

# A command that was not written yet, and one without stdin.
timeout 5 mkdir "$T/b/exec/named"; x=$T/b/exec/named
refused 'a node without a command' EAGAIN "echo x > $x/input"
is 'whose size is 0' "$(taken)" 0
echo cat >"$x/cmd"
ok 'then it is' timeout 5 bash -c "echo x > $x/input"
close_stdin
is 'and arrives' "$(got)" x
reader '{"cmd":["cat"],"stdin":"null"}'
refused '"stdin":"null"' EPIPE "echo x > $x/input"

# Resuming.
ways=(
	'cat @DATA > @/input'
	'tail -c +$((at + 1)) @DATA >> @/input'
	'tail -c +$((at + 1)) @DATA | dd of=@/input bs=64k seek=$at oflag=seek_bytes conv=notrunc status=none'
	'dd if=@DATA of=@/input bs=1M skip=$at seek=$at iflag=skip_bytes oflag=seek_bytes status=none'
	'python3 -c "import os; fd = os.open(\"@/input\", os.O_WRONLY); d = open(\"@DATA\", \"rb\").read()
n = $at
while n < len(d): n += os.pwrite(fd, d[n:n + 100000], n)"'
)
for way in "${ways[@]}"; do
	sleeper
	timeout 60 cat "$W/data" >"$x/input" 2>/dev/null & writer=$!
	ok 'an upload begins' wait_for 5 eval '[ $(taken) -gt 0 ]'
	sleep 0.3
	pid=$(pgrep -P $writer -x cat || echo $writer)
	is 'its writer sleeps interruptibly' "$(awk '/^State/ { print $2 }' "/proc/$pid/status")" S
	kill -KILL "$pid"
	ok 'and is killed' gone "$pid" 2
	wait $writer 2>/dev/null
	at=$(taken)
	ok 'in the middle' test "$at" -gt 0 -a "$at" -lt 3000000
	go
	still 'which is no end'
	way=${way//@DATA/$W/data}
	export at
	ok "resume: ${way//$x/}" timeout 20 bash -c "${way//@/$x}"
	is 'all of it was taken' "$(taken)" 3000000
	close_stdin
	is 'byte by byte' "$(sum)" "$want"
done

# Two at once, who both send all of it.
sleeper
for i in 1 2 3; do timeout 60 bash -c "cat $W/data > $x/input" & pids[i]=$!; done
sleep 0.5
go
for i in 1 2 3; do
	wait "${pids[i]}"
	is "writer $i of three of the same" $? 0
done
close_stdin
is 'whose bytes are there once' "$(sum)" "$want"

# A parked writer: interrupted it hears how many were taken, and nobody else waits.
reader 'exec sleep 3218'
cat >"$W/short.py" <<'X'
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *a: None); signal.siginterrupt(signal.SIGALRM, True)
fd = os.open(sys.argv[1], os.O_WRONLY)
size = os.stat(sys.argv[1]).st_size
for want in (True, False):
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    n = libc.pwrite(fd, b"x" * 500000, ctypes.c_size_t(500000), ctypes.c_long(size))
    after = os.stat(sys.argv[1]).st_size
    print(0 < n < 500000 if want else (n, os.strerror(ctypes.get_errno())), after - size == max(n, 0))
    size = after
X
is 'interrupted: a short count, and then EINTR' "$(timeout 10 python3 "$W/short.py" "$x/input" | tr '\n' ' ')" \
	"True True (-1, 'Interrupted system call') True "
full=$(taken)
timeout 60 cat "$W/data" >>"$x/input" 2>/dev/null & writer=$!
sleep 0.5
pid=$(pgrep -P $writer -x cat || echo $writer)
is 'a parked writer sleeps interruptibly' "$(awk '/^State/ { print $2 }' "/proc/$pid/status")" S
ok 'another one with > passes' timeout 5 bash -c ": > $x/input"
ok 'so do touch, truncate, stat, and one who skips' timeout 5 bash -c \
	"touch $x/input; truncate -s 0 $x/input; stat $x/input; printf xxx > $x/input; cat $x/status"
timeout 5 chmod 600 "$x/input" 2>/dev/null
is 'and chmod' "$([ $? != 124 ] && echo fine)" fine
is 'O_NONBLOCK and poll' "$(timeout 10 python3 - "$x/input" <<'X'
import os, select, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)
try: print(os.pwrite(fd, b"y", os.stat(sys.argv[1]).st_size))
except BlockingIOError: print("EAGAIN", select.select([], [fd], [], 0.3)[1])
X
)" 'EAGAIN []'
is 'nothing more was taken' "$(taken)" "$full"
timeout 5 bash -c "echo kill > $x/ctl"
ok 'the end of the command frees it' gone "$pid" 5
wait $writer

# Of whom nothing was taken has not written, and does not end stdin.
for signal in INT TERM KILL; do
	sleeper
	ok 'the pipe is full' fill
	full=$(taken)
	env --default-signal=INT python3 -c 'import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND), b"x" * 9)' \
		"$x/stdin" 2>/dev/null & writer=$!
	sleep 0.7
	kill -$signal $writer
	ok "a writer that waits for the first byte, SIG$signal" gone $writer 2
	wait $writer 2>/dev/null
	go
	still 'has not ended stdin'
	is 'nor written' "$(taken)" "$full"
	printf end >"$x/stdin"
	ended 'who writes does'
	is 'and nothing else came' "$(timeout 5 tail -c +$((full + 1)) "$x/stdout")" end
done
sleeper
fill
timeout 10 python3 -c 'import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK), b"x")' "$x/stdin" 2>"$W/again"
like 'non-blocking, nothing taken' "$(cat "$W/again")" BlockingIOError
go
still 'has not ended it either'
timeout 5 bash -c "echo kill > $x/ctl"
stop_hutchd
