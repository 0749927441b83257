#!/bin/bash
# A second real user: what he may enter, and what is his alone.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq setpriv python3

start_hutchd
box mine
box his
run mine 'echo secret; echo for-root > /root/f'
u() { timeout -k 1 15 setpriv --reuid=4321 --regid=4321 --clear-groups bash -c "$1" 2>&1 </dev/null; }
u_refused() { # WHAT ERRNO SCRIPT
	local text
	text=$(u "$3")
	if [ $? = 0 ]; then fail "$1" "it succeeded: $text"; else like "$1" "$text" "$(errno_text "$2")"; fi
}

is 'the tree can be listed by everybody, without the sandboxes of others' \
	"$(u "ls $T" | grep -Exc 'help|version|mine|his')" 2
u_refused 'ls of another'"'s sandbox" EACCES "ls $T/mine"
u_refused 'cat of its state' EACCES "cat $T/mine/state"
u_refused 'cat of a result' EACCES "cat $T/mine/exec/1/stdout"
u_refused 'exec in it' EACCES "echo id > $T/mine/exec/new"
u_refused 'its ctl' EACCES "echo stop > $T/mine/ctl"
u_refused 'rmdir of it' 'EACCES|EPERM' "rmdir $T/mine"
u_refused 'chmod of it' EPERM "chmod 777 $T/mine"
u_refused 'chown of it' EPERM "chown 4321 $T/mine"
u_refused 'mkdir in a root that is root'"'s" EACCES "mkdir $T/new-one"
u_refused 'new as well' EACCES "echo > $T/new"
is 'it still runs' "$(timeout 5 cat "$T/mine/state")" running

# The state directory is closed too, path by path: layers hold whatever a sandbox makes.
run mine 'echo layer > /opt/layer-file; chmod 4755 /opt/layer-file; echo spooled-secret'
found=$(find "$S" -name layer-file)
ok 'the file is in a layer' test -n "$found"
u_refused 'a user cannot reach it there' EACCES "cat $found"
is 'nor anything else in the state directory' "$(u "find $S -type f -readable 2>/dev/null")" ''
while read -r f; do
	text=$(u "cat $f >/dev/null")
	[[ $text =~ 'Permission denied' ]] || fail 'a file of the state directory is closed' "$f: $text"
done < <(find "$S" -type f | grep -v /images/ | head -40)

ok 'mkdir with another mode' timeout 5 python3 -c 'import os, sys; os.umask(0); os.mkdir(sys.argv[1], 0o777)' "$T/open"
is 'makes it 0700 all the same' "$(stat -c %a "$T/open")" 700
ok 'rmdir' timeout 5 rmdir "$T/open"

ok 'chown by root' timeout 5 chown 4321:4321 "$T/his"
is 'it shows' "$(stat -c '%u:%g %a' "$T/his")" '4321:4321 700'
is 'so do the files inside' "$(stat -c '%u:%g' "$T/his/state" "$T/his/exec" "$T/his/exec/new" | sort -u)" 4321:4321
is 'now he sees it' "$(u "ls $T" | grep -xc his)" 1
like 'and runs in it' "$(u "echo 'id -u; echo hi' > $T/his/exec/new && cat $T/his/exec/last/stdout" | tr '\n' ' ')" '^0 hi '
is 'by the clone idiom too' "$(u "cd $T/his/exec; exec 3<>new; echo 'echo clone' >&3; read -r n <&3; cat \$n/stdout")" clone
is 'writes stdin, reads the result' "$(u "cd $T/his/exec; exec 3<>new; echo cat >&3; read -r n <&3; echo in > \$n/stdin; cat \$n/stdout \$n/code" | tr '\n' ' ')" 'in 0 '
is 'stops and starts it' "$(u "echo stop > $T/his/ctl; echo start > $T/his/ctl; cat $T/his/state")" running

# last and error are each user's own.
timeout 5 bash -c "echo 'echo by-root' > $T/his/exec/new"
u "echo 'echo by-him' > $T/his/exec/new"
is 'last of the user' "$(u "cat $T/his/exec/last/stdout")" by-him
is 'last of root' "$(timeout 5 cat "$T/his/exec/last/stdout")" by-root
u "echo '[]' > $T/his/exec/new" >/dev/null
is 'a refusal of his does not touch the last of root' "$(timeout 5 cat "$T/his/exec/last/stdout")" by-root
is 'but his' "$(u "test -e $T/his/exec/last && echo there")" ''
like 'error shows his own refusal' "$(u "head -n 1 $T/error")" ' EINVAL '
is 'root does not see it' "$(timeout 5 grep -c ' EINVAL ' "$T/error")" 0
timeout 5 bash -c "echo '{\"rootsown\":1}' > $T/his/exec/new" 2>/dev/null
is 'nor he that of root' "$(u "grep -c rootsown $T/error")" 0

