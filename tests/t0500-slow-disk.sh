#!/bin/bash
# A state directory whose disk takes a second for each write: nobody waits for it in the tree, and nothing is
# lost, also by kill -9.
# takes long
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 fusermount3
[ -x "$BUILD/slowfs" ] || { skip slow-disk "no $BUILD/slowfs: make it"; exit 0; }

# The contract says 100 ms; a busy machine has two seconds.
LIMIT=$((2000 * HUTCH_PATIENCE))
slow() { if [ "$1" = 0 ]; then rm -f "$W/disk.delay"; else echo "$1" >"$W/disk.delay"; fi; }
# A writer of this state directory, not of another test's.
writes_there() {
	local p
	for p in $(pgrep -f '^hutchd: writer'); do
		[ "$(readlink "/proc/$p/fd/3")" = "$S" ] && return
	done
	return 1
}
unmount_slow() {
	slow 0
	wait_for 20 eval '! writes_there'
	fusermount3 -u "$S" 2>/dev/null
}
at_end+=(unmount_slow)

# quick WHAT SCRIPT: it succeeds, within the limit.
quick() {
	local begin took status
	begin=$(now_ms)
	timeout 60 bash -c "$2" >"$W/quick.out" 2>&1 </dev/null
	status=$?
	took=$(($(now_ms) - begin))
	if [ $status = 0 ] && [ $took -le $LIMIT ]; then
		pass "$1"
	else
		fail "$1" "status $status after $took ms of: $2" "$(cat "$W/quick.out")"
	fi
}

silent() { printf '{"cmd":"%s","stdout":"null","stderr":"null"}' "$1"; }

mkdir "$W/disk" "$S"
"$BUILD/slowfs" "$W/disk" "$S"
"$HUTCHD" --foreground --state-dir "$S" "$T" 2>"$W/log" &
wait_for 20 test -e "$T/version"
stop_hutchd
like 'what this file system lacks is said' "$(cat "$W/log")" 'gives no part of a file back'
start_hutchd
box busy
chown 1000 "$T/busy"
box calm
chown 1001 "$T/calm"
run calm "$(silent true)"
before=$N
sleep 1 # some sandboxes are made ahead

slow 1000
# One user keeps the disk busy for minutes.
as 1000 timeout 60 bash -c 'exec 3<>"$1/busy/exec/new"
	for ((i = 0; i < 200; i++)); do printf "%s" "$2" >&3 && read -r n <&3 || exit 1; echo "$n"; done' \
	_ "$T" "$(silent 'sleep 0.01')" >"$W/busy.names" 2>"$W/busy.err"
is 'commands are accepted' "$? $(wc -l <"$W/busy.names")" '0 200'
last=$(tail -n 1 "$W/busy.names")
is 'and run' "$(timeout 30 cat "$T/busy/exec/$last/code")" 0
for i in 1 2 3; do
	quick "status ($i)" "cat '$T/calm/exec/$before/status'"
	quick "a lookup ($i)" "test -e '$T/calm/exec/$before/stdout'"
	quick "a list ($i)" "ls -l '$T' '$T/calm' '$T/calm/exec'"
	quick "mkdir and rmdir of a command ($i)" "mkdir '$T/calm/exec/n' && rmdir '$T/calm/exec/n'"
	quick "mkdir of a sandbox ($i)" "mkdir '$T/new$i'"
	like "it is being made, or is made ($i)" "$(timeout 5 cat "$T/new$i/state")" '^(creating|running)$'
	quick "ctl ($i)" "echo kill > '$T/calm/ctl'"
	quick "chmod ($i)" "chmod 0751 '$T/calm'"
	quick "keep ($i)" "echo 500 > '$T/calm/exec/keep'"
