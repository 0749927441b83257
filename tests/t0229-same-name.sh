#!/bin/bash
# A name that is used again and again: the kernel remembers names, and nobody may be led to a sandbox that is gone.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
new() { timeout 10 bash -c 'printf %s "$1" > "$2"' _ "$1" "$T/new"; }
used() { timeout 10 bash -c 'test -e "$1/spec.json" && test -e "$1/exec/new" && read -r s <"$1/state" && [ -n "$s" ]' _ "$T/$1"; }

# All of it is on its way at once, in this order: a rmdir, another sandbox of that name, and a file of it.
cat >"$W/race.py" <<'END'
import json, os, signal, sys, threading, time
tree, hutchd = sys.argv[1], int(sys.argv[2])
spec, said = json.dumps({"name": "race"}).encode(), []

def begin(what, *args):
    def run():
        try:
            what(*args)
        except OSError as e:
            said.append(f"{args}: {e}")
    t = threading.Thread(target=run)
    t.start()
    time.sleep(0.1)
    return t

fd = os.open(tree + "/new", os.O_WRONLY)
os.write(fd, spec)
os.close(fd)
fd = os.open(tree + "/new", os.O_WRONLY)
os.listdir(tree + "/race/exec")  # from now on the kernel knows it
os.kill(hutchd, signal.SIGSTOP)
try:
    all = [begin(os.rmdir, tree + "/race"), begin(os.write, fd, spec),
           begin(os.stat, tree + "/race/exec/new")]
finally:
    os.kill(hutchd, signal.SIGCONT)
for t in all:
    t.join()
os.close(fd)
sys.exit("; ".join(said) or None)
END
for i in 1 2 3; do
	ok "removed, made and looked for, round $i" timeout 20 python3 "$W/race.py" "$T" "$(hutchd_pid)"
	ok "it can be used, round $i" used race
	ok "and removed, round $i" rmdir "$T/race"
done

# One makes and removes it, some by mkdir and some by `new`; others use its files by path all the time.
cat >"$W/loop.py" <<'END'
import errno, json, os, sys, time
tree, rounds = sys.argv[1], int(sys.argv[2])
box = tree + "/loop"

def put(path, text):
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text)
    os.close(fd)

def use():
    while True:
        for what in (lambda: os.stat(box), lambda: os.listdir(box + "/exec"),
                     lambda: open(box + "/state").read(), lambda: os.stat(box + "/exec/mine"),
                     lambda: open(box + "/exec/mine/status").read()):
            try:
                what()
            except OSError as e:
                if e.errno not in (errno.ENOENT, errno.ESTALE):
                    os.write(2, f"user: {e}\n".encode())

users = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        use()
    users.append(pid)
try:
    for i in range(rounds):
        if i % 2:
            os.mkdir(box)
        else:
            put(tree + "/new", json.dumps({"name": "loop"}).encode())
        with open(box + "/spec.json") as f:
            assert json.load(f)["name"] == "loop"
        os.mkdir(box + "/exec/mine")
        assert open(box + "/exec/mine/status").read() == "pending\n"
        if i % 5 == 0:
            put(box + "/exec/mine/cmd", str(i).join(["echo ", "\n"]).encode())
            assert open(box + "/exec/mine/stdout").read() == f"{i}\n"
        if i % 3:
            os.rmdir(box)
            if os.path.exists(box):
                sys.exit(f"round {i}: there after rmdir")
        else:
            os.close(os.open(box + "/hold", os.O_WRONLY))
            end = time.monotonic() + 20
            while os.path.exists(box):
                if time.monotonic() > end:
                    sys.exit(f"round {i}: there after its hold")
finally:
    for pid in users:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
END
text=$(timeout 120 python3 "$W/loop.py" "$T" 60 2>&1)
is 'a name that is used again and again, while others use it' "$? $text" '0 '

# Somebody is in it, or has it mounted, when it goes.
ok 'one with a time to live' new '{"name":"left","ttl_s":1.5}'
ok 'a place' mkdir "$W/mnt"
timeout 20 bash -s "$T" "$W/mnt" >"$W/left" 2>&1 <<'END' &
mount --bind "$1/left" "$2"
cd "$1/left/exec"
ls "$2" >/dev/null && echo in
while ls "$1" | grep -qx left; do sleep 0.1; done
mkdir "$1/left"
for f in . new ../state "$2" "$2/state" "$2/exec/new"; do
	[ -e "$f" ] && echo "there: $f"
done
mkdir here "$2/exec/there" 2>&1 | grep -v 'Stale file handle\|No such file'
cat <"$1/left/spec.json" >/dev/null && cd "$1/left/exec" && [ -e new ] && echo out
umount "$2"
END
wait $!
is 'its last user' "$? $(tr '\n' ' ' <"$W/left")" '0 in out '
no 'he has made no node in another one' eval 'ls "$T/left/exec" | grep -qxE "here|there"'

# What is remembered of a name for one user is not what another may do.
chmod 711 "$T"/.. "$T"/../.. 2>/dev/null
may() { as 12345 timeout 5 cat "$T/left/state" >/dev/null 2>&1; }
wrong=
for i in 1 2 3 4 5; do
	chmod 755 "$T/left" && chown 12345 "$T/left"
	may || wrong+=" $i: the owner may not"
	chown 0 "$T/left" && chmod 700 "$T/left"
	may && wrong+=" $i: another may"
	rmdir "$T/left"
	may && wrong+=" $i: it is gone"
	mkdir "$T/left"
	may && wrong+=" $i: another may enter a new one"
done
is 'a change of owner has its effect at once' "$wrong" ''
stop_hutchd
