#!/bin/bash
# What users of such file systems saw go wrong, each for every file of the tree that it can concern.
#
# A mount that stays dead after a kill: t0002.  `tail -f` of a stream: t0020.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
run b 'echo out; echo err >&2'
done_node=$X
live=$T/b/exec/$(node b 'echo out; echo err >&2; cat')
wait_for 5 test -s "$live/stderr"
mkdir "$T/b/exec/named"

# `echo 1 > f` failed, since the flush that comes before the data ended the write; `>` was refused,
# since the file could not be truncated.
while read -r file line; do
	f=$T/$file
	for how in "echo $line > F" "echo $line >> F" "dash -c 'echo $line > F'" "/bin/echo $line > F" \
		"echo $line | tee F" "python3 -c 'open(\"F\", \"w\").write(\"$line\")'" ': > F' 'true >> F' \
		'truncate -s 0 F' 'touch F' 'dd if=/dev/null of=F status=none'; do
		case $file:$how in
		*stdin:*) f=$T/b/exec/$(node b cat)/stdin ;;
		*named*) timeout 5 rmdir "$T/b/exec/named" && mkdir "$T/b/exec/named" ;;
		esac
		text=$(timeout -k 1 10 bash -c "${how//F/$f}" 2>&1 </dev/null)
		is "$how: $file" "$? ${text#"$line"}" '0 '
	done
done <<-X
	new {}
	b/ctl start
	b/exec/new true
	b/exec/keep 900
	b/exec/named/cmd true
	b/exec/named/ctl set timeout_s 5
	b/exec/named/stdin text
	b/exec/1/ctl kill
X
for n in "$T"/b/exec/[2-9]*; do timeout 5 rmdir "$n"; done 2>/dev/null
for d in "$T"/sbx_*; do timeout 5 rmdir "$d"; done
live=$T/b/exec/$(node b 'echo out; echo err >&2; cat')
wait_for 5 test -s "$live/stderr"

# Races of touch, rm, fork and flush.
is 'forks that close a handle while it is written' "$(timeout 60 python3 - "$T/b/exec" <<'X'
import os, sys
base, bad = sys.argv[1], []
for i in range(60):
    fd = os.open(base + "/new", os.O_RDWR)
    kids = []
    for piece in (b"echo ", b"a-", str(i).encode()):
        os.write(fd, piece)
        for k in range(3):
            pid = os.fork()
            if pid == 0: os.close(fd); os._exit(0)
            kids.append(pid)
    for k in kids: os.waitpid(k, 0)
    name = os.read(fd, 100).decode().strip()
    os.close(fd)
    out = open(f"{base}/{name}/stdout").read().strip()
    if out != f"a-{i}": bad.append((i, name, out))
print(bad)
X
)" '[]'
bad=
for ((i = 0; i < 30; i++)); do
	mkdir "$T/b/exec/r$i" && touch "$T/b/exec/r$i/cmd" && (echo "echo $i" >"$T/b/exec/r$i/cmd") && rmdir "$T/b/exec/r$i" || bad+=" $i"
done
is 'made, touched, written, removed' "$bad" ''
mkdir -p "$T/b/exec/named"

# A handler that ignores the offset made cat loop; a read at the end gave EINVAL.
for f in help version error events stats.json b/state b/spec.json b/events b/exec/keep \
	b/exec/1/{cmd,stdout,stderr,status,result.json,code}; do
	is "$f: whole, in pieces, from the middle, behind the end" "$(timeout 20 python3 - "$T/$f" <<'X'
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
whole = b""
while (piece := os.pread(fd, 1 << 20, len(whole))): whole += piece
bytewise = b"".join(os.pread(fd, 7, o) for o in range(0, len(whole), 7))
ends = [os.pread(fd, 100, len(whole) + d) for d in (0, 1, 4096, 1 << 40)]
half = len(whole) // 2
got = [whole != b"", bytewise == whole, os.pread(fd, 1 << 20, half) == whole[half:], ends == [b""] * 4]
os.lseek(fd, 0, 0)
seq = b""
while (piece := os.read(fd, 100)): seq += piece
print(all(got), seq == whole)
X
)" "$([ $f = error ] && [ "$(errors)" = 0 ] && echo False || echo True) True"
done
for f in stdout stderr; do
	is "a running $f far behind its end does not answer" "$(timeout 1 dd if="$live/$f" bs=1 skip=4096 count=1 status=none; echo $?)" 124
