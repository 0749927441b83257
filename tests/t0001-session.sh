#!/bin/bash
# The first session that anybody has, and what ls shows.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

no 'the mount point does not exist before' test -e "$T"
start_hutchd
ok 'the tree is usable when hutchd has returned' test -e "$T/version"
ok 'mkdir makes a sandbox' timeout 10 mkdir "$T/box"
ok 'it runs' wait_for 10 state_is box running
ok 'echo into exec/new is accepted' timeout 10 bash -c "echo 'uname -a; id' > $T/box/exec/new"
ok 'the node exists when echo returns' test -d "$T/box/exec/1"
like 'cat stdout shows the output' "$(timeout 10 cat "$T/box/exec/last/stdout")" 'Linux box .*uid=0\(root\)'
is 'jq reads the exit code' "$(timeout 10 jq .exit_code "$T/box/exec/last/result.json")" 0
is 'last is a symbolic link to the newest node' "$(readlink "$T/box/exec/last")" 1
is 'the owner is who made it, mode 0700' "$(stat -c '%u:%g %a' "$T/box")" '0:0 700'

list() { timeout 10 ls -A "$1" | tr '\n' ' '; }
for name in box error help new version; do
	like "ls / shows $name" " $(list "$T")" " $name "
done
for name in ctl exec spec.json state; do
	like "ls of a sandbox shows $name" " $(list "$T/box")" " $name "
done
for name in 1 last new; do
	like "ls exec shows $name" " $(list "$T/box/exec")" " $name "
done
for name in cmd code ctl result.json status stderr stdin stdout; do
	like "ls of a node shows $name" " $(list "$T/box/exec/1")" " $name "
	like "help names $name" "$(timeout 5 cat "$T/help")" "$name"
done
ok 'ls -laR ends' timeout 20 ls -laR "$T"
like 'version is one line' "$(timeout 5 cat "$T/version" | tr '\n' '|')" '^[^|]+\|$'
is 'nothing was refused' "$(errors)" 0
is 'unknown names do not exist' "$(stat "$T/nosuch" 2>&1 | grep -c 'No such file')" 1
is 'a lookup is no refusal' "$(errors)" 0
is 'status in one line' "$(status_of box 1)" 'exited 0'
is 'code in one line' "$(timeout 5 cat "$T/box/exec/1/code")" 0
is 'cmd is the command as JSON' "$(timeout 5 jq -r .cmd "$T/box/exec/1/cmd" | head -1)" 'uname -a; id'
is 'no two names share an inode number' \
	"$(find "$T" -printf '%i\n' | sort | uniq -d | wc -l)" 0

ok 'rmdir removes it' timeout 10 rmdir "$T/box"
no 'it is gone' test -e "$T/box"
no 'it is not listed any more' eval "ls $T | grep -x box"
ok 'the name can be used again at once' timeout 10 mkdir "$T/box"
ok 'and it runs' wait_for 10 state_is box running
is 'the new one has no nodes' "$(list "$T/box/exec" | grep -c '[0-9]')" 0
ok 'rmdir once more' timeout 10 rmdir "$T/box"

stop_hutchd
no 'the mount point that hutchd made is gone' test -e "$T"
