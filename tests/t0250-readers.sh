#!/bin/bash
# Ten thousand readers that wait, a thousand that poll, eight of one flood.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

ulimit -n "$(ulimit -Hn)"
most=$(($(ulimit -n) - 100))
many=$((most < 10000 ? most : 10000))
[ $many = 10000 ] || note "no more than $most open files are allowed here, so fewer wait"
park=$BUILD/park

waiting() { timeout 10 jq .waiting.all "$T/stats.json"; }
waiting_is() { [ "$(waiting)" = "$1" ]; }
open_is() { [ "$(timeout 10 jq .handles.all "$T/stats.json")" = "$1" ]; }
resident() { awk '/^VmRSS:/ { print $2 }' "/proc/$(hutchd_pid)/status"; }
descriptors() { ls "/proc/$(hutchd_pid)/fd" | wc -l; }

# park_on N NODE... or --poll N NODE...: sets parked, once all of them wait; the test ends where the
# machine does not allow so many threads.
park_on() {
	"$park" "$@" >"$W/park.out" 2>"$W/park.err" &
	parked=$!
	wait_for 60 eval "grep -q ^waiting '$W/park.out' || gone $parked 0"
	gone $parked 0 || return 0
	skip "$1 at once" "$(cat "$W/park.err")"
	stop_hutchd
	exit 0
}

# What came of it: "data N end N failed N errno N".
outcome() { sed -n 's/^\(data .*\) first .*/\1/p' "$W/park.out"; }

# Answers of another file, one after the other, until none waits any more: the slowest, ms.
slowest_answer() {
	local worst=0 begun ms
	until waiting_is 0; do
		begun=${EPOCHREALTIME/./}
		read -r _ <"$T/b/state"
		ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
		[ $ms -le $worst ] || worst=$ms
	done
	echo $worst
}

start_hutchd
box b
files=()
for ((i = 1; i <= 4; i++)); do
	node b 'read x; echo $x' >/dev/null
	files+=("$T/b/exec/$i/stdout" "$T/b/exec/$i/result.json")
done
before=$(resident) fds=$(descriptors)
park_on "$many" "${files[@]}"
ok "$many reads wait, within the default limits" wait_for 60 waiting_is "$many"
each=$((($(resident) - before) * 1024 / many))
note "$each bytes of memory for each"
if ldd "$HUTCHD" | grep -q libasan; then
	pass 'memory for each: not under a sanitizer'
else
	ok 'at most 1200 bytes of memory for each' test $each -le 1200
fi
ok 'and no descriptor' test "$(descriptors)" -le $((fds + 4))
is 'status answers' "$(timeout 5 cat "$T/b/exec/1/status")" running

for ((i = 1; i <= 4; i++)); do echo hello >"$T/b/exec/$i/stdin"; done
worst=$(slowest_answer)
note "woken; the slowest answer to somebody else meanwhile took $worst ms"
ok 'others are answered while all are woken' test "$worst" -le 2000
ok 'all have ended' gone $parked 60
is 'each has its answer' "$(outcome)" "data $many end 0 failed 0 errno 0"
ok 'and all is closed' wait_for 10 open_is 1

# The program with all the readers dies.
n=$(node b 'read x; echo $x')
park_on "$many" "$T/b/exec/$n/stdout" "$T/b/exec/$n/result.json"
wait_for 60 waiting_is "$many" || fail 'they wait again' "$(waiting)"
kill -KILL $parked
worst=$(slowest_answer)
note "killed; the slowest answer to somebody else meanwhile took $worst ms"
ok 'its end is waited for by nobody' test "$worst" -le 2000
wait $parked 2>/dev/null
ok 'and all is closed that it had open' wait_for 10 open_is 1
is 'the command has not noticed' "$(status_of b "$n")" running
echo after >"$T/b/exec/$n/stdin"
is 'and is read by the next' "$(timeout 10 cat "$T/b/exec/$n/stdout")" after

# Some of them are woken while the program dies.
n=$(node b 'read x; echo $x')
park_on 2000 "$T/b/exec/$n/stdout"
wait_for 60 waiting_is 2000 || fail 'they wait' "$(waiting)"
echo hello >"$T/b/exec/$n/stdin"
kill -KILL $parked
wait $parked 2>/dev/null
ok 'woken and killed at once: none waits' wait_for 10 waiting_is 0
ok 'and all is closed' wait_for 10 open_is 1

n=$(node b 'read x; echo $x')
park_on --poll 1000 "$T/b/exec/$n/stdout" "$T/b/exec/$n/code"
echo hello >"$T/b/exec/$n/stdin"
ok 'a thousand that poll are told' gone $parked 60
is 'and have their data' "$(outcome)" 'data 1000 end 0 failed 0 errno 0'
n=$(node b 'read x; echo $x')
park_on --poll 1000 "$T/b/exec/$n/stdout" "$T/b/exec/$n/code"
kill -KILL $parked
wait $parked 2>/dev/null
ok 'a thousand that polled, and died: all is closed' wait_for 10 open_is 1
echo after >"$T/b/exec/$n/stdin"
is 'what they waited for is there' "$(timeout 10 cat "$T/b/exec/$n/code")" 0

# Eight readers of one stream, byte for byte, from before its first byte; one begins later.
make='seq 8000000'
want=$($make | md5sum)
n=$(node b "read x; $make")
for ((i = 1; i <= 8; i++)); do
	timeout 120 md5sum <"$T/b/exec/$n/stdout" >"$W/sum.$i" &
done
wait_for 20 waiting_is 8
echo go >"$T/b/exec/$n/stdin"
timeout 120 md5sum <"$T/b/exec/$n/stdout" >"$W/sum.9"
wait
is 'nine readers of 60 MB, while it is written' "$(cat "$W"/sum.* | sort -u)" "$want"
is 'the command ended well' "$(timeout 10 cat "$T/b/exec/$n/code")" 0
for size in 1 4095 65536 131072 1048576 3000000; do
	[ "$(dd if="$T/b/exec/$n/stdout" bs=$size skip=3 count=2 iflag=fullblock status=none | md5sum)" = \
		"$($make | dd bs=$size skip=3 count=2 iflag=fullblock status=none | md5sum)" ] ||
		fail "pieces of $size bytes"
done
pass 'pieces of any size'
# Somebody cuts a spool behind hutchd's back.
n=$(node b 'head -c 1000000 /dev/zero')
timeout 10 cat "$T/b/exec/$n/code" >/dev/null
stop_hutchd # all of it is on the disk then, and nowhere else
start_hutchd
truncate -s 200000 "$S"/sandboxes/*/spool/"$n".out
is 'a spool that was cut is an error behind what is left' \
	"$(timeout 10 cat "$T/b/exec/$n/stdout" 2>"$W/cut" | wc -c) $(sed 's/.*: //' "$W/cut")" \
	'200000 Input/output error'
stop_hutchd
