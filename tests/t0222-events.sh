#!/bin/bash
# events: what happened, in order, to whom it may concern; it has an end, and can be followed.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 setpriv

start_hutchd
ev() { timeout 5 jq -r "$2" "$T/$1"; }
has() { wait_for 5 eval "[ \"\$(timeout 5 jq -r '$2' $T/$1 | tail -n 1)\" = '$3' ]"; }

is 'nothing yet, and it ends' "$(timeout 5 cat "$T/events")" ''
box b
is 'a sandbox' "$(ev events '"\(.event) \(.sandbox)"')" $'created b\nstarted b'
# Each way in which a command ends.
while IFS='|' read -r what request want; do
	run b "$request" 3
	[ "$what" != kill ] || echo kill >"$X/ctl"
	ok "$what" has b/events "select(.exec == \"$N\") | \"\\(.event) \\(.reason) \\(.code)\"" "exec finished $want"
done <<-X
	exit|exit 3|exited 3
	signal|kill -TERM \$\$|signaled 143
	timeout|{"cmd":"sleep 50","timeout_s":0.2}|timed_out 124
	kill|sleep 51|killed 137
	not found|["no-such-program"]|failed 127
X
mkdir "$T/b/exec/by-name"
echo true >"$T/b/exec/by-name/cmd"
ok 'a name' has b/events 'select(.exec == "by-name") | .event' 'exec finished'
is 'started before finished, each once' "$(ev b/events 'select(.exec) | "\(.exec) \(.event)"' | sort | uniq -c | awk '{ print $1 }' | sort -u)" 1
is 'a command that did not start has no start' "$(ev b/events 'select(.exec == "5") | .event')" 'exec finished'
slow=$(node b 'sleep 52')
echo stop >"$T/b/ctl"
ok 'stop' has b/events .event stopped
echo start >"$T/b/ctl"
ok 'start' has b/events .event started
is 'what a stop ends has ended before it' "$(ev b/events '"\(.event) \(.exec)"' | grep -A9 "finished $slow" | tr '\n' ' ')" \
	"exec finished $slow stopped null started null "

is 'every line is an object with what it must have' "$(ev events '[(.seq | type), (.time | type), (.event | type), (.sandbox | type)] | join(" ")' | sort -u)" 'number string string string'
is 'numbers only grow' "$(ev events .seq | sort -n -u | wc -l) $(ev events .seq | sort -n -c 2>&1)" "$(ev events .seq | wc -l) "
like 'times are RFC 3339' "$(ev events .time | tail -1)" '^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9:]{8}(\.[0-9]+)?Z$'
is 'times do not go back' "$(ev events .time | sort -c 2>&1)" ''
box other
run other 'true'
ok 'another has its own' has other/events .event 'exec finished'
is 'and no others' "$(ev other/events .sandbox | sort -u)" other
is 'nor the first its' "$(ev b/events .sandbox | sort -u)" b
is 'the numbers are those of the root' "$(comm -13 <(ev events .seq | sort) <({ ev b/events .seq; ev other/events .seq; } | sort))" ''

# Following: offsets are absolute, the size grows, tail -f and poll wake up, a read at the end is 0.
for f in events other/events; do
	size=$(stat -c %s "$T/$f")
	is "$f: its size is what it has" "$size" "$(timeout 5 cat "$T/$f" | wc -c)"
	timeout 30 tail -n 0 -f "$T/$f" >"$W/tail" 2>&1 & tail=$!
	timeout 30 python3 - "$T/$f" >"$W/poll" 2>&1 <<'X' & poll=$!
import os, select, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
while os.read(fd, 65536): pass
p = select.poll(); p.register(fd, select.POLLIN)
print(p.poll(0), flush=True)
t = time.monotonic(); r = p.poll(20000)
waited, text = time.monotonic() - t > 0.2, os.read(fd, 65536)
print(len(r), b'"other"' in text, waited)
while b"exec finished" not in text: p.poll(20000); text += os.read(fd, 65536)
print(p.poll(0))
X
	wait_for 10 grep -q '\[\]' "$W/poll"
	sleep 0.5
	run other 'true'
	wait $poll
	is "$f: poll" "$(tr '\n' ' ' <"$W/poll")" '[] 1 True True [] '
	ok "$f: tail -f" wait_for 5 grep -q "\"exec\":\"$N\"" "$W/tail"
	kill $tail
	wait $tail 2>/dev/null
	is "$f: what is new stands behind what there was" "$(tail -c +$((size + 1)) "$T/$f" | jq -r .exec | sort -u)" "$N"
done
is 'tail -n' "$(timeout 5 tail -n 1 "$T/other/events" | jq -r .event)" 'exec finished'
is 'grep ends' "$(timeout 5 grep -c '"b"' "$T/events" >/dev/null; echo $?)" 0
timeout 30 tail -n 0 -f "$T/other/events" >/dev/null 2>&1 & tail=$!
timeout 30 tail -n +1 -f "$T/events" >"$W/all" 2>/dev/null & all=$!
sleep 0.3
ok 'rmdir of what is followed' timeout 5 rmdir "$T/other"
ok 'removed' has events .event removed
ok 'who follows the root sees it' wait_for 5 grep -q '"removed"' "$W/all"
kill $tail $all 2>/dev/null
wait $tail $all 2>/dev/null
box other
is 'a new one of that name begins anew' "$(ev other/events .event)" $'created\nstarted'
is 'the root has both' "$(ev events 'select(.sandbox == "other" and .exec == null) | .event' | tr '\n' ' ')" 'created started removed created started '

# What another user sees: what he may enter, and nothing by following either.
as 4321 timeout 30 tail -n +1 -f "$T/events" >"$W/his" 2>&1 & tail=$!
as 4321 timeout 30 python3 -c 'import os, select, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.read(fd, 65536)
p = select.poll(); p.register(fd, select.POLLIN); print(len(p.poll(1500)))' "$T/events" >"$W/poll" & poll=$!
sleep 0.5
run b 'true'
wait $poll
is 'a user is not woken by what is not his' "$(cat "$W/poll")" 0
is 'and sees nothing' "$(cat "$W/his")" ''
is 'not even its size' "$(as 4321 stat -c %s "$T/events")" 0
mkdir "$T/gift"
chown 4321 "$T/gift"
run gift 'true'
ok 'what is given to him he sees' wait_for 5 grep -q "\"exec\":\"$N\"" "$W/his"
is 'and only that' "$(jq -r .sandbox "$W/his" | sort -u)" gift
kill $tail
wait $tail 2>/dev/null
like 'events of another sandbox' "$(as 4321 cat "$T/b/events" 2>&1)" 'Permission denied'

# Who writes to it is refused.
refused 'writing to it' 'EACCES|EPERM' "echo x > $T/events"
slow=$(node b 'sleep 53')
wait_for 5 status_is b "$slow" running
crash_hutchd
start_hutchd
is 'after a crash it is readable, and ends' "$(timeout 5 cat "$T/events" >/dev/null; echo $?)" 0
echo start >"$T/b/ctl"
ok 'and goes on' has b/events .event started
stop_hutchd
