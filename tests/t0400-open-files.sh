#!/bin/bash
# What is done through files that are open: of what has been removed, verbs that wait, and how much they may hold.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3 setpriv

printf '{"root":{"mode":"1777"}}' >"$W/conf"
start_hutchd --config "$W/conf"
box b
E=$T/b/exec

# A verb behind one that had to be waited for.  (One write: a shell's own printf makes one of each line.)
echo 'sleep 300' >"$E/new"
refused 'what fails behind a kill is an error of the write' EBUSY "env printf 'kill\nset env.A b\n' >$E/last/ctl"
said 'and stands in error' EBUSY 'set: the command of .1. was written already'
is 'the kill was done' "$(timeout 5 cat "$E/1/status")" killed

# What has been removed is asked for nothing any more.
mkdir "$E/named"
refused 'set, of a node that was removed' ESRCH "exec 3>$E/named/ctl; rmdir $E/named; echo set env.A b >&3"
said 'with a sentence' ESRCH "'named' has been removed"
box c
refused 'keep, of a sandbox that was removed' ESRCH "exec 3>$T/c/exec/keep; rmdir $T/c; echo 5 >&3"
box c
refused 'start, of the same' ESRCH "exec 3>$T/c/ctl; rmdir $T/c; sleep 0.5; echo start >&3"
said 'with a sentence as well' ESRCH "'c' has been removed"
box c
ok 'kill and stop are done already' timeout 5 bash -c "exec 3>$T/c/ctl; rmdir $T/c; echo kill >&3 && echo stop >&3"
stop_hutchd
start_hutchd --config "$W/conf"
no 'the node does not come back' test -e "$E/named"
ok 'the sandbox does' test -e "$E/keep"
echo start >"$T/b/ctl"
wait_for 10 state_is b running

# Output that is in no memory, and in no file with a name, is read to its end all the same.
box out
run out 'head -c 3000000 /dev/zero | tr "\0" x'
exec 3<"$X/stdout"
is 'output is read' "$(timeout 10 head -c 1 <&3)" x
spool=$(echo "$S"/sandboxes/*/spool/*.out)
ok 'all of it is on the disk' wait_for 10 eval "[ \$(stat -c %s '$spool') = 3000000 ]"
dd of="$spool" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null
rmdir "$X"
ok 'its file goes with its node' wait_for 10 eval "! test -e '$spool'"
is 'who has it open sees how large it is' "$(stat -L -c %s /dev/fd/3)" 3000000
is 'and reads on' "$(timeout 20 cat <&3 | wc -c)" 2999999
exec 3<&-

# One that goes by itself is not remembered by whoever stands in it.
box held
exec 3>"$T/held/hold"
cd "$T/held" || exit 1
files='state spec.json ctl hold exec/new exec/keep'
# shellcheck disable=SC2086 # several names
stat -c %n $files >/dev/null
exec 3>&-
for f in $files; do
	ok "$f is gone for whoever has seen it" wait_for 4 eval "! stat -c %n $f"
done
cd "$W" || exit 1

# How much a user's open files may hold in memory: half a request each, or a text.
cat >"$W/hold.py" <<'X'
import errno, os, sys
what, path, n = sys.argv[1:]
text, fds = b": " + b"x" * 1000000, []
try:
    for i in range(int(n)):
        fds.append(os.open(path, os.O_WRONLY if what == "write" else os.O_RDONLY))
        left = text if what == "write" else b""
        while left:
            left = left[os.write(fds[-1], left):]
    print("all")
except OSError as e:
    print(errno.errorcode[e.errno], "a few" if i < 40 else "many")
    box = os.path.dirname(path) + "/.."
    print(open(box + "/state").read().strip(), "open files" in open(box + "/../error").readline(), flush=True)
    os.kill(os.getpid(), 9)  # what was written becomes no command
X
hold() { as 4321 timeout 60 "$(command -v /usr/bin/python3 || echo python3)" "$W/hold.py" "$@" 2>&1; }
chmod 711 "$W"
as 4321 mkdir "$T/theirs"
wait_for 10 state_is theirs running
is 'requests that are half written' "$(hold write "$T/theirs/exec/new" 300)" $'EDQUOT many\nrunning True'
is 'others are not held up' "$(out b 'echo others')" others
as 4321 bash -c 'echo "echo again" >"$0/exec/new"' "$T/theirs"
is 'nor that user, afterwards' "$(as 4321 timeout 10 cat "$T/theirs/exec/last/stdout")" again
big=$(node theirs "exit 0 #$(head -c 100000 /dev/zero | tr '\0' x)")
timeout 10 cat "$T/theirs/exec/$big/code" >/dev/null
is 'texts as of open' "$(hold read "$T/theirs/exec/$big/cmd" 2000 | head -n 1)" 'EDQUOT many'
is 'a few are no matter' "$(hold read "$T/theirs/exec/$big/cmd" 20)" all
stop_hutchd
