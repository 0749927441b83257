#!/bin/bash
# Sandboxes with a time to live, and those that are stopped when nobody uses them.
# takes long
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

start_hutchd
new() { timeout 10 bash -c 'printf %s "$1" > "$2"' _ "$1" "$T/new"; }
there() { test -e "$T/$1/state"; }
after() { # SECONDS FROM: it came about no earlier than that after FROM (now_ms)
	awk "BEGIN { exit !($(now_ms) - $2 >= $1 * 1000 - 50) }"
}

t=$(now_ms)
ok 'a sandbox that lives for two seconds' new '{"name":"short","ttl_s":2}'
ok 'one that need not' new '{"name":"long","ttl_s":3600}'
ok 'one that is stopped when idle for one' new '{"name":"idle","idle_timeout_s":1}'
ok 'one at work' new '{"name":"busy","idle_timeout_s":2}'
ok 'one that is held' new '{"name":"held","ttl_s":2}'
exec 5>"$T/held/hold"
n=$(node short 'sleep 7401 & setsid sleep 7402 & wait')
(exec 5>&-; timeout 30 cat "$T/short/exec/$n/code" >/dev/null 2>&1) & reader=$!
m=$(node busy 'sleep 7403')
is 'spec.json says it' "$(jq -c '[.ttl_s, .idle_timeout_s]' "$T"/{short,idle,held,busy}/spec.json | tr '\n' ' ')" \
	'[2,0] [0,1] [2,0] [0,2] '

ok 'an idle one is stopped' wait_for 10 state_is idle stopped
ok 'not before its time' after 1 "$t"
is 'its events say so' "$(timeout 5 jq -r .event "$T/idle/events" | tr '\n' ' ')" 'created started stopped '
ok 'its time over, one is removed' wait_for 10 eval '! there short'
ok 'not before its time' after 2 "$t"
ok 'with what ran in it' wait_for 5 eval '! pgrep -f "^sleep 740[12]$"'
ok 'its reader is freed' gone $reader 5
ok 'a hold does not make it live longer' wait_for 5 eval '! there held'
exec 5>&-
ok 'events says so' wait_for 5 eval '[ "$(jq -r "select(.sandbox == \"short\") | .event" "$T/events" | tail -1)" = removed ]'
is 'one with time left runs' "$(timeout 5 cat "$T/long/state")" running
is 'one at work as well' "$(timeout 5 cat "$T/busy/state") $(status_of busy "$m")" 'running running'
t=$(now_ms)
echo kill >"$T/busy/exec/$m/ctl"
ok 'when its work has ended it is stopped' wait_for 10 state_is busy stopped
ok 'two seconds later' after 2 "$t"
is 'its nodes stay' "$(status_of busy "$m")" killed
refused 'a stopped one refuses commands' ESRCH "echo true > $T/busy/exec/new"
echo start >"$T/busy/ctl"
ok 'it can be started' wait_for 10 state_is busy running
for i in 1 2 3 4 5 6; do
	sleep 0.4
	[ "$(out busy 'echo used')" = used ] || fail "it is used, round $i"
done
is 'while it is used it runs' "$(timeout 5 cat "$T/busy/state")" running
t=$(now_ms)
ok 'then it is stopped again' wait_for 10 state_is busy stopped
ok 'its time counts from the last use' after 1.5 "$t"
is 'the events of all this' "$(timeout 5 jq -r 'select(.event | test("^exec") | not) | .event' "$T/busy/events" | tr '\n' ' ')" \
	'created started stopped started stopped '

# Each use counts its own idle time, also of one in the background.
echo start >"$T/idle/ctl"
wait_for 10 state_is idle running
n=$(node idle 'sleep 2.5 >/dev/null 2>&1 & echo in the background')
timeout 5 cat "$T/idle/exec/$n/code" >/dev/null
note "with a process in the background after 1.7 s: $(sleep 1.7; cat "$T/idle/state")"
ok 'in the end it is stopped' wait_for 10 state_is idle stopped

# Over a restart: the time to live counts from when it was made.
t=$(now_ms)
new '{"name":"over","ttl_s":4}'
new '{"name":"gone","ttl_s":1}'
crash_hutchd
sleep 1
start_hutchd
ok 'a time that ended meanwhile' wait_for 5 eval '! there gone'
there over && over=there || over=gone
if [ $(($(now_ms) - t)) -lt 4000 ]; then is 'a time that ends later' $over there; else note 'too slow to see it'; fi
ok 'ends' wait_for 10 eval '! there over'
ok 'when it should' after 4 "$t"
is 'the others are there' "$(ls "$T" | grep -xE 'long|busy|idle' | tr '\n' ' ')" 'busy idle long '
ok 'zero is none' new '{"name":"zero","ttl_s":0,"idle_timeout_s":0}'
sleep 1.2
is 'and it runs' "$(timeout 5 cat "$T/zero/state")" running
for bad in '"5"' null '[]' true 1e999; do
	refused "ttl_s $bad" EINVAL "echo '{\"ttl_s\":$bad}' > $T/new"
	said "and it is named ($bad)" EINVAL 'ttl_s|not JSON|JSON'
	refused "idle_timeout_s $bad" EINVAL "echo '{\"idle_timeout_s\":$bad}' > $T/new"
done
# A kernel remembers a name for a while: it is not to be believed when another sandbox is behind it.
gone_while_used() { # until a sandbox is not listed any more, its names are asked for
	until ! ls "$T" | grep -qx "$1"; do
		ls "$T/$1/exec" >/dev/null 2>&1 || :
		sleep 0.02
	done
}
for i in 1 2 3; do
	ok "one that goes, round $i" new '{"name":"again","ttl_s":1.5}'
	wait_for 5 state_is again running
	exec 7<"$T/again/exec"
	gone_while_used again
	no "also for who holds its directory, round $i" stat -L /dev/fd/7
	exec 7<&-
	ok "another one, round $i" new '{"name":"again"}'
	ok "a file of it that nobody has asked for before, round $i" test -e "$T/again/spec.json"
	ok "a node is made in it, round $i" mkdir "$T/again/exec/named"
	is "and a command runs there, round $i" "$(out again 'echo here')" here
	ok "it can be removed, round $i" rmdir "$T/again"
done
stop_hutchd
