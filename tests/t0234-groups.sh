#!/bin/bash
# Control groups of commands that have ended do not pile up, whatever keeps the daemon from being idle.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
if [ "$(timeout 5 jq -r .cgroup "$T/stats.json")" = none ]; then
	skip 'control groups' 'there are none here'
	exit 0
fi
box b
base=$(find /sys/fs/cgroup -type d -name "hutch-*-$(stat -c %i "$S")" 2>/dev/null | head -1)
like 'the groups are found' "$base" hutch-
groups() { find "$base" -mindepth 2 -type d 2>/dev/null | wc -l; }

# Commands for some seconds, and what others do meanwhile; prints the most groups that were seen, of how many commands.
cat >"$W/load.py" <<'END'
import os, sys, threading, time
box, base, way = sys.argv[1:4]
stop = time.monotonic() + 2
most = made = 0

def groups():
    n = 0
    for run in os.scandir(base):
        if run.is_dir():
            try:
                n += sum(e.is_dir() for e in os.scandir(run.path))
            except FileNotFoundError:
                pass
    return n

def command(text, wait=True):
    fd = os.open(box + "/exec/new", os.O_RDWR)
    os.write(fd, text)
    name = os.read(fd, 64).decode().strip()
    if wait:
        code = os.open(f"{box}/exec/{name}/code", os.O_RDONLY)
        os.read(code, 16)
        os.close(code)
    os.close(fd)
    return name

def asks(pause):
    while time.monotonic() < stop:
        with open(box + "/state") as f:
            f.read()
        time.sleep(pause)

def writes():
    fd = os.open(f"{box}/exec/{sink}/stdin", os.O_WRONLY)
    while time.monotonic() < stop:
        os.write(fd, b"x" * 4096)
        time.sleep(0.001)
    os.close(fd)

def begin(f, *args):
    t = threading.Thread(target=f, args=args)
    t.start()
    return t

others = []
if way == "asked":
    others = [begin(asks, 0.004)]
elif way == "asked by many":
    others = [begin(asks, 0.001) for _ in range(4)]
elif way == "written to":
    sink = command(b'{"cmd":["cat"],"stdout":"null"}', wait=False)
    others = [begin(writes)]
elif way == "waited at":
    sleeper = command(b'{"cmd":["sleep","3"]}', wait=False)
    for _ in range(100):
        others.append(begin(lambda: open(f"{box}/exec/{sleeper}/code").read()))
while time.monotonic() < stop:
    name = command(b'{"cmd":["true"]}', wait=way != "not waited for")
    made += 1
    if way == "removed":
        os.rmdir(f"{box}/exec/{name}")
    if way == "not waited for":
        time.sleep(0.005)
    if way == "seldom":
        time.sleep(0.05)
    if made % 8 == 0:
        most = max(most, groups())
for t in others:
    t.join()
print(most, made)
END
for way in alone removed seldom asked 'asked by many' 'written to' 'waited at' 'not waited for'; do
	read -r most made <<<"$(timeout 60 python3 "$W/load.py" "$T/b" "$base" "$way" 2>&1 | tail -1)"
	if [ "${made:-0}" -gt 10 ] 2>/dev/null && [ "$most" -lt 64 ]; then
		pass "$way: never more than $most groups, of $made commands"
	else
		fail "$way: $made commands, up to $most groups"
	fi
	# The next command's, and those of sandboxes that are made ahead.
	ok "$way: then nearly none is left" wait_for 20 eval '[ "$(groups)" -le 5 ]'
done
stop_hutchd
