#!/bin/bash
# What readers can do to a stream, with bytes that follow from their offsets: begin late, stop, go on from an
# offset, be slow, be eight at once; and children that go on writing when their leader has ended.  1 GB in
# all; SOAK=1: 10 GB, most of it in streams that are longer than what is kept of one.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq "$BUILD/flow"

start_hutchd
box b
flow=$BUILD/flow
mb=100 pause=2 rounds=1 patience=$((100 * ${HUTCH_PATIENCE:-1}))
[ -z "${SOAK-}" ] || { mb=1000 pause=20 rounds=10 patience=$((800 * ${HUTCH_PATIENCE:-1})); }
n=$(node b 'cat >/root/flow; chmod +x /root/flow')
ok 'flow goes in' timeout 20 bash -c "cat $flow > $T/b/exec/$n/stdin; cat $T/b/exec/$n/code"

# writer NAME SEED [OPTION...]: a command that writes so much to stdout and, with SEED + 100, to stderr, when
# its stdin has ended.  limit: how much of either is kept.
limit=
writer() {
	timeout 5 mkdir "$T/b/exec/$1"
	[ -z "$limit" ] || echo "set output_limit $limit" >"$T/b/exec/$1/ctl"
	echo "cat; exec /root/flow write ${*:3} $size 1:$2 2:$(($2 + 100))" >"$T/b/exec/$1/cmd"
}
# reads NODE/STREAM WHO [OPTION...] SEED: a reader in the background.
names=() pids=()
reads() {
	timeout "$patience" "$flow" read "${@:3}" "$T/b/exec/$1" >"$W/reader${#pids[@]}" 2>&1 &
	pids+=($!) names+=("$1, $2")
}
opened() {
	local p n=0
	for p in $(pgrep -x flow); do
		[[ $(readlink "/proc/$p/fd/3" 2>/dev/null) != "$T"/* ]] || n=$((n + 1))
	done
	[ $n = ${#pids[@]} ]
}
# go NODE...: when all readers are there.
go() {
	local n
	ok "the readers of $* are there" wait_for 10 opened
	for n; do : >"$T/b/exec/$n/stdin"; done
}
# all_read: every reader has found every byte to the end.
all_read() {
	local i
	for i in "${!pids[@]}"; do
		wait "${pids[i]}"
		is "${names[i]}" "$? $(cat "$W/reader$i")" "0 $size"
	done
	names=() pids=()
}
# done_with NODE: it has ended well, and goes.
done_with() {
	is "$1: what became of it" "$(timeout 10 cat "$T/b/exec/$1/code")" 0
	ok "rmdir $1" timeout 10 rmdir "$T/b/exec/$1"
}

# Who is there from the beginning gets everything, however little is kept: at the limit the command waits for
# the slowest.
size=$((mb * 1000000))
limit=20M
writer one 1
limit=
began=$(date +%s%N)
for i in 1 2 3 4; do reads one/stdout "reader $i" 1; done
reads one/stdout 'small reads' -c 40000 1
reads one/stdout 'slow' -r $((size / pause / 2)) 1
reads one/stdout 'stops' -p $((size / 3)):$pause 1
reads one/stdout 'slow, and stops' -r $((size / pause)) -p $((size / 2)):$pause 1
reads one/stderr 'reader 1' 101
reads one/stderr 'stops at once' -p 1:$pause 101
go one
ok 'the command waits for who has stopped' wait_for $patience grep -qx 'running (stdout full)' "$T/b/exec/one/status"
all_read
kb=$(du -cks "$S"/sandboxes/*/spool | sed -n 's/\ttotal//p')
ok "of $((2 * mb)) MB $kb kB are on the disk" test "$kb" -lt 60000
note "ten readers of two streams: $((10 * size / 1000 / (($(date +%s%N) - began) / 1000000 + 1))) MB/s together"
is 'one: the result says how much' "$(timeout 10 jq -c '[.stdout_bytes, .stderr_bytes, .truncated]' "$T/b/exec/one/result.json")" \
	"[$size,$size,false]"
done_with one

# Three at once; one leaves its second half to a child, one makes small writes.
writer two 2 -d; writer three 3 -c 3000; writer four 4
for f in two:2 three:3 four:4; do
	reads "${f%:*}/stdout" 'reader' "${f#*:}"
	reads "${f%:*}/stderr" 'reader' "10${f#*:}"
done
reads two/stdout 'stops when the leader has ended' -p $((size / 2 + 1000000)):$pause 2
go two three four
all_read
like 'two: its child went on when it had ended' "$(timeout 10 jq -c '[.stdout_bytes < '$size', .streams_open]' "$T/b/exec/two/result.json")" \
	'^\[true,true\]$'
for f in two three four; do done_with $f; done

# Of what is kept, anybody reads anything at any time.
size=100000000
for ((round = 1; round <= rounds; round++)); do
	writer five $((round * 1000)) -d
	reads five/stdout 'who comes again and again' -o $((round * 1000))
	reads five/stderr 'who comes again and again' -o -c 50000 $((round * 1000 + 100))
	go five
	reads five/stdout 'late' $((round * 1000))
	for ((i = 0; i < 3; i++)); do
		reads five/stdout "from the middle, $i" -o -f $((RANDOM * 3000 + i)) $((round * 1000))
	done
	all_read
	reads five/stdout 'after the end' $((round * 1000))
	reads five/stderr 'after the end, in pieces' -o $((round * 1000 + 100))
	reads five/stdout 'after the end, the last byte' -f $((size - 1)) $((round * 1000))
	reads five/stdout 'after the end, from there' -f $size $((round * 1000))
	all_read
	is 'behind the end there is nothing' "$($flow read -f $((size + 5)) 1 "$T/b/exec/five/stdout")" $((size + 5))
	done_with five
done
stop_hutchd
