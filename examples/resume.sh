#!/bin/sh
# An upload whose sender dies in the middle, and goes on where it was cut off: the size of `input` is
# what was taken.  Closing `input` ends nothing, so the end is said when all of it is there.
set -eu
tree=${HUTCH:-/run/hutch}
box=$(mktemp -d "$tree/resume-XXXXXX")
data=$(mktemp)
sender=
end() { [ -z "$sender" ] || kill -KILL "$sender" 2>/dev/null || :; rm -f "$data"; rmdir "$box"; }
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

seq 500000 >"$data"
mkdir "$box/exec/upload"
cd "$box/exec/upload"
echo 'head -c 1000000 >/tmp/data; sleep 1; cat >>/tmp/data; md5sum </tmp/data' >cmd

cat "$data" >input & # the command takes a part of it, and then waits
sender=$!
until [ "$(stat -c %s input)" -ge 1000000 ]; do sleep 0.1; done
kill -KILL "$sender"
{ wait "$sender"; } 2>/dev/null || echo "the sender was killed with status $?"
sender=

at=$(stat -c %s input)
[ "$at" -lt "$(stat -c %s "$data")" ] && echo 'a part of it was taken'
tail -c +$((at + 1)) "$data" >>input
echo close-stdin >ctl
[ "$(cat stdout)" = "$(md5sum <"$data")" ] && echo 'all of it has arrived, once'
exit "$(cat code)"
