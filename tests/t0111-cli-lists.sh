#!/bin/bash
# hutch ps, ls, events, doctor: what programs get, what people get.
. "$(dirname "$0")/lib.sh"
need root fuse userns script jq

start_hutchd
box a
box b
export HUTCH=$T
h() { timeout -k 1 30 "$BUILD/hutch" "$@" </dev/null; }
tty() { TERM=xterm timeout -k 1 30 script -qec "stty cols 200; $BUILD/hutch $*" /dev/null </dev/null | tr -d '\r'; }
esc=$'\e'

run a 'exit 3'
run a '["echo","two words","it'\''s","$x",""]'
node a 'sleep 600' >/dev/null
node b $'echo first\nsleep 600\n' >/dev/null
wait_for 5 status_is b 1 running

is 'ps' "$(h ps | cut -f 1-3,5)" "$(printf '%s\t%s\t%s\t%s\n' a 1 'exited 3' 'exit 3' \
	a 2 'exited 0' "echo 'two words' 'it'\\\\''s' '\$x' ''" a 3 running 'sleep 600' \
	b 1 running 'echo first\nsleep 600')"
like 'ps: the age' "$(h ps b | cut -f 4)" '^[0-9]+s$'
is 'ps of one sandbox' "$(h ps b | wc -l)" 1
is 'ps of those that run' "$(h ps -l a | cut -f 2)" 3
is 'ps as JSON' "$(h ps --json | jq -r '.[] | "\(.box)/\(.name) \(.status) \(.cmd | type) \(.age_s >= 0)"')" \
	$'a/1 exited 3 string true\na/2 exited 0 array true\na/3 running string true\nb/1 running string true'
is 'ps of nothing, as JSON' "$(h rm -f b; mkdir "$T/b"; h ps --json b)" '[]'
h ps nosuch 2>err
is 'ps of what is not there' "$? $(grep -c "'nosuch'" err)" '125 1'
mkdir "$T/a/exec/named"
is 'ps: a command that is not written yet' "$(h ps a | grep named | cut -f 2,3,5)" $'named\tpending\t'

is 'ls' "$(h ls)" $'a\trunning\troot\t1/4\nb\trunning\troot\t0/0'
is 'ls as JSON' "$(h ls --json | jq -r '.[] | "\(.id) \(.state) \(.running)/\(.commands)"')" $'a running 1/4\nb running 0/0'
like 'on a terminal: a header and colours' "$(tty ls)" "^ID +STATE +OWNER +COMMANDS.*${esc}\[32mrunning${esc}\[0m"
unlike 'NO_COLOR' "$(NO_COLOR=1 tty ls)" "$esc"
like 'with a header' "$(NO_COLOR=1 tty ps)" '^BOX +NAME +STATUS +AGE +COMMAND'
is 'and cut at its edge' "$(TERM=xterm script -qec "stty cols 40; $BUILD/hutch ps" /dev/null </dev/null | tr -d '\r' |
	sed "s/$esc\\[[0-9]*m//g" | awk 'length > 40' | wc -l)" 0
is 'a reader that goes away' "$("$BUILD/hutch" ps | head -n 0; echo "${PIPESTATUS[0]}" | grep -cE '^(0|141)$')" 1
h ls >/dev/full 2>err
is 'a full disk' "$? $(grep -c 'No space' err)" '125 1'

# Events.
like 'events' "$(h events)" $'Z\ta\tcreated\n.*Z\ta\tstarted\n.*Z\ta/1\texec finished\texited\t3\n'
is 'events of one sandbox' "$(h events b | cut -f 2,3)" $'b\tcreated\nb\tstarted'
is 'events as JSON are the lines themselves' "$(h events --json | sha1sum)" "$(cat "$T/events" | sha1sum)"
timeout 20 "$BUILD/hutch" events -f b >out 2>err &
pid=$!
wait_for 5 grep -q started out
run b 'exit 5'
ok 'events -f goes on' wait_for 5 grep -q $'b/1\texec finished\texited\t5' out
rmdir "$T/b"
ok 'until the sandbox is removed' gone $pid 5
wait $pid
is 'which is no error' "$? $(cat err)" '0 '
"$BUILD/hutch" events -f a 2>err | head -n 1 >out &
pid=$!
ok 'events -f ends with its reader' gone $pid 5
wait $pid

