#!/bin/bash
# A state directory without room: commands run on, what is lost is said, and room makes all well again.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

mkdir -p "$S"
mount -t tmpfs -o size=24m,mode=0711 hutch-test "$S"
start_hutchd
box b
E=$T/b/exec
lines() { printf 'seq -f %%07.0f %s %s' "$1" "$2"; }

run b 'echo before'
echo "$(lines 1 6000000); echo over >&2; exit 3" >"$E/new"
is 'a command with more output than there is room runs to its end' "$(timeout 60 cat "$E/2/code")" 3
is 'what was lost is said' "$(jq -c '[.reason,.exit_code,.truncated]' "$E/2/result.json")" '["exited",3,true]'
n=$(stat -c %s "$E/2/stdout")
ok 'part of it is there' test "$n" -gt 1000000
ok 'and not all' test "$n" -lt 48000000
is 'its front, byte by byte' "$(timeout 20 cat "$E/2/stdout" | sha256sum)" \
	"$(seq -f %07.0f 1 6000000 | head -c "$n" | sha256sum)"
is 'what was there before is whole' "$(cat "$E/1/stdout")" before
is 'status' "$(status_of b 2)" 'exited 3'

# Room that comes while it still floods: what it says then has no place behind what was lost.
ok 'rmdir makes room' rmdir "$E/2"
room() { [ "$(df -k --output=avail "$S" | tail -n 1)" "$@" ]; }
ok 'at once' wait_for 10 room -gt 20000
dd if=/dev/zero of="$S/filler" bs=1M count=15 2>/dev/null
echo "$(lines 1 2500000); read x; $(lines 2500001 3000000)" >"$E/new"
x=$E/3
has_said_it() { [ "$(stat -c %s "$x/stdout")" -gt 1000000 ] && ! pgrep -x seq; }
ok 'one that floods runs on' wait_for 60 has_said_it
rm "$S/filler"
echo go >"$x/stdin"
is 'and goes on when there is room' "$(timeout 60 cat "$x/code")" 0
is 'what was lost is said' "$(jq .truncated "$x/result.json")" true
n=$(stat -c %s "$x/stdout")
is 'what is there is the front' "$(timeout 20 cat "$x/stdout" | sha256sum)" \
	"$(seq -f %07.0f 1 3000000 | head -c "$n" | sha256sum)"
is 'in output too, and to its end' "$(timeout 20 cat "$x/output" | sha256sum)" \
	"$(timeout 20 cat "$x/stdout" | sha256sum)"

# Now nothing more can be written at all.
dd if=/dev/zero of="$S/filler" bs=64K 2>/dev/null
dd if=/dev/zero of="$S/filler" bs=1 oflag=append conv=notrunc count=70000 2>/dev/null
echo 'echo hello; echo to you >&2' >"$E/new" 2>"$W/said"
status=$?
if [ $status = 0 ]; then
	timeout 20 cat "$E/last/code" >/dev/null
	like 'a command is accepted, and its output is there, or said to be lost, or' \
		"$(jq .truncated "$E/last/result.json") $(cat "$E/last/stdout" 2>&1)" '^(false hello|true .*)$'
else
	said 'a command is refused, and why' ENOSPC 'No space left on device'
	no 'then last is gone' test -e "$E/last"
fi
is 'all can be looked at' "$(ls "$E" | grep -c '^[13]$') $(cat "$T/b/state")" '2 running'
ok 'rmdir works' rmdir "$E/3"
rm "$S/filler"
is 'then there is room' "$(timeout 10 bash -c "until echo 'echo again' 2>/dev/null > $E/new; do sleep 0.1; done; cat $E/last/stdout")" again
is 'and nothing is cut' "$(jq -c '[.exit_code,.truncated]' "$E/last/result.json")" '[0,false]'

stop_hutchd
start_hutchd
is 'it comes back' "$(cat "$T/b/state") $(cat "$E/1/stdout")" 'stopped before'
no 'without what was removed' test -e "$E/3"
ok 'rmdir of the sandbox' rmdir "$T/b"
stop_hutchd
umount "$S"
