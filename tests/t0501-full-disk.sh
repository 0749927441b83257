#!/bin/bash
# A state directory whose disk is full: it is said, what is accepted is kept, removing goes on and makes room.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

mkdir "$S" && mount -t tmpfs -o size=64m full "$S" || { skip full-disk 'may not mount'; exit 0; }
unmount_full() {
	wait_for 20 eval '! pgrep -f "^hutchd: writer" >/dev/null'
	umount -l "$S"
}
at_end+=(unmount_full)
start_hutchd
box b
box other
silent() { printf '{"cmd":"%s","stdout":"null","stderr":"null"}' "$1"; }
run b "$(silent true)"
is 'there is room' "$C" 0

head -c 100m /dev/zero >"$S/ballast" 2>/dev/null
# What there is in the last page of a journal is taken still.
refused_at=
for i in $(seq 200); do
	run b "$(silent "true $i")" 2>/dev/null || { refused_at=$i; break; }
	accepted=$N
done
ok 'refused at last' test -n "$refused_at"
said 'with the reason' ENOSPC 'state directory: No space left on device'
is 'who came before that has a result' "$(timeout 5 cat "$T/b/exec/$accepted/code")" 0
refused 'what must be kept is refused' ENOSPC "chmod 700 $T/b"
ok 'rmdir of a command' timeout 5 rmdir "$T/b/exec/1"
ok 'rmdir of a sandbox' timeout 5 rmdir "$T/other"
no 'it is gone' test -e "$T/other"
is 'a result can be read' "$(timeout 5 cat "$T/b/exec/$accepted/status")" 'exited 0'

rm "$S/ballast"
ok 'with room it goes on' wait_for 10 run b "$(silent true)"
crash_hutchd
start_hutchd
is 'what was accepted while it was full is there' "$(status_of b "$accepted")" 'exited 0'
no 'and what was removed is not' test -e "$T/b/exec/1" -o -e "$T/other"
stop_hutchd
