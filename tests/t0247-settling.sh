#!/bin/bash
# Commands that are over while the disk keeps what they wrote waiting: nothing is told too early, nor lost.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

start_hutchd
code() { timeout 30 cat "$1/code" 2>&1; }
writer() { # its process
	local p
	for p in $(ps -o pid= --ppid "$(hutchd_pid)"); do
		[ "$(cat "/proc/$p/comm" 2>&1)" = hutchd-writer ] && echo "$p"
	done
}
# flood BOX: a command there that the writer pumps, and then does not.
flood() {
	echo 'exec cat /dev/zero' >"$T/$1/exec/new"
	wait_for 10 large "$T/$1/exec/1/stdout" && kill -STOP "$(writer)"
}
large() { [ "$(stat -c %s "$1")" -gt $((4 << 20)) ]; }
over() { # X: the node; all that was in the pipe belongs to the result
	is "$1: the result comes" "$(code "$X")" 137
	is "$1: with all that was in the pipe" "$(jq .stdout_bytes "$X/result.json")" \
		"$(stat -c %s "$X/stdout")"
	is "$1: whose stream has ended" "$(jq .streams_open "$X/result.json")" false
}

box a
X=$T/a/exec/1
flood a
echo kill >"$X/ctl"
sleep 0.3
ok 'killed again while it settles' timeout 5 bash -c "echo kill >$X/ctl"
kill -CONT "$(writer)"
over killed

box b
X=$T/b/exec/1
flood b
ok 'stop' timeout 10 bash -c "echo stop >$T/b/ctl"
sleep 0.5
kill -CONT "$(writer)"
over stopped
ok 'stop: done' wait_for 10 state_is b stopped

box c
X=$T/c/exec/1
flood c
echo kill >"$X/ctl"
ok 'removed while it settles' timeout 10 rmdir "$X"
kill -CONT "$(writer)"
ok 'removed: its spool goes' wait_for 10 bash -c "! ls $S/sandboxes/*/spool/* | grep -v '[12]/spool'"

box e
flood e
timeout 30 cat "$T/e/exec/1/code" >"$W/code" 2>&1 &
waits=$!
echo stop >"$T/e/ctl"
sleep 0.5
ok 'its sandbox is removed meanwhile' timeout 10 rmdir "$T/e"
ok 'and who waits is told' wait_for 10 eval "! kill -0 $waits"
kill -CONT "$(writer)"
is 'with its result' "$(cat "$W/code")" 137

box d
flood d
echo kill >"$T/d/exec/1/ctl"
stop_hutchd &
sleep 0.5
kill -CONT "$(writer)"
wait
start_hutchd
X=$T/d/exec/1
like 'hutchd ends meanwhile: there is a result' "$(code "$X")" '^(137|125)$'
ok 'and all its bytes' large "$X/stdout"