# A third user, a group, modes.
v() { timeout -k 1 15 setpriv --reuid=4322 --regid=4322 --groups="$1" bash -c "$2" 2>&1 </dev/null; }
like 'a third user is kept out' "$(v 4322 "cat $T/his/state")" 'Permission denied'
ok 'chgrp' timeout 5 chgrp 5000 "$T/his"
ok 'chmod 750' timeout 5 chmod 0750 "$T/his"
is 'the mode shows' "$(stat -c %a "$T/his")" 750
is 'a member of the group may look' "$(v 5000 "cat $T/his/state")" running
is 'and exec: the directory is the gate' "$(v 5000 "echo 'echo member' > $T/his/exec/new && cat $T/his/exec/last/stdout")" member
is 'and sees it listed' "$(v 5000 "ls $T" | grep -xc his)" 1
like 'others still not' "$(v 4322 "cat $T/his/state")" 'Permission denied'
u_refused 'the owner cannot give it away' EPERM "chown 4322 $T/his"
is 'the owner can change the mode' "$(u "chmod 0700 $T/his && stat -c %a $T/his")" 700
like 'which closes it' "$(v 5000 "cat $T/his/state")" 'Permission denied'
is 'a handle that was opened before goes on' "$(timeout 20 python3 - "$T/his" <<'X'
import os, sys
box = sys.argv[1]
os.setgroups([]); os.setgid(4321); os.setuid(4321)
fd = os.open(box + "/exec/new", os.O_RDWR)
os.write(fd, b"echo kept"); print(len(os.read(fd, 100)) > 1)
X
)" True
is 'rights and identity are those of the opening' "$(timeout 20 python3 - "$T/mine" <<'X'
import os, sys
new = sys.argv[1] + "/exec/new"
fd = os.open(new, os.O_RDWR)
os.setgroups([]); os.setgid(4321); os.setuid(4321)
os.write(fd, b"echo passed-on"); print(len(os.read(fd, 100)) > 1)
try: os.open(new, os.O_RDWR)
except PermissionError: print("closed")
X
) $(timeout 5 cat "$T/mine/exec/last/stdout")" $'True\nclosed passed-on'
is 'mode and owner survive a restart' "$(stop_hutchd; start_hutchd; stat -c '%u:%g %a' "$T/his" "$T/mine" | tr '\n' ' ')" '4321:5000 700 0:0 700 '

# Root itself: reading what is for writing, writing what is for reading.
echo start >"$T/mine/ctl"
wait_for 10 state_is mine running
run mine 'cat'  2>/dev/null & sleep 0.5
n=$(readlink "$T/mine/exec/last")
x=$T/mine/exec/${n:-none}
for f in "$T/mine/ctl" "$x/stdin" "$x/ctl"; do
	refused "root reads ${f#"$T/"}" EACCES "cat $f"
done
for f in "$T/help" "$T/version" "$T/error" "$T/mine/state" "$T/mine/spec.json" "$x/stdout" "$x/stderr" "$x/result.json" "$x/status" "$x/code"; do
	refused "root writes ${f#"$T/"}" 'EACCES|EPERM' "echo x > $f"
	said "and it is said: ${f#"$T/"}" 'EACCES|EPERM'
	refused "root appends to ${f#"$T/"}" 'EACCES|EPERM' "echo x >> $f"
	refused "root truncates ${f#"$T/"}" 'EACCES|EPERM' "truncate -s0 $f"
done
u_refused 'the user writes a file for reading' EACCES "echo x > $T/help"
timeout 5 bash -c "echo kill > $T/mine/ctl"
wait

# The user who owns it may remove it, if the root lets him; here it is root's.
u_refused 'rmdir needs the right in the root' 'EACCES|EPERM' "rmdir $T/his"
ok 'root removes it' timeout 5 rmdir "$T/his"
stop_hutchd
