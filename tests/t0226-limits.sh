#!/bin/bash
# Everything that a user can make many of has a limit; at each of them the rest still works, others
# are not disturbed, and what was refused leaves nothing behind.  And the budget of descriptors.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 setpriv

start_hutchd
pid=$(hutchd_pid)
# settled N: the daemon has no more descriptors than that, soon.
settled() { wait_for 10 eval "[ \$(fds) -le $1 ]"; }

# Descriptors: at most 3 for a sandbox, 7 for a live command, none for one that is over.
box a
steady
begin=$(fds)
for i in {1..20}; do mkdir "$T/s$i"; done
wait_for 10 eval '[ "$(cat "$T"/s*/state | grep -c running)" = 20 ]'
steady
got=$(fds)
ok "20 sandboxes cost $((got - begin)) descriptors, at most 3 each" test $((got - begin)) -le 60
base=$(fds)
for i in {1..40}; do echo 'echo x; echo y >&2; sleep 7501' >"$T/a/exec/new"; done
wait_for 10 eval '[ "$(pgrep -fc "^sleep 7501$")" = 40 ]'
got=$(fds)
ok "40 live commands cost $((got - base)) descriptors, at most 7 each" test $((got - base)) -le 280
timeout 60 bash -c "for i in {1..60}; do echo 'echo x; echo y >&2' > $T/a/exec/new; cat $T/a/exec/last/code; done" >/dev/null
ok 'finished ones cost none' settled "$got"
echo kill >"$T/a/ctl"
ok '40 that were killed cost none' settled "$base"
timeout 10 rmdir "$T"/s[0-9]*
ok '20 that were removed cost none' settled "$begin"
for f in stdout stderr result.json code; do
	pids=()
	n=$(node a 'exec sleep 7502')
	for i in {1..20}; do timeout 30 cat "$T/a/exec/$n/$f" >/dev/null 2>&1 & pids+=($!); done
	sleep 0.3
	got=$(fds)
	echo kill >"$T/a/exec/$n/ctl"
	wait "${pids[@]}"
	note "$f: with 20 readers $((got - begin)) descriptors"
	ok "$f: 20 readers cost none that stays" settled "$begin"
done
stop_hutchd

# Small limits, and one user at each of them.
cat >"$W/c.json" <<'X'
{"root": {"mode": "1777"},
 "limits": {"sandboxes": 4, "commands": 8, "nodes": 60, "handles": 60, "waiting": 12}}
X
start_hutchd --config "$W/c.json"
u() { as 4321 timeout -k 1 20 bash -c "$1" 2>&1 </dev/null; }
v() { as 4322 timeout -k 1 20 bash -c "$1" 2>&1 </dev/null; }
u "mkdir $T/u1 $T/u2"
v "mkdir $T/v1"
others() { # WHAT: another user does everything
	is "another user, $1" "$(v "mkdir $T/v2 && echo 'read x; echo \$x' > $T/v1/exec/new && cd $T/v1/exec/last && echo in > stdin && cat stdout code && rmdir $T/v2" | tr '\n' ' ')" 'in 0 '
}
himself() { # WHAT NODE: he can look, kill and remove
	is "himself, $1: status, state" "$(u "cat $T/u1/exec/$2/status $T/u1/state" | tr '\n' ' ')" 'running running '
	is "himself, $1: error" "$(u "head -c 4 $T/error")" "$(date +%Y)"
	ok "himself, $1: ctl" u "echo kill > $T/u1/exec/$2/ctl"
	ok "himself, $1: and it is killed" wait_for 10 eval "[ \"\$(u 'cat $T/u1/exec/$2/status')\" = killed ]"
	is "himself, $1: rmdir of a command" "$(u "rmdir $T/u1/exec/$2"; test -e "$T/u1/exec/$2" && echo there)" ''
}
start() { u "cd $T/u1/exec; exec 3<>new; echo 'exec sleep 7503' >&3; read -r n <&3; echo \$n"; }

