#!/bin/bash
# The clone idiom: write a command to a read-write handle, read the node's name from it.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3

start_hutchd
box b
inside() { (cd "$T/b/exec" && timeout -k 1 20 bash -c "$1" 2>&1 </dev/null); }

is 'bash' "$(inside 'exec 3<>new; echo "echo hi" >&3; read -r n <&3; echo "$n: $(cat $n/stdout)"')" '1: hi'
is 'twice on one handle' "$(inside 'exec 3<>new; echo "echo a" >&3; read -r a <&3; echo "echo b" >&3; read -r b <&3; cat $a/stdout $b/stdout' | tr '\n' ' ')" 'a b '
is 'two names are two lines' "$(inside 'exec 3<>new; echo "echo a" >&3; echo "echo b" >&3; read -r a <&3; read -r b <&3; cat $a/stdout $b/stdout' | tr '\n' ' ')" 'a b '
is 'nothing owed is the end' "$(inside 'exec 3<>new; cat <&3; echo "echo a" >&3; read -r a <&3; cat <&3; echo end')" end
is 'a read commits what is pending' "$(inside 'exec 3<>new; (printf "echo "; printf "pending"; read -r n <&3; cat $n/stdout >&2) >&3')" pending
is 'JSON' "$(inside 'exec 3<>new; echo "[\"echo\",\"j\"]" >&3; read -r n <&3; cat $n/stdout')" j
is 'cat reads the name' "$(inside 'exec 3<>new; echo "echo h" >&3; n=$(cat <&3); cat $n/stdout')" h
is 'a refused write, then a good one, in a new handle' \
	"$(inside 'exec 3<>new; echo "[]" >&3; exec 3>&-; exec 3<>new; echo "echo ok" >&3; read -r n <&3; cat $n/stdout' | tail -n 1)" ok
like 'a handle whose write was refused answers later ones alike' \
	"$(inside 'exec 3<>new; echo "[]" >&3; echo "echo x" >&3; echo done')" 'Invalid argument.*Invalid argument'

py() { timeout -k 1 30 python3 - "$T/b/exec" 2>&1; }
is 'names in pieces, one byte at a time' "$(py <<'X'
import os, sys
fd = os.open(sys.argv[1] + "/new", os.O_RDWR)
for i in range(12): os.write(fd, b"true"); os.close(os.dup(fd))
got = b""
while True:
    c = os.read(fd, 1)
    if not c: break
    got += c
names = got.split()
print(len(names), len(set(names)), got.endswith(b"\n"))
X
)" '12 12 True'
is 'a read never crosses a newline' "$(py <<'X'
import os, sys
fd = os.open(sys.argv[1] + "/new", os.O_RDWR)
for i in range(3): os.write(fd, b"true"); os.close(os.dup(fd))
reads = [os.read(fd, 4096) for i in range(4)]
print([r.count(b"\n") for r in reads], [r[-1:] for r in reads])
X
)" "[1, 1, 1, 0] [b'\\n', b'\\n', b'\\n', b'']"
is 'pread at any offset reads on' "$(py <<'X'
import os, sys
fd = os.open(sys.argv[1] + "/new", os.O_RDWR)
os.write(fd, b"true"); a = os.read(fd, 100)
os.write(fd, b"true"); b = os.read(fd, 100)
print(int(b) - int(a))
X
)" 1
is 'a request refused by the read fails the read' "$(py <<'X'
import os, sys
fd = os.open(sys.argv[1] + "/new", os.O_RDWR)
os.write(fd, b'{"cmd":"echo')  # does not end
try: print("read", os.read(fd, 100))
except OSError as e: print(os.strerror(e.errno))
X
)" 'Invalid argument'
# By printf of one shell: a redirection of its own, whose end is a flush, or one for all of them.
is 'the other half of a document that a read refused is no script' \
	"$(inside 'exec 3<>new; { printf "{\"cmd\": \""; head -c 1 <&3; printf "; touch /root/ran\"}"; } >&3' |
		grep -c 'Invalid argument') $(out b 'ls /root')" '2 '
is 'nor is that of one that a flush ended' \
	"$(inside 'exec 3<>new; printf "{\"cmd\": \"" >&3; printf "; touch /root/ran\"}" >&3; read -r n <&3; cat $n/status' |
		sed 's/.*: write.*: //' | tr '\n' '|') $(out b 'ls /root')" \
	'Invalid argument|failed: the JSON document never ended| '
is 'one handle in two processes' "$(py <<'X'
import os, sys
fd = os.open(sys.argv[1] + "/new", os.O_RDWR)
os.write(fd, b"echo parent")
if os.fork() == 0: os._exit(0)   # its exit is another owner's flush
os.wait()
os.write(fd, b"; echo still")
name = os.read(fd, 100).decode().strip()
print(open(f"{sys.argv[1]}/{name}/stdout").read().split())
X
)" "['parent', 'still']"
is 'reader and writer of one handle do not block each other' "$(py <<'X'
import os, sys, threading, time
fd = os.open(sys.argv[1] + "/new", os.O_RDWR)
errors = []
def write():
    for i in range(200): os.write(fd, b'["true"]')
def read():
    n = 0; end = time.time() + 20
    while n < 200 and time.time() < end:
        if os.read(fd, 100): n += 1
    if n != 200: errors.append(n)
t = [threading.Thread(target=write), threading.Thread(target=read)]
[x.start() for x in t]; [x.join() for x in t]
print(errors)
X
)" '[]'
is 'non-blocking, nothing owed' "$(py <<'X'
import os, sys
fd = os.open(sys.argv[1] + "/new", os.O_RDWR | os.O_NONBLOCK)
print(os.read(fd, 100))
X
)" "b''"

# The same with the root's new.
root() { (cd "$T" && timeout -k 1 20 bash -c "$1" 2>&1 </dev/null); }
like 'new gives the id' "$(root 'exec 3<>new; echo >&3; read -r n <&3; echo $n')" '^sbx_[0-9a-v]{13}$'
is 'new gives the name' "$(root 'exec 3<>new; echo "{\"name\":\"mine\"}" >&3; read -r n <&3; echo $n; test -d $n && echo there' | tr '\n' ' ')" 'mine there '
is 'new with an empty object' "$(root 'exec 3<>new; echo "{}" >&3; read -r n <&3; test -d $n && echo there')" there
ok 'and it runs' wait_for 10 state_is mine running
like 'a name that is taken' "$(root 'exec 3<>new; echo "{\"name\":\"mine\"}" >&3')" 'File exists'
said 'and said' EEXIST mine

# mktemp, what scripts use.
id=$(timeout 10 mktemp -d "$T/ci-XXXXXX")
ok 'mktemp -d makes a sandbox' test -d "$id/exec"
ok 'it runs' wait_for 10 state_is "$(basename "$id")" running
stop_hutchd
