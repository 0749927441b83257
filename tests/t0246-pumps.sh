#!/bin/bash
# Streams whose pipes the writer has: what is counted, how they end, what survives the writer.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 prlimit

start_hutchd
code() { timeout $((30 * ${HUTCH_PATIENCE:-1})) cat "$1/code" 2>&1; }
says() { [ "$(timeout 5 cat "$1/status" 2>&1)" = "$2" ]; }
writer() { # its process
	local p
	for p in $(ps -o pid= --ppid "$(hutchd_pid)"); do
		[ "$(cat "/proc/$p/comm" 2>&1)" = hutchd-writer ] && echo "$p"
	done
}

# --- what is counted: not what a pump was granted and has not used

echo '{"name":"c","limits":{"output":"40M"}}' >"$T/new"
wait_for 10 test -e "$T/c/exec/new"
for i in 1 2 3 4; do
	echo 'head -c 8M /dev/zero' >"$T/c/exec/new"
	is "flood $i: it ends" "$(code "$T/c/exec/$i")" 0
done
is 'none of what is below the limit was given back' \
	"$(cat "$T"/c/exec/[1-4]/stdout 2>&1 | wc -c)" $((32 << 20))

# --- one that drops keeps its limit to the byte, and the oldest goes for it

for i in 5 6; do
	echo '{"cmd":"head -c 40M /dev/zero","output_limit":"10M","on_full":"drop"}' \
		>"$T/c/exec/new"
	is "drop $i: it ends" "$(code "$T/c/exec/$i")" 0
	is "drop $i: exactly the limit" \
		"$(jq -c '[.stdout_bytes,.truncated]' "$T/c/exec/$i/result.json")" \
		"[$((10 << 20)),true]"
done

# --- the end of one that is full, and of what is left behind

box b
E=$T/b/exec
echo '{"cmd":"(head -c 3M /dev/zero; exec >&-; sleep 0.3) & head -c 1 /dev/zero; wait","output_limit":"2M"}' >"$E/new"
ok 'full: it stands' wait_for 10 says "$E/1" 'running (stdout full)'
timeout 10 cat "$E/1/stdout" | wc -c >"$W/n"
is 'full: a reader gets all' "$(cat "$W/n")" $((3145728 + 1))
echo '{"cmd":"head -c 2M /dev/zero; sleep 1 >&2 & exec sleep 2","output_limit":"2M"}' >"$E/new"
ended() { [ "$(timeout 2 python3 - "$1" <<'P'
import os, select, sys
p = select.poll(); p.register(os.open(sys.argv[1], os.O_RDONLY), select.POLLIN)
print(p.poll(0)[0][1] & select.POLLHUP)
P
)" = 16 ]; }
is 'at its limit: the result comes' "$(code "$E/2")" 0
echo '{"cmd":"head -c 2M /dev/zero; (sleep 1) & exit 0","output_limit":"2M"}' >"$E/new"
is 'at its limit, a child has it: the result comes' "$(code "$E/3")" 0
ok 'at its limit, a child had it: it ends with that' wait_for 10 ended "$E/3/stdout"

for i in 4 5 6 7 8; do
	echo 'head -c 4M /dev/zero; (head -c 1M /dev/zero; exit) & exit 0' >"$E/new"
done
for i in 4 5 6 7 8; do
	is "left behind $i: its result" "$(code "$E/$i")" 0
	is "left behind $i: all its bytes" "$(timeout 10 cat "$E/$i/stdout" | wc -c)" \
		$((5 << 20))
done

# --- output has a reader who waits

echo 'head -c 4M /dev/zero; sleep 1; head -c 4M /dev/zero; exec sleep 600' >"$E/new"
is 'output: who follows gets what is there' \
	"$(timeout 20 head -c 8M "$E/9/output" | wc -c)" $((8 << 20))

# --- removed while it floods: nothing is left

before=$(ls "$S"/sandboxes/*/spool | sort | md5sum)
for i in 10 11 12 13; do
	echo 'exec cat /dev/zero' >"$E/new"
	wait_for 10 test -s "$E/$i/stdout"
	sleep 0.1
	rmdir "$E/$i"
done
ok 'removed: its spools go' wait_for 10 bash -c \
	"[ \"\$(ls $S/sandboxes/*/spool | sort | md5sum)\" = '$before' ]"
sleep 0.2
is 'removed: and stay away' "$(ls "$S"/sandboxes/*/spool | sort | md5sum)" "$before"

# --- the writer is killed while commands flood and settle

for i in 14 15 16; do
	echo 'seq -f %07.0f 1 4000000; exit 7' >"$E/new"
done
for i in 1 2 3; do
	p=$(writer)
	[ -n "$p" ] && kill -9 "$p"
	sleep 0.4
done
for i in 14 15 16; do
	is "writer killed: command $i ends" "$(code "$E/$i")" 7
	is "writer killed: with all it wrote" "$(jq .stdout_bytes "$E/$i/result.json")" 32000000
	is "writer killed: in its place" "$(timeout 20 sha256sum <"$E/$i/stdout")" \
		"$(seq -f %07.0f 1 4000000 | sha256sum)"
done

# --- the disk does not take all: what is in front of that is whole, and the end is there

prlimit --fsize=102400 --pid "$(writer)"
box l
echo 'head -c 8M /dev/zero; sleep 1; head -c 8M /dev/zero; exit 3' >"$T/l/exec/new"
is 'lost: the command runs on' "$(code "$T/l/exec/1")" 3
kept=$(jq .stdout_bytes "$T/l/exec/1/result.json")
ok "lost: only what is there is counted, $kept" [ "$kept" -gt 0 -a "$kept" -le 102400 ]
is 'lost: the result says so' "$(jq .truncated "$T/l/exec/1/result.json")" true
is 'lost: a reader comes to the end' "$(timeout 10 cat "$T/l/exec/1/stdout" 2>&1 | sha256sum)" \
	"$(head -c "$kept" /dev/zero | sha256sum)"
is 'lost: and one of both streams' "$(timeout 10 cat "$T/l/exec/1/output" 2>&1 | sha256sum)" \
	"$(head -c "$kept" /dev/zero | sha256sum)"
like 'lost: frames have their result' "$(timeout 10 cat "$T/l/exec/1/frames" 2>&1 | tr '\0' ' ' | tail -c 2000)" \
	'"exit_code":3,.*"truncated":true'

# Who has seen them is told of the gap, at once, and the bytes behind it are where they were.
echo 'head -c 8M /dev/zero; echo behind >&2; exec sleep 600' >"$T/l/exec/new"
for f in stdout output frames; do
	timeout 20 cat "$T/l/exec/2/$f" >"$W/lost.$f" 2>"$W/said.$f" &
	pids[$!]=$f
done
ok 'seen: stderr comes' wait_for 10 test -s "$T/l/exec/2/stderr"
echo kill >"$T/l/exec/2/ctl"
for p in "${!pids[@]}"; do
	wait "$p"
	f=${pids[$p]} status=$?
	ok "seen: the reader of $f ends" [ "$status" != 124 ]
	like "seen: $f, at its end or with an error" "$status $(cat "$W/said.$f")" \
		'^0 $|^1 .*Input/output error$'
done
like 'seen: what they had is nothing else' "$(cat "$W"/lost.{stdout,output} | tr -d '\0')" '^(behind)?$'