# Doctor.
h doctor >out 2>err
is 'doctor' "$? $(cut -f 1 out | sort -u | grep -cvE '^(ok|note)$') $(cat err)" '0 0 '
like 'doctor: hutchd' "$(cat out)" $'ok\thutchd\thutch .* serves '"$T"
# What a setting of the kernel's costs.
echo 1 >one
doctor_says() { # SETTING CHECK: what it says of a machine where that is 1
	mount --bind one "/proc/sys/$1"
	h doctor | grep -F $'\t'"$2"$'\t'
	umount "/proc/sys/$1"
}
like 'doctor: faults of memory' "$(doctor_says vm/unprivileged_userfaultfd 'user faults')" \
	'^note.*/proc/sys/vm/unprivileged_userfaultfd is 1: .*set it to 0'
like 'and where there are none' "$(h doctor | grep 'user faults')" ^ok
is 'doctor as JSON' "$(h doctor --json | jq -r '.[] | select(.check == "kernel") | .status')" ok
HUTCH=$W/none h doctor >out
is 'without hutchd: a note' "$? $(grep -c $'^note\thutchd\t.*hutchd' out)" '0 1'
as 12345 "$BUILD/hutch" doctor >out </dev/null
is 'a user, whose sandboxes have one: a note' "$(grep -c $'^note\tuser ids\t' out)" 1
unshare --mount sh -c "mount -t tmpfs none /dev && exec '$BUILD/hutch' doctor" >out
is 'no /dev/fuse: status 1' "$? $(grep -c $'^missing\tfuse\t.*modprobe' out)" '1 1'

# Doctor and the state directory: the default one, and those that hutchd would be told.
# state DIR [COMMAND...]: what doctor says of it.
state() {
	local dir=$1
	shift
	"$@" "$BUILD/hutch" doctor --state-dir "$dir" </dev/null | grep $'\tstate directory\t'
}
like 'the default state directory' "$(grep $'\tstate directory\t' out)" '^[a-z]+.state directory.*/var/lib/hutch'
like 'that of hutchd' "$(state "$S")" "^ok.*$S can be written, on a file system \\($(stat -f -c %T "$S" | cut -c 1-3).*gives parts"
like 'one that is not there yet' "$(state "$W/not//yet/")" "^ok.*$W/not//yet/, which hutchd would make,"
no 'is not made' test -e "$W/not"
mkdir "$W/kinds"
for row in ramfs:rw '^note.*\(ramfs\).*limits.output' tmpfs:rw '^ok.*\(tmpfs\)' tmpfs:ro '^missing.*Read-only'; do
	[ "${row#[rt]}" != "$row" ] && kind=$row && continue
	like "$kind" "$(state "$W/kinds" unshare --mount sh -c \
		'mount -t "$1" -o "$2" none "$3" && shift 3 && exec "$@"' _ ${kind/:/ } "$W/kinds")" "$row"
done
unshare --mount sh -c 'mount -t tmpfs -o ro none "$1" && exec "$2" doctor --state-dir "$1"' _ "$W/kinds" "$BUILD/hutch" >out </dev/null
is 'that one cannot be used: status 1' "$?" 1
like 'a file is no directory' "$(state "$BUILD/hutch")" '^missing.*Not a directory'
like 'what a user may not write' "$(state /var/lib/hutch-none as 12345)" '^missing.*in /var/lib \(Permission denied\).*--state-dir'
like 'a user without a home' "$(as 12345 env -u HOME -u XDG_STATE_HOME "$BUILD/hutch" doctor </dev/null)" \
	$'\nnote\tstate directory\t.*--state-dir'
stop_hutchd
