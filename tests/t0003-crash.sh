#!/bin/bash
# SIGTERM, SIGKILL and the next start: nothing runs on, nothing that was finished is lost.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

agents() { for d in /proc/[0-9]*; do readlink "$d/exe"; done 2>/dev/null | grep -c 'memfd:'; }
sleepers() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -c "sleep[ ]$1"; }

prepare() {
	run box 'echo kept; echo bad >&2; exit 5' && done_node=$N
	run box 'echo mine > /root/file; mkdir -p /var/x; echo more > /var/x/y; head -c 300000 /dev/zero' && big=$N
	slow=$(node box 'echo begun; sleep 98765')
	wait_for 5 eval '[ "$(sleepers 98765)" -gt 0 ]'
}

check() { # AFTER
	local X=$T/box/exec/$done_node done_dir=$T/box/exec/$done_node
	is "$1: the sandbox is there, stopped" "$(timeout 5 cat "$T/box/state")" stopped
	is "$1: the never used one too" "$(timeout 5 cat "$T/idle/state")" stopped
	is "$1: stdout of a finished node" "$(timeout 5 cat "$X/stdout")" kept
	is "$1: stderr of a finished node" "$(timeout 5 cat "$X/stderr")" bad
	is "$1: code of a finished node" "$(timeout 5 cat "$X/code")" 5
	is "$1: status of a finished node" "$(status_of box "$done_node")" 'exited 5'
	is "$1: result of a finished node" "$(timeout 5 jq -c '[.exit_code,.reason]' "$X/result.json")" '[5,"exited"]'
	like "$1: cmd of a finished node" "$(timeout 5 jq -r .cmd "$X/cmd")" '^echo kept'
	is "$1: a larger stream, all of it" "$(timeout 5 cat "$T/box/exec/$big/stdout" | wc -c)" 300000
	is "$1: its size" "$(stat -c %s "$T/box/exec/$big/stdout")" 300000
	is "$1: what was running is lost" "$(status_of box "$slow")" lost
	is "$1: its code" "$(timeout 5 cat "$T/box/exec/$slow/code")" 125
	is "$1: its result" "$(timeout 5 jq -c '[.exit_code,.signal,.reason,.usage]' \
		"$T/box/exec/$slow/result.json")" '[-1,"","lost",null]'
	is "$1: its output so far" "$(timeout 5 cat "$T/box/exec/$slow/stdout")" begun
	is "$1: owner and mode" "$(stat -c '%u %g %a' "$T/box")" '4321 0 750'
	refused "$1: exec in it is refused" ESRCH "echo 'echo no' > $T/box/exec/new"
	timeout 10 bash -c "echo start > $T/box/ctl"
	ok "$1: it can be started" wait_for 10 state_is box running
	is "$1: the layer is there" "$(out box 'cat /root/file /var/x/y' | tr '\n' ' ')" 'mine more '
	run box 'echo new'
	is "$1: a new node has a name of its own" "$(timeout 5 cat "$done_dir/stdout" "$X/stdout" | tr '\n' ' ')" 'kept new '
	is "$1: nothing of the old life runs" "$(out box 'cat /proc/[0-9]*/cmdline | tr "\0" " " | grep -c "sleep [9]8765"')" 0
}

start_hutchd
box box
box idle
chown 4321 "$T/box" && chmod 750 "$T/box"
prepare
inode=$(stat -c %i "$T/box")
secret=$(stat -c %i "$T/box/exec/$done_node/stdout")
stop_hutchd
is 'no process of the sandbox is left' "$(sleepers 98765) $(agents)" '0 0'
start_hutchd
check 'after SIGTERM'
is 'inode numbers stay' "$(stat -c %i "$T/box") $(stat -c %i "$T/box/exec/$done_node/stdout")" "$inode $secret"

prepare
( timeout 20 cat "$T/box/exec/$slow/result.json" >"$W/waiting" 2>&1; echo $? >"$W/waiting.status" ) &
waiter=$!
sleep 0.3
crash_hutchd
ok 'SIGKILL leaves no sandbox process' wait_for 2 eval '[ "$(sleepers 98765)" = 0 ] && [ "$(agents)" = 0 ]'
ok 'a waiting reader is freed' gone $waiter 5
no 'with an error' grep -qx 0 "$W/waiting.status"
start_hutchd
check 'after SIGKILL'

# A serial is never used twice, whatever happened between.
timeout 10 rmdir "$T/idle"
crash_hutchd
start_hutchd
no 'a removed sandbox stays removed' test -e "$T/idle"
old=$(stat -c %i "$T/box")
timeout 10 mkdir "$T/idle"
no 'a new one has a new inode number' test "$(stat -c %i "$T/idle")" = "$inode" -o "$(stat -c %i "$T/idle")" = "$old"

# Killed again and again while commands start; every start works.
for i in 1 2 3 4 5; do
	timeout 10 bash -c "echo start > $T/box/ctl"
	wait_for 10 state_is box running
	(for k in 1 2 3 4 5 6 7 8; do timeout 5 bash -c "echo 'echo $k' > $T/box/exec/new"; done) 2>/dev/null &
	sleep 0.0$((i * 2))
	crash_hutchd
	wait $!
	start_hutchd
	bad=
	for n in "$T"/box/exec/[0-9]*; do
		case $(timeout 5 cat "$n/status" 2>&1) in 'exited '* | lost) ;; *) bad+=" $n: $(timeout 5 cat "$n/status" 2>&1)" ;; esac
	done
	is "crash $i: every node has finished or is lost" "$bad" ''
done
stop_hutchd