# Commands.
one=$(start)
u "for i in {1..7}; do echo 'exec sleep 7504' > $T/u1/exec/new; done" >/dev/null
like 'one command too many' "$(u "echo true > $T/u2/exec/new")" 'quota exceeded'
others 'commands'
himself 'commands' "$one"
is 'then there is room' "$(u "echo 'echo room' > $T/u2/exec/new; cat $T/u2/exec/last/stdout")" room
u "echo kill > $T/u1/ctl"

# Handles.
one=$(start)
(exec setpriv --reuid=4321 --regid=4321 --clear-groups python3 - "$T/u1" >"$W/handles" 2>&1) <<'X' &
import errno, os, sys, time
fds = []
for f in ("spec.json", "exec/new", "events", "exec"):
    try:
        while True: fds.append(os.open(f"{sys.argv[1]}/{f}", os.O_RDONLY))
    except OSError as e: print(f, errno.errorcode[e.errno], flush=True)
print(len(fds) <= 100, flush=True)
time.sleep(60)
X
holder=$!
wait_for 10 grep -q 'True\|False' "$W/handles"
like 'handles: refused at a limit' "$(cat "$W/handles")" 'spec.json E(MFILE|NFILE).*True'
others 'handles'
himself 'handles' "$one"
{ kill -KILL $holder; wait $holder; } 2>/dev/null
is 'handles: closed by his death' "$(u "cat $T/u1/spec.json | jq -r .name")" u1

# Requests that wait.
one=$(start)
readers=()
for i in {1..20}; do (as 4321 timeout 30 cat "$T/u1/exec/$one/code" >"$W/wait.$i" 2>&1) & readers+=($!); done
ok 'waiting: twelve wait, eight hear that they cannot' wait_for 10 eval '[ "$(grep -l "temporarily unavailable" "$W"/wait.* | wc -l)" = 8 ]'
others 'waiting'
himself 'waiting' "$one"
wait "${readers[@]}"
is 'waiting: the twelve have their answer' "$(grep -lx 137 "$W"/wait.* | wc -l)" 12

# Nodes, and requests with an id among them.
like 'nodes: to the limit' "$(u "i=0; while echo \"{\\\"id\\\":\\\"x\$i\\\",\\\"cmd\\\":\\\"true\\\"}\" > $T/u1/exec/new && [ \$i -lt 200 ]; do i=\$((i + 1)); cat $T/u1/exec/last/code; done >/dev/null")" 'quota exceeded'
others 'nodes'
like 'nodes: it is said' "$(u "head -n 1 $T/error")" 'EDQUOT .*rmdir'
is 'nodes: the same request again is no new one' "$(u "echo '{\"id\":\"x0\",\"cmd\":\"true\"}' > $T/u1/exec/new && echo accepted")" accepted
is 'nodes: rmdir makes room' "$(u "rmdir $T/u1/exec/x0 && echo 'echo room' > $T/u1/exec/new && cat $T/u1/exec/last/stdout")" room

# Half-written requests: a megabyte each, in handles that stay open.
is 'half-written requests do no harm' "$(as 4321 timeout 60 python3 - "$T/u2" <<'X'
import os, sys
fds = []
for i in range(40):
    fd = os.open(sys.argv[1] + "/exec/new", os.O_RDWR); fds.append(fd)
    os.write(fd, b'{"cmd":"' + b"x" * 900000)
print(open(sys.argv[1] + "/state").read().strip())
for fd in fds:
    try: os.read(fd, 10); print("read")
    except OSError: pass
    os.close(fd)
X
)" running
limit=150000
if ldd "$HUTCHD" | grep -q libasan; then limit=900000; fi
ok 'and their memory is given back, or is not much' test "$(awk '/^VmRSS/ { print $2 }' "/proc/$(hutchd_pid)/status")" -lt $limit
others 'requests'

# Sandboxes.
u "mkdir $T/u3 $T/u4" >/dev/null
like 'sandboxes: one too many' "$(u "mkdir $T/u5")" 'quota exceeded'
others 'sandboxes'
for b in u1 u2 u3 u4; do is "rmdir of $b" "$(u "rmdir $T/$b"; test -e "$T/$b" && echo there)" ''; done
is 'then there is room' "$(u "mkdir $T/u5 && cat $T/u5/spec.json | jq -r .name")" u5
stop_hutchd
