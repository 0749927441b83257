#!/bin/bash
# stdin in bulk: 1 GB (SOAK=1: 10 GB) to the byte, writers that nobody reads, killed ones, and many at once.
# takes long
. "$(dirname "$0")/lib.sh"
need root fuse userns python3 sha256sum "$BUILD/flow"

start_hutchd
box b
flow=$BUILD/flow
size=1000000000
[ -z "${SOAK-}" ] || size=10000000000
reader() { x=$T/b/exec/$(node b "${1:-cat}"); }
got() { timeout 60 cat "$x/stdout" || echo "(cat: status $?)"; }
taken() { stat -c %s "$x/input"; }
close_stdin() { timeout 5 bash -c "echo close-stdin > $x/ctl"; }
# descendants PID: of a shell, the processes that it has started.
descendants() { local p; for p in $(pgrep -P "$1"); do echo "$p"; descendants "$p"; done; }
# never_in_d SECONDS PID...: of any, no ten looks one after the other, a tenth of a second apart, find it in D.
never_in_d() {
	local looks=$(($1 * 10)) p state
	declare -A in_d=()
	shift
	while [ $((looks--)) -gt 0 ]; do
		for p; do
			state=$(awk '/^State/ { print $2 }' "/proc/$p/status" 2>/dev/null)
			if [ "$state" = D ]; then in_d[$p]=$((${in_d[$p]-0} + 1)); else in_d[$p]=0; fi
			[ "${in_d[$p]}" -lt 10 ] || { echo "$p: D in $(cat "/proc/$p/wchan")"; return 1; }
		done
		sleep 0.1
	done
}

# In order, to the byte, by the sum of both sides; and status is answered meanwhile.
reader sha256sum
began=$(date +%s%N)
($flow write $size 1:11 | sha256sum >"$W/sum") &
$flow write -c 1000000 $size 1:11 >"$x/stdin"
sum=$(timeout 600 cat "$x/stdout")
took=$((($(date +%s%N) - began) / 1000000))
wait
is "$((size / 1000000)) MB arrive" "$sum" "$(cat "$W/sum")"
note "$((size / 1000 / (took + 1))) MB/s, with two sums"
is 'all of them were taken' "$(taken)" $size
n=$(node b 'cat >/root/flow; chmod +x /root/flow')
ok 'flow goes in' timeout 20 bash -c "cat $flow > $T/b/exec/$n/stdin; cat $T/b/exec/$n/code"
reader '/root/flow read 12 -'
began=$(date +%s%N)
$flow write $size 1:12 >"$x/stdin" & pid=$!
looks=()
while kill -0 $pid 2>/dev/null; do
	at=$(date +%s%N)
	timeout 20 cat "$x/status" >/dev/null
	looks+=($((($(date +%s%N) - at) / 1000000)))
	sleep 0.2
done
is 'each is what it was' "$(got)" $size
note "$((size / 1000 / (($(date +%s%N) - began) / 1000000 + 1))) MB/s"
# Half of them, since others may hold up this machine, but not always.
middle=$(printf '%s\n' "${looks[@]}" | sort -n | sed -n "$((${#looks[@]} / 2 + 1))p")
ok "status waits for none of it: of ${#looks[@]} looks half took less than $middle ms" \
	test "$middle" -lt $((1000 * ${HUTCH_PATIENCE:-1}))

# Nobody reads: twenty writers wait, to both files, with > and with >>.
reader 'exec sleep 3219'
$flow write 1000000 1:1 2>/dev/null >"$x/stdin" & writers=($!)
wait_for 5 eval '[ $(taken) -gt 0 ]'
for i in 1 2 3 4 5 6 7 8 9; do
	$flow write 1000000 1:$i 2>/dev/null >"$x/stdin" & writers+=($!)
	$flow write 1000000 1:$i 2>/dev/null >>"$x/stdin" & writers+=($!)
