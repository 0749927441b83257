#!/bin/bash
# hutchd where it was before: behind a symbolic link, and after its terminal has gone.
. "$(dirname "$0")/lib.sh"
need root fuse userns setsid

# The mount point is a symbolic link: relative, to another one, to what is not there yet.
mkdir "$W/places"
ln -s "$W/places/real" "$W/link"
ln -s ../link "$W/places/other"
P=$W/places/real L=$W/places/other
start() { timeout -k 1 30 "$HUTCHD" --state-dir "$S" "$@" 2>&1 </dev/null; }
ok 'behind two links' start "$L"
ok 'it is made and mounted where they lead' mounted "$P"
like 'a second one is told' "$(start --state-dir "$W/s2" "$W/link")" 'a hutchd serves it already'
pid=$(hutchd_pid "$L")
kill -KILL "$pid"
gone "$pid" 5
no 'a dead mount behind a link' timeout 5 ls "$L/"
ok 'is detached' start "$L"
ok 'and there is a live one' timeout 5 cat "$L/version"
is 'one' "$(grep -c " $P " /proc/self/mountinfo)" 1
pid=$(hutchd_pid "$L")
kill -TERM "$pid"
gone "$pid" 10
no 'nothing is mounted at its end' mounted "$P"
ln -s loop "$W/loop"
like 'a link to itself' "$(start "$W/loop")" 'Too many levels of symbolic links'

# A hangup ends it as SIGTERM does; not if whoever started it has it ignored.
start_hutchd
pid=$(hutchd_pid)
kill -HUP "$pid"
ok 'SIGHUP ends it' gone "$pid" 10
no 'the tree is unmounted' mounted "$T"
setsid nohup "$HUTCHD" --foreground --state-dir "$S" "$T" >"$W/hutchd.out" 2>&1 </dev/null &
wait_for 10 test -e "$T/version"
pid=$(hutchd_pid)
kill -HUP "$pid"
sleep 0.5
ok 'under nohup it stays' timeout 5 cat "$T/version"
stop_hutchd
