#!/bin/bash
# Names and operations that the tree does not have.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3

start_hutchd
box b
run b 'echo x'
list() { (cd "$T" && find . | sort); }
want=$(list)
unchanged() { is "nothing was made or lost: $1" "$(list)" "$want"; }

bad_name() { # NAME: refused by hutchd
	local shown
	shown=$(printf %q "$1")
	export NAME=$1
	refused "mkdir $shown" 'EINVAL|ENAMETOOLONG' "mkdir -- \"$T/\$NAME\""
	said "and said: $shown" 'EINVAL|ENAMETOOLONG'
}
for name in .hidden -dash 'a b' $'a\nb' $'a\001b' $'\033[31m' $'a\177' 'ä' $'\xff' 'a:b' 'a*b' "a'b" 'a\b' '~' '%' '#x' \
	"$(printf 'a%.0s' $(seq 65))" "$(printf 'a%.0s' $(seq 255))"; do
	bad_name "$name"
done
is 'error shows them on one line each' "$(timeout 5 grep -Evc '^[0-9]{4}-[^ ]+Z .+ [A-Z0-9]+ ' "$T/error")" 0
is 'and escaped' "$(timeout 5 tr -d '\n' <"$T/error" | LC_ALL=C grep -c '[[:cntrl:]]')" 0
refused 'mkdir with 256 letters' ENAMETOOLONG "mkdir $T/$(printf 'a%.0s' $(seq 256))"
refused 'mkdir in what is not there' ENOENT "mkdir $T/nosuch/x"
refused 'mkdir of .' EEXIST "mkdir $T/."
refused 'mkdir of ..' EEXIST "mkdir $T/.."
for name in help version new error b; do refused "mkdir $name" EEXIST "mkdir $T/$name"; done
for name in images secrets events stats.json; do
	no "mkdir $name, a name of the tree's own" timeout 5 mkdir "$T/$name"
done
unchanged 'by mkdir'
for name in a A 0 9x a.b a_b a-b a. a- _x "$(printf 'a%.0s' $(seq 64))"; do
	ok "mkdir $name is fine" timeout 10 mkdir "$T/$name"
	ok "rmdir $name" timeout 10 rmdir "$T/$name"
done
unchanged 'by good names'

mkdir "$W/dir" && touch "$W/file"
while IFS=';' read -r what errno command; do
	refused "$what" "$errno" "cd $T && $command"
	case $what in *\*) ;; *) said "and said: $what" "$errno" ;; esac
done <<X
touch of a new file in the root;EPERM;touch file
> of a new file in the root;EPERM;echo x > file
touch of a new file in a sandbox;EPERM;touch b/file
touch of a new file in a node;EPERM;touch b/exec/1/file
mkdir in a sandbox;EPERM;mkdir b/dir
mkdir in a node;EPERM;mkdir b/exec/1/dir
mkfifo;EPERM;mkfifo fifo
mknod;EPERM;mknod dev c 1 3
a symbolic link;EPERM;ln -s b link
a hard link;EPERM;ln help link
rm of a file of the root;EPERM;rm -f help
rm of a file of a sandbox;EPERM;rm -f b/state
rm of a file of a node;EPERM;rm -f b/exec/1/stdout
rm of last;EPERM;rm -f b/exec/last
mv of a sandbox;EPERM;python3 -c "import os; os.rename('b', 'c')"
mv of a file;EPERM;python3 -c "import os; os.rename('help', 'c')"
mv of a node;EPERM;python3 -c "import os; os.rename('b/exec/1', 'b/exec/7')"
rmdir of exec;EPERM;rmdir b/exec
rmdir of a file *;ENOTDIR;rmdir b/state
rmdir of what is not there *;ENOENT;rmdir nosuch
unlink of a sandbox *;EISDIR|EPERM;python3 -c "import os; os.unlink('b')"
a rename from outside *;EXDEV|EPERM;python3 -c "import os; os.rename('$W/file', 'file')"
chmod of a file;EPERM;chmod 777 b/state
chown of a file;EPERM;chown 4321 b/state
chown of exec;EPERM;chown 4321 b/exec
chmod of the root;EPERM;chmod 777 .
truncate of a file for reading;EACCES|EPERM;truncate -s 0 b/state
open of a file as a directory *;ENOTDIR;ls b/state/
cat of a directory *;EISDIR;cat b
unknown names *;ENOENT;cat nosuch
unknown names in a sandbox *;ENOENT;cat b/nosuch
unknown names in a node *;ENOENT;cat b/exec/1/nosuch
a node that is not there *;ENOENT;cat b/exec/99/stdout
X
unchanged 'by what is refused'
timeout 5 rm -f "$T/help" 2>/dev/null
timeout 5 rm -f "$T/b/state" 2>/dev/null
said 'the refusal of rm names rmdir' EPERM 'rmdir'
timeout 10 rm -rf "$T/b/exec/1" 2>/dev/null
ok 'rm -rf of a node does no harm to the daemon' state_is b running
is 'setxattr and getxattr are answered' "$(timeout 5 python3 - "$T/b/state" <<'X'
import os, sys
for call in (lambda: os.setxattr(sys.argv[1], "user.x", b"1"), lambda: os.getxattr(sys.argv[1], "user.x")):
    try: call(); print("no error")
    except OSError as e: print("error")
X
)" $'error\nerror'
ok 'statfs is answered' timeout 5 df "$T"
ok 'sync' timeout 10 sync -f "$T/version"
ok 'flock of a file is answered' timeout 5 flock "$T/version" true
stop_hutchd
