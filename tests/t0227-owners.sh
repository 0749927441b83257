#!/bin/bash
# Two real users, side by side and at once: each has all of his own and nothing of the other's.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 setpriv gcc

echo '{"root":{"mode":"1777"}}' >"$W/c.json"
start_hutchd --config "$W/c.json"
chmod 777 "$W"

# What each of them does, in the same minute, with the same names of commands.
cat >"$W/user.sh" <<'X'
T=$1 me=$2 other=$3
box=$(mktemp -d "$T/$me-XXXXXX") || exit
for i in $(seq 30); do
	echo "echo $me-$i > /root/mine; cat /root/mine; read x; echo \$x" > "$box/exec/new" || echo "write $i"
	node=$box/exec/$(readlink "$box/exec/last")
	echo "in-$me-$i" > "$node/stdin"
	[ "$(cat "$node/stdout" | tr '\n' ' ')" = "$me-$i in-$me-$i " ] || echo "output $i: $(cat "$node/stdout")"
	[ "$(cat "$node/code")" = 0 ] || echo "code $i"
	case $((i % 5)) in
	0) echo "[]" > "$box/exec/new" && echo "accepted $i" ;;
	1) ls "$T" | grep -q "^$other-" && echo "lists the other" ;;
	2) cat "$T"/$other-*/state && echo "reads the other" ;;
	3) mkdir "$box/exec/n$i" && echo "set env.A $me" > "$box/exec/n$i/ctl" && echo 'echo $A' > "$box/exec/n$i/cmd" &&
		[ "$(cat "$box/exec/n$i/stdout")" = $me ] || echo "named $i" ;;
	4) ! jq -r .sandbox "$T/events" | grep -v "^$me-" || echo "has events of the other" ;;
	esac 2> /dev/null
done
! grep -v " /$me-" "$T/error" || echo "has refusals of the other"
rmdir "$box" || echo rmdir
echo done
X
for i in 1 2 3; do
	(as 4321 timeout 60 sh "$W/user.sh" "$T" ann bob >"$W/ann.$i" 2>&1) &
	(as 4322 timeout 60 sh "$W/user.sh" "$T" bob ann >"$W/bob.$i" 2>&1) &
	wait
	is "side by side, round $i" "$(cat "$W/ann.$i" "$W/bob.$i" | tr '\n' ' ')" 'done done '
done

# Rights and identity are those of the opening: a handle that a setuid program is given stays its opener's.
as 4321 mkdir "$T/his"
as 4322 mkdir "$T/hers"
cat >"$W/suid.c" <<'X'
#include <stdio.h>
#include <unistd.h>
int main(void) /* writes to its stdout as whoever it is set to, as ping and passwd do */
{
	return write(1, "echo by-a-tool\n", 15) != 15;
}
X
gcc -o "$W/suid" "$W/suid.c" && chown 4322 "$W/suid" && chmod 4755 "$W/suid"
as 4321 bash -c "'$W/suid' > $T/his/exec/new"
is 'a setuid program writes into a handle of his' "$(as 4321 cat "$T/his/exec/last/stdout")" by-a-tool
is 'his last moved' "$(as 4321 readlink "$T/his/exec/last")" 1
is 'not that of the other, nor of root' "$(readlink "$T/his/exec/last"; as 4322 readlink "$T/hers/exec/last")" ''
chown root "$W/suid" && chmod 4755 "$W/suid"
as 4321 bash -c "'$W/suid' > $T/hers/exec/new" 2>/dev/null
is 'what he may not open he cannot have written for him' "$(ls "$T/hers/exec" | grep -c '^[0-9]')" 0
as 4321 bash -c "echo '[]' | '$W/suid' > $T/his/exec/new; exec 3>$T/his/exec/new; $W/suid >&3; $W/suid >&3" 2>/dev/null
like 'a refusal is told to the opener' "$(as 4321 head -n 1 "$T/error")" 'his/exec/new EBUSY'
is 'not to root, whose program wrote' "$(grep -c EBUSY "$T/error")" 0

