#!/bin/bash
# 5000 short commands with output, by three writers at once: none is lost, none is stuck, each ran
# once; and then what 10 000 events and more look like.  SOAK=1: ten times as many.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

count=5000
[ -z "${SOAK-}" ] || count=50000
start_hutchd
box b
echo 100000 >"$T/b/exec/keep"
pid=$(hutchd_pid)
steady
begin=$(fds)

# Each writer has its own form, keeps a few commands going, and asks each for everything.
cat >"$W/writer.py" <<'X'
import collections, json, os, sys
E, who, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fd = os.open(E + "/new", os.O_RDWR)
bad, names, waiting = [], set(), collections.deque()

def request(i):
    out, code = f"{who}-{i}", i % 250
    if who == 0:
        return f"echo {out}; echo e{out} >&2; exit {code}"
    if who == 1:
        return json.dumps(["sh", "-c", f"echo {out}; echo e{out} >&2; exit {code}"])
    return json.dumps({"cmd": f"echo {out}; echo e{out} >&2; exit $CODE", "env": {"CODE": str(code)}, "stdin": "null"})

def read(path):
    with open(path) as f: return f.read()

def check(i, name):
    node = f"{E}/{name}"
    order = ["stdout", "stderr", "code"]
    order = order[i % 3:] + order[:i % 3]  # whichever is asked first must wait for the right thing
    got = {f: read(f"{node}/{f}") for f in order}
    want = {"stdout": f"{who}-{i}\n", "stderr": f"e{who}-{i}\n", "code": f"{i % 250}\n"}
    if got != want: bad.append((i, name, got))
    if i % 7 == 0 and json.loads(read(f"{node}/result.json"))["stdout_bytes"] != len(want["stdout"]): bad.append((i, "bytes"))

for i in range(count):
    os.write(fd, request(i).encode())
    name = os.read(fd, 100).decode().strip()
    if name in names: bad.append((i, name, "twice"))
    names.add(name)
    waiting.append((i, name))
    if len(waiting) > 8: check(*waiting.popleft())
while waiting: check(*waiting.popleft())
print(len(names), bad[:3])
X
t=$(now_ms)
pids=()
for who in 0 1 2; do
	timeout 250 python3 "$W/writer.py" "$T/b/exec" $who $((count / 3)) >"$W/writer.$who" 2>&1 &
	pids+=($!)
done
worst=0
while kill -0 "${pids[0]}" 2>/dev/null; do
	a=$(now_ms); timeout 20 cat "$T/b/state" >/dev/null; a=$(($(now_ms) - a))
	[ $a -le $worst ] || worst=$a
	sleep 0.2
done
wait "${pids[@]}"
note "$((count / 3 * 3)) commands in $(($(now_ms) - t)) ms; state took at most $worst ms"
for who in 0 1 2; do is "writer $who: all its output, codes and names" "$(cat "$W/writer.$who")" "$((count / 3)) []"; done
is 'so many nodes' "$(ls "$T/b/exec" | grep -c '^[0-9]')" $((count / 3 * 3))
is 'all are over' "$(cat "$T"/b/exec/[0-9]*/status | grep -vc '^exited ')" 0
ok 'no descriptor is left' wait_for 5 eval "[ \$(fds) -le $((begin + 2)) ]"
is 'stats.json' "$(jq -c '.commands' "$T/stats.json")" "{\"live\":0,\"finished\":$((count / 3 * 3))}"

# Events: bounded; offsets stay what they were; who begins below the oldest line begins with it.
for ((i = 0; i < 5; i++)); do run b true; done
total=$((2 + 2 * (count / 3 * 3 + 5)))
is 'events keeps the last 10 000' "$(timeout 20 wc -l <"$T/events") $(timeout 20 cat "$T/b/events" | wc -l)" "$((total < 10000 ? total : 10000)) $((total < 10000 ? total : 10000))"
is 'whole lines, numbered without a gap to the newest' "$(timeout 20 cat "$T/events" | jq -r .seq | awk 'NR > 1 && $1 != last + 1 { print "gap at " $1 } { last = $1 } END { print last }')" "$(jq .events "$T/stats.json")"
size=$(stat -c %s "$T/events")
for ((i = 0; i < 5; i++)); do run b true; done
ok 'its size goes on growing' test "$(stat -c %s "$T/events")" -gt "$size"
is 'an offset means what it meant' "$(timeout 5 tail -c +$((size + 1)) "$T/events" | jq -r .event | sort | uniq -c | tr -s ' \n' ' ')" ' 5 exec finished 5 exec started '
is 'more at once than one read' "$(timeout 20 python3 - "$T/events" <<'X'
import json, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
text = b""
while (piece := os.read(fd, 1000)): text += piece
print(len([json.loads(l) for l in text.splitlines()]))
X
)" "$((total + 10 < 10000 ? total + 10 : 10000))"
ok 'rmdir of it all' timeout 20 rmdir "$T/b"
ok 'whatever that takes, others are answered' timeout 5 mkdir "$T/c"
stop_hutchd
