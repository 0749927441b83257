#!/bin/bash
# stdout and stderr while the command runs, and when they end.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
# go FILE: lets a command that waits for /tmp/FILE go on.
go() { run b "touch /tmp/$1"; }
until_file() { echo "while [ ! -e /tmp/$1 ]; do sleep 0.05; done"; }
size_is() { [ "$(stat -c %s "$1")" = "$2" ]; }

# A reader at the end waits; all readers get everything, early, late and from an offset.
n=$(node b "echo one; $(until_file a); echo two; $(until_file b); echo three")
x=$T/b/exec/$n
for i in 1 2 3; do (timeout 60 cat "$x/stdout" >"$W/reader$i") & pids[i]=$!; done
ok 'the first line comes at once' wait_for 5 grep -qx one "$W/reader1"
ok 'to the second reader too' wait_for 5 grep -qx one "$W/reader2"
ok 'st_size is what is there' wait_for 5 size_is "$x/stdout" 4
is 'test -s is true while it runs' "$([ -s "$x/stdout" ] && echo yes)" yes
is 'wc -c counts what is there' "$(timeout 5 wc -c <"$x/stdout")" 4
is 'a result is not there yet' "$(timeout 1 cat "$x/result.json"; echo $?)" 124
is 'nor a code' "$(timeout 1 cat "$x/code"; echo $?)" 124
(timeout 60 tail -f "$x/stdout" >"$W/tail" 2>&1) & tail=$!
(timeout 60 tail -c +3 -f "$x/stdout" >"$W/tail2" 2>&1) & tail2=$!
sleep 0.5
go a
ok 'the second line comes' wait_for 5 grep -qx two "$W/reader3"
ok 'tail -f shows it' wait_for 5 grep -qx two "$W/tail"
ok 'a reader from an offset' bash -c "timeout 5 dd if=$x/stdout bs=1 skip=4 count=3 status=none | grep -qx two"
(timeout 60 cat "$x/stdout" >"$W/late") & late=$!
mtime=$(stat -c %.9Y "$x/stdout")
go b
wait "${pids[@]}" $late
for f in reader1 reader2 reader3 late; do is "$f has all" "$(tr '\n' ' ' <"$W/$f")" 'one two three '; done
ok 'mtime has moved' test "$mtime" != "$(stat -c %.9Y "$x/stdout")"
is 'a reader after the end' "$(timeout 5 cat "$x/stdout" | tr '\n' ' ')" 'one two three '
ok 'tail -f has all' wait_for 5 eval "[ \"\$(tr '\\n' ' ' < $W/tail)\" = 'one two three ' ]"
ok 'tail -c +3 -f has all from there' wait_for 5 eval "[ \"\$(tr '\\n' ' ' < $W/tail2)\" = 'e two three ' ]"
kill $tail $tail2 2>/dev/null

# The stream ends when every process that holds it is gone; the result does not wait.
n=$(node b "(trap '' HUP; $(until_file c); echo child) & echo leader")
x=$T/b/exec/$n
(timeout 60 cat "$x/stdout" >"$W/held") & reader=$!
is 'the result is there while a child holds stdout' "$(timeout 10 cat "$x/code")" 0
is 'streams_open says so' "$(timeout 5 jq .streams_open "$x/result.json")" true
sleep 0.5
ok 'the reader still waits' kill -0 $reader
is 'what the leader wrote is there' "$(cat "$W/held")" leader
go c
ok 'then it ends' gone $reader 5
is 'with what the child wrote' "$(tr '\n' ' ' <"$W/held")" 'leader child '

# A child that goes on in the background does not hold a command with redirected output.
n=$(node b 'sleep 3213 >/dev/null 2>&1 </dev/null & echo x')
is 'no holder, no waiting' "$(timeout 5 cat "$T/b/exec/$n/stdout" "$T/b/exec/$n/code" | tr '\n' ' ')" 'x 0 '