# Group and mode, seen at once by those who had looked before.
as 4321 chmod 750 "$T/his"
chgrp 5000 "$T/his"
member() { setpriv --reuid=4323 --regid=4323 --groups=5000 -- "$@"; }
bad=
look() { find "$T/his" -exec stat {} + >"$W/looked"; } # what the kernel has seen it may remember
for ((i = 0; i < 2; i++)); do
	for f in state spec.json exec/1/status exec/1/stdout; do
		look
		member cat "$T/his/$f" >/dev/null 2>&1 || bad+=" closed-$i-$f"
		as 4321 chmod 700 "$T/his"
		member cat "$T/his/$f" >/dev/null 2>&1 && bad+=" open-$i-$f"
		as 4321 chmod 750 "$T/his"
		look
		chgrp 5001 "$T/his"
		member cat "$T/his/$f" >/dev/null 2>&1 && bad+=" group-$i-$f"
		look
		chgrp 5000 "$T/his"
		member cat "$T/his/$f" >/dev/null 2>&1 || bad+=" his-group-$i-$f"
		look
		chown 4322 "$T/his"
		as 4322 cat "$T/his/$f" >/dev/null 2>&1 || bad+=" new-owner-$i-$f"
		as 4321 cat "$T/his/$f" >/dev/null 2>&1 && bad+=" old-owner-$i-$f"
		look
		chown 4321 "$T/his"
		as 4321 cat "$T/his/$f" >/dev/null 2>&1 || bad+=" owner-again-$i-$f"
	done
done
is 'chmod, chgrp and chown are effective at once' "$bad" ''
is 'a member of the group may use it' "$(member bash -c "echo 'echo member' > $T/his/exec/new && cat $T/his/exec/last/stdout")" member
no 'but not change its mode' member chmod 777 "$T/his"
no 'nor remove it from a sticky root' member rmdir "$T/his"
is 'each has his own last in it' "$(as 4321 cat "$T/his/exec/last/stdout" 2>/dev/null; member cat "$T/his/exec/last/stdout")" member
as 4321 chmod 777 "$T/his"
like 'owner and group are all that there is: a mode for all opens nothing in it' \
	"$(as 4324 bash -c "echo true > $T/his/exec/new" 2>&1; as 4324 cat "$T/his/state" 2>&1)" $'Permission denied.*Permission denied'
is 'the files say the owner and his group' "$(find "$T/his" -mindepth 1 -printf '%U:%G\n' | sort -u)" 4321:5000
as 4321 chmod 700 "$T/his"

# Ten handles of all kinds to a sandbox that is removed and made again, by another user.
is 'ten handles, and another who takes the name' "$(timeout 30 python3 - "$T/his" <<'X'
import errno, os, sys
box = sys.argv[1]
os.setgroups([]); os.setegid(4321); os.seteuid(4321)
with open(box + "/exec/new", "w") as f: f.write("echo secret; sleep 600")
n = os.readlink(box + "/exec/last")
node = f"{box}/exec/{n}"
r = [os.open(p, os.O_RDONLY) for p in (box, box + "/exec", node, box + "/state", box + "/events", node + "/stdout", node + "/status")]
w = [os.open(p, os.O_WRONLY) for p in (box + "/ctl", node + "/ctl", node + "/stdin", box + "/exec/new", box + "/hold")]
os.rmdir(box)
os.seteuid(0); os.setegid(4322); os.seteuid(4322)
os.mkdir(box)
with open(box + "/exec/new", "w") as f: f.write("echo other; sleep 600")
out = set()
for fd in r[:3]:
    try: out |= set(os.listdir(fd)) & {"1", "state", "stdout"}
    except OSError as e: out.add(errno.errorcode[e.errno])
for fd in r[3:]:
    try: out.add(b"other" in os.read(fd, 10000))
    except OSError as e: out.add(errno.errorcode[e.errno])
for fd, text in zip(w, (b"stop\n", b"kill\n", b"x\n", b"echo intruder", b"x")):
    try: os.write(fd, text)
    except OSError as e: out.add(errno.errorcode[e.errno])
for fd in r + w:
    try: os.close(fd)
    except OSError: pass
print(sorted(str(o) for o in out - {"ENOENT", "ESTALE", "ESRCH", "EPIPE", False}))
print(open(box + "/state").read().strip(), open(box + "/exec/1/status").read().strip() in ("running", "pending"), sorted(os.listdir(box + "/exec")))
X
)" $'[]\nrunning True [\'1\', \'keep\', \'last\', \'new\']'
stop_hutchd

# The root for a group.
echo '{"root":{"mode":"0770","group":5000}}' >"$W/c.json"
start_hutchd --config "$W/c.json"
is 'a root for a group' "$(stat -c '%a %u:%g' "$T")" '770 0:5000'
ok 'a member makes a sandbox' member mkdir "$T/m"
like 'who is none does not even see it' "$(as 4321 ls "$T" 2>&1)" 'Permission denied'
is 'the member works in it' "$(member bash -c "echo 'echo in' > $T/m/exec/new && cat $T/m/exec/last/stdout")" in
ok 'and removes it' member rmdir "$T/m"
stop_hutchd
