#!/bin/bash
# A state directory whose disk takes a second for each write: nobody waits for it in the tree, and nothing is
# lost, also by kill -9.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq fusermount3
[ -x "$BUILD/slowfs" ] || { skip slow-disk "no $BUILD/slowfs: make it"; exit 0; }

# The contract says 100 ms; a busy machine has two seconds.
LIMIT=$((2000 * HUTCH_PATIENCE))
slow() { if [ "$1" = 0 ]; then rm -f "$W/disk.delay"; else echo "$1" >"$W/disk.delay"; fi; }
unmount_slow() {
	slow 0
	wait_for 20 eval '! pgrep -f "^hutchd: writer" >/dev/null'
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
as 1000 timeout 10 bash -c 'for ((i = 0; i < 100; i++)); do
	timeout 3 sh -c "cat \"\$1\" > \"\$2\"" _ "$2" "$1/busy/exec/new" || { echo "$i $?"; exit; }; done; echo all' \
	_ "$T" "$W/large" >"$W/large.out" 2>&1
like 'a write of the busy user waits, and can be interrupted' "$(cat "$W/large.out")" '^[1-9][0-9] 124$'
quick 'a command of the other user then' "exec 3<>'$T/calm/exec/new'
	printf '%s' '$(silent 'exit 8')' >&3; read -r n <&3; [ \"\$(cat '$T/calm/exec/'\$n/code)\" = 8 ]"
quick 'the busy one may still remove' "rmdir '$T/busy/exec/$last'"
sed -i "/^$last$/d" "$W/busy.names"
is 'no part of what waited was taken' "$(ls -t "$T/busy/exec" | grep -c '^[0-9]')" "$((200 + $(cut -d' ' -f1 "$W/large.out") - 1))"

# All of that is nowhere but in memory.
like 'little of it is on the disk' "$(wc -l <"$W/disk/sandboxes/$(ls "$W/disk/sandboxes" | sort -n | head -n 1)/journal")" '^[0-9]{1,2}$'
crash_hutchd
ok 'its writer goes on' pgrep -f '^hutchd: writer'
slow 5
start_hutchd
no 'until it is done' grep -q refused "$W/hutchd.out"
for n in $(cat "$W/busy.names"); do status_of busy "$n"; done | sort | uniq -c >"$W/after"
like 'all that was accepted is there' "$(cat "$W/after")" '^ *(199 exited 0|[0-9]+ exited 0[[:space:]]+[0-9]+ lost)$'
is 'in all' "$(awk '{ n += $1 } END { print n }' "$W/after")" 199
is 'so are sandboxes' "$(cd "$T" && echo new?)" 'new2 new3'
is 'and modes and owners' "$(stat -c '%u %a' "$T/calm")" '1001 751'
is 'and keep' "$(cat "$T/calm/exec/keep")" 500
slow 0
timeout 10 bash -c "echo start > $T/calm/ctl"
ok 'they can be started' wait_for 20 state_is calm running
stop_hutchd