# Signals end a waiting read; nothing sits in D.
n=$(node b 'exec sleep 3214')
x=$T/b/exec/$n
for f in stdout stderr result.json code; do
	for signal in INT TERM KILL; do
		env --default-signal=INT cat "$x/$f" >"$W/none" 2>&1 &
		pid=$!
		sleep 0.3
		is "a reader of $f sleeps interruptibly" "$(awk '/^State/ { print $2 }' /proc/$pid/status)" S
		kill -$signal $pid
		ok "SIG$signal ends a reader of $f" gone $pid 2
	done
done
like 'a read that is interrupted says EINTR' "$(timeout 10 python3 - "$x/stdout" <<'X'
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *a: None); signal.siginterrupt(signal.SIGALRM, True)
fd = os.open(sys.argv[1], os.O_RDONLY); signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
print(libc.read(fd, ctypes.create_string_buffer(10), 10), os.strerror(ctypes.get_errno()))
X
)" '-1 Interrupted system call'

# O_NONBLOCK, poll, select and epoll.
is 'O_NONBLOCK and poll' "$(timeout 30 python3 - "$T/b/exec" <<'X'
import os, select, sys
base = sys.argv[1]
def node(cmd):
    fd = os.open(base + "/new", os.O_RDWR); os.write(fd, cmd); n = os.read(fd, 99).decode().strip(); os.close(fd)
    return base + "/" + n
d = node(b"read a; echo $a; read b; echo $b >&2; exit 2")
R = os.O_RDONLY | os.O_NONBLOCK
out, err, res = (os.open(d + "/" + f, R) for f in ("stdout", "stderr", "result.json"))
for fd in (out, err, res):
    try: print("read", os.read(fd, 10))
    except BlockingIOError: print("EAGAIN", end=" ")
print(select.select([out, err, res], [], [], 0.3)[0])
to = os.open(d + "/stdin", os.O_WRONLY)
os.write(to, b"hello\n")
print(select.select([out], [], [], 10)[0] == [out], os.read(out, 100))
print(select.select([out], [], [], 0.3)[0])
ep = select.epoll(); ep.register(err, select.EPOLLIN)
os.write(to, b"again\n"); os.close(to)
print(len(ep.poll(10)), os.read(err, 100))
p = select.poll(); p.register(res, select.POLLIN)
print(len(p.poll(10000)), os.read(res, 1000)[:1])
p = select.poll(); p.register(out, select.POLLIN)
print(len(p.poll(10000)), os.read(out, 100))
X
)" "EAGAIN EAGAIN EAGAIN []
True b'hello\\n'
[]
1 b'again\\n'
1 b'{'
1 b''"

# Inside, the usual names of the streams work; so for another user.
run b 'echo out > /dev/stdout; echo err > /dev/stderr; cat < /dev/stdin; echo fd > /dev/fd/1; echo e2 > /proc/self/fd/2' &
wait_for 5 test -e "$T/b/exec/last/stdin"
n=$(node b '{"cmd":"echo out > /dev/stdout; echo err > /dev/stderr; id -u","user":"1234"}')
is 'as another user /dev/stdout works' "$(timeout 5 cat "$T/b/exec/$n/stdout" | tr '\n' ' ')" 'out 1234 '
is 'and /dev/stderr' "$(timeout 5 cat "$T/b/exec/$n/stderr")" err
timeout 5 bash -c "echo kill > $T/b/ctl"

# The command never waits for a reader, nor a reader for another one.
run b 'head -c 30000000 /dev/zero; echo done >&2'
is '30 MB without a reader' "$(stat -c %s "$X/stdout") $(timeout 5 cat "$X/stderr")" '30000000 done'
n=$(node b 'head -c 20000000 /dev/zero | tr "\0" x')
sleep 20 <"$T/b/exec/$n/stdout" & slow=$!
is 'a reader that never reads delays nobody' "$(timeout 20 cat "$T/b/exec/$n/stdout" | tr -d x | wc -c)" 0
kill $slow
is 'binary bytes pass' "$(out b 'i=0; while [ $i -lt 256 ]; do printf "\\$(printf %o $i)"; i=$((i+1)); done' | md5sum)" \
	"$(for ((i = 0; i < 256; i++)); do printf "\\x$(printf %x $i)"; done | md5sum)"
stop_hutchd