done
$flow write 1000000 1:1 2>/dev/null >"$x/input" & writers+=($!)
sleep 0.5
ok 'twenty writers to a command that does not read are never in D' never_in_d 3 "${writers[@]}"
states=$(for p in "${writers[@]}"; do awk '/^State/ { print $2 }' "/proc/$p/status"; done | sort | uniq -c | tr -s ' \n' ' ')
is 'they sleep' "$states" ' 20 S '
exec 5>"$x/stdin"
ok 'an open and a close wait for none of them' timeout 5 bash -c "exec 6>>$x/stdin; exec 6>&-; : > $x/stdin"
exec 5>&-
for i in 3 4 5; do
	kill -KILL "${writers[i]}"
	ok "SIGKILL of writer $i" gone "${writers[i]}" 2
done
began=$(date +%s%N)
ok 'rmdir of the node' timeout 10 rmdir "$x"
ok 'waits for none' test $((($(date +%s%N) - began) / 1000000)) -lt $((2000 * ${HUTCH_PATIENCE:-1}))
for p in "${writers[@]}"; do gone "$p" 5 || fail "writer $p goes on"; done
wait "${writers[@]}" 2>/dev/null
box c
x=$T/c/exec/$(node c 'exec sleep 3220')
$flow write 1000000 1:1 2>/dev/null >"$x/stdin" & pid=$!
sleep 0.5
ok 'rmdir of a sandbox with a writer that waits' timeout 10 rmdir "$T/c"
ok 'frees it' gone $pid 5
wait $pid
is 'as a failed write' $? 1

# A writer is killed while it waits: the command sees what was taken, and the end.
for signal in KILL TERM; do
	reader 'while [ ! -e /tmp/go ]; do sleep 0.05; done; rm /tmp/go; /root/flow read 13 -'
	$flow write 3000000 1:13 >"$x/stdin" & pid=$!
	wait_for 5 eval '[ $(taken) -gt 0 ]'
	sleep 0.5
	kill -$signal $pid
	ok "SIG$signal of a writer half-way" gone $pid 2
	wait $pid 2>/dev/null
	n=$(taken)
	ok 'a part was taken' test "$n" -gt 0 -a "$n" -lt 3000000
	run b 'touch /tmp/go'
	is 'the command sees that, and the end' "$(got)" "$n"
done
reader '/root/flow read 14 -'
$flow write $size 1:14 2>/dev/null >"$x/stdin" & pid=$!
wait_for 5 eval '[ $(taken) -gt 20000000 ]'
kill -KILL $pid
wait $pid 2>/dev/null
n=$(got)
is 'killed in full flow' "$n" "$(taken)"

# Many at once: none loses a byte, a line of up to 4096 bytes stays whole, each writer's are in order.
reader 'cat > /root/lines; sort -s -k1,1 /root/lines | md5sum; wc -l < /root/lines'
cat >"$W/lines.py" <<'X'
import os, sys
fd = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND) if sys.argv[2] != "-" else 1
for i in range(2000): os.write(fd, (f"w{sys.argv[1]} {i} " + "x" * (i * 37 % 900) + "\n").encode())
X
exec 5>"$x/stdin"
pids=()
for i in 01 02 03 04 05 06 07 08; do
	file=stdin
	[ $i != 05 ] || file=input
	timeout 100 python3 "$W/lines.py" $i "$x/$file" & pids+=($!)
done
ok 'eight writers at once are never in D' never_in_d 2 "${pids[@]}"
wait "${pids[@]}"
exec 5>&-
is 'every line is whole, and in its order' "$(got)" \
	"$(for i in 01 02 03 04 05 06 07 08; do python3 "$W/lines.py" $i -; done | md5sum; echo 16000)"
reader "tr -d '\\n' | fold -w 1 | sort | uniq -c | tr -s ' \\n' ' '"
exec 5>"$x/stdin"
pids=()
for c in a b c d; do (head -c 1000000 /dev/zero | tr '\0' $c >"$x/stdin") & pids+=($!); done
ok 'four with large writes are never in D' never_in_d 2 "${pids[@]}" $(for p in "${pids[@]}"; do descendants "$p"; done)
wait "${pids[@]}"
exec 5>&-
is 'no byte of four with large writes is lost' "$(got)" '1000000 a 1000000 b 1000000 c 1000000 d '
stop_hutchd