done
quick 'rmdir of a sandbox' "rmdir '$T/new1'"
no 'it is gone' test -e "$T/new1"
quick 'a command of the other user' "exec 3<>'$T/calm/exec/new'
	printf '%s' '$(silent 'exit 7')' >&3; read -r n <&3; [ \"\$(cat '$T/calm/exec/'\$n/code)\" = 7 ]"

# Memory has an end too: who wants to keep more than his part of it waits in his WRITE, and nobody else.
printf '{"cmd":"true #%s","stdout":"null","stderr":"null"}' "$(head -c 100000 /dev/zero | tr '\0' x)" >"$W/large"
as 1000 timeout $((10 * HUTCH_PATIENCE)) bash -c 'for ((i = 0; i < 100; i++)); do
	timeout 3 sh -c "cat \"\$1\" > \"\$2\"" _ "$2" "$1/busy/exec/new" || { echo "$i $?"; exit; }; done; echo all' \
	_ "$T" "$W/large" >"$W/large.out" 2>&1
like 'a write of the busy user waits, and can be interrupted' "$(cat "$W/large.out")" '^[1-9][0-9] 124$'
quick 'a command of the other user then' "exec 3<>'$T/calm/exec/new'
	printf '%s' '$(silent 'exit 8')' >&3; read -r n <&3; [ \"\$(cat '$T/calm/exec/'\$n/code)\" = 8 ]"
quick 'the busy one may still remove' "rmdir '$T/busy/exec/$last'"
sed -i "/^$last$/d" "$W/busy.names"
is 'no part of what waited was taken' "$(ls -t "$T/busy/exec" | grep -c '^[0-9]')" "$((200 + $(cut -d' ' -f1 "$W/large.out") - 1))"

# What was told last is nowhere but in memory.
slow 5000
run calm "$(silent 'true told-last')"
last=$N
is 'a command, and its result' "$C" 0
no 'are not on the disk' grep -rq told-last "$W/disk/sandboxes"
crash_hutchd
ok 'its writer goes on' pgrep -f '^hutchd: writer'
slow 5
start_hutchd
no 'until it is done' grep -q refused "$W/hutchd.out"
for n in $(cat "$W/busy.names"); do status_of busy "$n"; done | sort | uniq -c >"$W/after"
like 'all that was accepted is there' "$(cat "$W/after")" '^ *(199 exited 0|[0-9]+ exited 0[[:space:]]+[0-9]+ lost)$'
is 'in all' "$(awk '{ n += $1 } END { print n }' "$W/after")" 199
is 'with what was told last' "$(status_of calm "$last")" 'exited 0'
is 'so are sandboxes' "$(cd "$T" && echo new?)" 'new2 new3'
is 'and modes and owners' "$(stat -c '%u %a' "$T/calm")" '1001 751'
is 'and keep' "$(cat "$T/calm/exec/keep")" 500
slow 0
timeout 10 bash -c "echo start > $T/calm/ctl"
ok 'they can be started' wait_for 20 state_is calm running

# A start reads and writes there by itself: whoever waits for it is told.
stop_hutchd
wait_for 20 eval '! writes_there'
slow 1000
"$HUTCHD" --state-dir "$S" "$T" >"$W/starts.out" 2>&1 </dev/null &
starts=$!
ok 'a start that takes long is said' wait_for 20 grep -q 'not ready after 5 s' "$W/starts.out"
slow 0
wait "$starts"
is 'and comes to its end' $? 0
is 'with nothing else to say' "$(wc -l <"$W/starts.out")" 1
timeout 10 bash -c "echo start > $T/calm/ctl"
ok 'they are there again' wait_for 20 state_is calm running

# --- output ---

# What each of them says, and what a reader of it must get.
flood='seq 1 4000000 | head -c 30000000'
limited='seq 1 60000'
lines='for i in 1 2 3; do echo out $i; sleep 0.1; echo err $i >&2; sleep 0.1; done; exit 3'
pieces='for i in $(seq 100 180); do echo out $i; sleep 0.01; echo err $i >&2; sleep 0.01; done'
says() { bash -c "${1//sleep/:}" 2>/dev/null | sum; } # at once
sum() { sha256sum | cut -c1-16; }
# of_frames FILE: the sum of the bytes in it, in their order, and the result's code.
of_frames() {
	timeout 60 python3 -c '
import hashlib, json, struct, sys
data, at, sha = open(sys.argv[1], "rb").read(), 0, hashlib.sha256()
while at < len(data):
    kind, n = struct.unpack(">B3xI", data[at:at + 8])
    if kind == 3: code = json.loads(data[at + 8:at + 8 + n])["exit_code"]
    else: sha.update(data[at + 8:at + 8 + n])
    at += 8 + n
print(sha.hexdigest()[:16], code)' "$1" 2>&1 | tail -n 1
}
# keeps N FILE: a copy of it.
keeps() { timeout 60 cat "$1/$2" >"$W/$(basename "$1").$2"; }
# is_whole WHAT NODE SCRIPT CODE: every file of a finished command says what the script says.
is_whole() {
	local f n
	n=$(basename "$2")
	for f in stdout stderr output frames; do keeps "$2" $f; done
	is "$1: stdout" "$(sum <"$W/$n.stdout")" "$(says "$3")"
	is "$1: stderr" "$(sum <"$W/$n.stderr")" "$(says "{ $3; } 3>&1 >&2 2>&3")"
	is "$1: output" "$(sum <"$W/$n.output")" "$(says "{ $3; } 2>&1")"
	is "$1: frames" "$(of_frames "$W/$n.frames")" "$(says "{ $3; } 2>&1") $4"
	is "$1: the result" "$(timeout 5 cat "$2/code")" "$4"
}
reader() { timeout 60 cat "$1/stdout" | sum >"$2"; }

timeout 10 bash -c "echo start > $T/busy/ctl"
ok 'the busy one too' wait_for 20 state_is busy running
slow 1000
F=$T/busy/exec/$(node busy "$flood")
reader "$F" "$W/flood.sum" & readers=$!
O=$T/busy/exec/$(node busy "$(printf '{"cmd":"%s","output_limit":"64K"}' "$limited")")
reader "$O" "$W/limited.sum" & readers+=" $!"
L=$T/calm/exec/$(node calm "$lines")
P=$T/calm/exec/$(node calm "$pieces")
(timeout 60 cat "$P/frames" >"$W/frames.live") & readers+=" $!"
for i in 1 2 3; do
	quick "with output: status ($i)" "cat '$T/calm/exec/$before/status'"
	quick "with output: a lookup ($i)" "test -e '$T/calm/exec/$before/stdout'"
	quick "with output: a list ($i)" "ls -l '$T' '$T/calm' '$T/calm/exec'"
	quick "with output: the busy user's own ($i)" "ls -l '$F' '$O' && cat '$F/status'"
	sleep 0.7
done
is 'a few lines' "$(timeout 20 cat "$L/code") $(timeout 20 cat "$L/output" | sum)" "3 $(says "{ $lines; } 2>&1")"
is 'many pieces' "$(timeout 20 cat "$P/code") $(timeout 20 cat "$P/output" | sum)" "0 $(says "{ $pieces; } 2>&1")"
is 'the flood goes on' "$(timeout 5 cat "$F/status")" running
quick 'with output: a command of the other user' "exec 3<>'$T/calm/exec/new'
	printf '%s' 'echo hello' >&3; read -r n <&3; [ \"\$(cat '$T/calm/exec/'\$n/output)\" = hello ]"
slow 0
# shellcheck disable=SC2086
wait $readers
is 'the flood is whole' "$(cat "$W/flood.sum")" "$(says "$flood")"
is 'so is what was more than is kept' "$(cat "$W/limited.sum") $(timeout 5 cat "$O/code")" "$(says "$limited") 0"
is_whole 'the flood, again' "$F" "$flood" 0
is_whole 'a few lines, again' "$L" "$lines" 3
is_whole 'many pieces, again' "$P" "$pieces" 0
ok 'who read it while it ran has seen the same' cmp "$W/frames.live" "$P/frames"

# A pipe is not locked while the disk takes what was in it.
F=$T/calm/exec/$(node calm 'head -c 30000000 /dev/zero; read -r go
	head -c 65536 /dev/zero; sleep 0.5; head -c 900000 /dev/zero; echo has written >&2; sleep 60')
ok 'a command floods' wait_for 20 eval '[ "$(stat -c %s "$F/stdout")" = 30000000 ]'
sleep 0.5 # what is else to be written is written
slow $((5 * LIMIT))
echo go >"$F/stdin"
quick 'and writes on while the disk takes what was in its pipe' "read -r line <'$F/stderr'"
slow 0

# hutchd is killed in the middle: what somebody was told is so for ever.
slow 1000
F=$T/busy/exec/$(node busy "$flood")
(timeout 60 cat "$F/stdout" >"$W/flood.read" 2>/dev/null) & readers=$!
L=$T/calm/exec/$(node calm "$lines")
P=$T/calm/exec/$(node calm "$pieces")
is 'again a few lines' "$(timeout 20 cat "$L/code")" 3
is 'and many pieces' "$(timeout 20 cat "$P/code")" 0
for x in $L $P; do for f in output frames; do keeps "$x" $f && mv "$W/$(basename "$x").$f" "$W/$(basename "$x").$f.before"; done; done
ok 'the flood is being read' test -s "$W/flood.read"
crash_hutchd
wait "$readers"
slow 5
umount -l "$T" 2>/dev/null
start_hutchd
is_whole 'after a crash: a few lines' "$L" "$lines" 3
is_whole 'after a crash: many pieces' "$P" "$pieces" 0
for x in $L $P; do for f in output frames; do n=$(basename "$x"); ok "$f of $n is what it was" cmp "$W/$n.$f.before" "$W/$n.$f"; done; done
is 'the flood is lost' "$(timeout 5 cat "$F/status")" lost
keeps "$F" stdout
F=$W/$(basename "$F").stdout
ok 'but what was read of it is there' cmp -n "$(stat -c %s "$W/flood.read")" "$W/flood.read" "$F"
ok 'and what is there was said' cmp "$F" <(bash -c "$flood" | head -c "$(stat -c %s "$F")")
slow 0
stop_hutchd