done

# `tail -f` saw nothing.
for f in "$T/events" "$T/b/events"; do
	timeout 30 tail -n 0 -f "$f" >"$W/tail" 2>&1 & tail=$!
	sleep 0.5
	run b 'echo for tail'
	ok "tail -f ${f#"$T/"}" wait_for 5 grep -q "\"exec\":\"$N\"" "$W/tail"
	kill $tail
	wait $tail 2>/dev/null
done

# A read that waits could not be interrupted; O_NONBLOCK was ignored.
for f in stdout stderr result.json code; do
	is "$f: non-blocking, EAGAIN; a signal, EINTR; poll says no, then yes" "$(timeout 20 python3 - "$live" $f <<'X'
import os, select, signal, sys, time
path = f"{sys.argv[1]}/{sys.argv[2]}"
fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
skip = os.stat(path).st_size
try: os.pread(fd, 100, skip); said = "read"
except BlockingIOError: said = "EAGAIN"
os.close(fd)
class Came(Exception): pass
def handler(*_): raise Came()
signal.signal(signal.SIGALRM, handler)
fd = os.open(path, os.O_RDONLY)
try: signal.setitimer(signal.ITIMER_REAL, 0.2); os.pread(fd, 100, skip); said += " read"
except Came: said += " EINTR"
os.lseek(fd, skip, 0)
p = select.poll(); p.register(fd, select.POLLIN)
print(said, fd in select.select([fd], [], [], 0)[0] if skip == 0 else False)
X
)" 'EAGAIN EINTR False'
	for signal in INT TERM KILL; do
		env --default-signal=INT bash -c 'exec tail -c +100 "$1"' _ "$live/$f" >/dev/null 2>&1 & pid=$!
		sleep 0.2
		kill -$signal $pid
		ok "$f: SIG$signal ends a reader" gone $pid 3
		wait $pid 2>/dev/null
	done
done

# Who polled when everything went away: used after it was freed.
pollers() {
	pids=()
	for i in 1 2 3 4 5 6; do
		timeout 30 python3 - "$1" "$T" >"$W/poller.$i" 2>&1 <<'X' &
import os, select, sys
p, fds = select.epoll(), []
for f in ("stdout", "stderr", "result.json", "code"):
    fd = os.open(f"{sys.argv[1]}/{f}", os.O_RDONLY)
    os.lseek(fd, os.stat(f"{sys.argv[1]}/{f}").st_size, 0)
    fds.append(fd); p.register(fd, select.EPOLLIN | select.EPOLLET)
print("polls", flush=True)
n = 0
while n < 4:
    for fd, _ in p.poll(20):
        p.unregister(fd); n += 1
print("end")
X
		pids+=($!)
	done
	wait_for 10 eval '[ "$(cat "$W"/poller.* | grep -c polls)" = 6 ]'
}
settled() { # WHAT
	local bad=
	for p in "${pids[@]}"; do gone "$p" 10 || bad+=" $p"; done
	is "$1: all pollers have heard of it" "$bad$(cat "$W"/poller.* | grep -c end)" 6
	wait "${pids[@]}"
}
quiet() { node b 'exec sleep 6210'; }
pollers "$T/b/exec/$(quiet)"
echo kill >"$T/b/ctl"
settled 'killed'
n=$(quiet)
pollers "$T/b/exec/$n"
ok 'rmdir of a node with pollers' timeout 5 rmdir "$T/b/exec/$n"
settled 'its node removed'
box c
pollers "$T/c/exec/$(node c 'exec sleep 6211')"
ok 'rmdir of a sandbox with pollers' timeout 5 rmdir "$T/c"
settled 'its sandbox removed'
pollers "$T/b/exec/$(quiet)"
for p in "${pids[@]:0:3}"; do kill -KILL "$p"; wait "$p"; done 2>/dev/null
ok 'a poller that dies does no harm' state_is b running
stop_hutchd
for p in "${pids[@]}"; do gone "$p" 10; done
no 'hutchd ended, and the tree is unmounted' mounted "$T"
start_hutchd
is 'and it can be mounted again' "$(timeout 5 cat "$T/b/state")" stopped
stop_hutchd
