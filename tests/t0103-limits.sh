#!/bin/bash
# Limits: of one user first, then of all; at each of them status, ctl and rmdir still work; keep.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq setpriv python3

cat >"$W/c" <<X
{"root": {"mode": "1777"},
 "limits": {"sandboxes": 3, "sandboxes_all": 5, "commands": 4, "commands_all": 6, "nodes": 12,
            "handles": 40, "waiting": 6, "handles_all": 200}}
X
start_hutchd --config "$W/c"
for i in 1 2 3; do box "b$i"; done
refused 'one sandbox more' '' "mkdir $T/b4 2>&1 | grep -o 'quota exceeded'; exit 1"
said 'it is said' EDQUOT 'user 0 has 3 sandboxes, the most allowed'
no 'by new as well' bash -c "echo > $T/new"
for i in 1 2; do as 4321 mkdir "$T/u$i" || fail 'another user has his own'; done
no 'but not more than all may have' as 4321 mkdir "$T/u3"
like 'which is said' "$(as 4321 cat "$T/error")" 'EDQUOT there are 5 sandboxes, the most allowed'
ok 'rmdir makes room' rmdir "$T/b3"
ok 'for another' as 4321 mkdir "$T/u3"

# Commands.
for i in 1 2 3 4; do node b1 'sleep 100' >/dev/null; done
no 'one command more fails in the write' bash -c "echo 'sleep 1' > $T/b1/exec/new"
said 'and is told' EDQUOT '4 commands run in the sandboxes of user 0'
no 'as JSON too' bash -c "echo '[\"true\"]' > $T/b2/exec/new"
no 'then last is gone' test -e "$T/b2/exec/last"
mkdir "$T/b2/exec/named"
no 'in a named node too' bash -c "echo 'sleep 1' > $T/b2/exec/named/cmd"
ok 'status' wait_for 10 eval '[ "$(status_of b1 1)" = running ]'
is 'another user runs his' "$(as 4321 bash -c "echo 'echo his' > $T/u1/exec/new; cat $T/u1/exec/last/stdout")" his
ok 'ctl' bash -c "echo kill > $T/b1/exec/1/ctl"
is 'kills' "$(timeout 5 cat "$T/b1/exec/1/code")" 137
ok 'then there is room' bash -c "echo 'echo room' > $T/b2/exec/named/cmd"
is 'and it runs' "$(timeout 5 cat "$T/b2/exec/named/stdout")" room
ok 'kill' bash -c "echo kill > $T/b1/ctl"

# Nodes.
i=0; while mkdir "$T/b2/exec/n$i" 2>/dev/null; do i=$((i + 1)); done
is 'nodes of all his sandboxes' "$((i + $(ls "$T/b1/exec" | grep -c '^[0-9]') + 1))" 12
said 'are limited' EDQUOT 'have 12 commands, the most allowed: rmdir'
no 'exec/new too' bash -c "echo true > $T/b1/exec/new"
ok 'rmdir' rmdir "$T/b2/exec/n0"
ok 'makes room' bash -c "echo true > $T/b1/exec/new"
wait_for 5 eval "rmdir $T/b2/exec/n* 2>/dev/null; true"

# Handles and waiting reads.
run b1 'true'
N=$(node b1 'sleep 100')
is 'handles and waiting reads' "$(timeout 60 python3 - "$T/b1" "$N" <<'X'
import os, sys, errno, threading, time
b, n = sys.argv[1], sys.argv[2]
fds, said = [], None
try:
    while len(fds) < 300: fds.append(os.open(b + "/spec.json", os.O_RDONLY))
except OSError as e: said = errno.errorcode[e.errno]
print(len(fds), said)
print(open(b + "/exec/%s/status" % n).read().strip(), open(b + "/state").read().strip())
c = os.open(b + "/exec/%s/ctl" % n, os.O_WRONLY); os.write(c, b"signal 0\n" if 0 else b"close-stdin\n"); os.close(c)
for fd in fds: os.close(fd)
time.sleep(0.3)
out = []
def read():
    fd = os.open(b + "/exec/%s/code" % n, os.O_RDONLY)
    try: out.append(os.read(fd, 9).decode().strip())
    except OSError as e: out.append(errno.errorcode[e.errno])
    os.close(fd)
ts = [threading.Thread(target=read) for i in range(10)]
for t in ts: t.start()
time.sleep(0.5)
print(sorted(out))
os.mkdir(b + "/exec/while"); os.rmdir(b + "/exec/while")
c = os.open(b + "/exec/%s/ctl" % n, os.O_WRONLY); os.write(c, b"kill\n"); os.close(c)
for t in ts: t.join()
print(len(out), out.count("137"))
X
)" $'40 EMFILE\nrunning running\n[\'EAGAIN\', \'EAGAIN\', \'EAGAIN\', \'EAGAIN\']\n10 6'
wait_for 5 eval "[ \"\$(jq .handles.all $T/stats.json)\" = 1 ]"
is 'stats count what is open' "$(jq -c '[.sandboxes.running, .commands.live, .waiting.all, .handles.mine]' "$T/stats.json")" '[5,0,0,1]'
for b in b1 b2; do ok "rmdir $b" timeout 5 rmdir "$T/$b"; done
stop_hutchd

# keep.
for kind in auto none; do
	printf '{"cgroup":"%s"}' "$kind" >"$W/c"
	start_hutchd --config "$W/c"
	box "k$kind"
	E=$T/k$kind/exec
	count() { ls "$E" | grep -c '^[0-9]'; }
	is 'keep' "$(cat "$E/keep")" 1000
	timeout 60 bash -c "for i in {1..700}; do echo true > $E/new; done; for i in {1..500}; do echo true > $E/new; cat $E/last/code; done" >"$W/out"
	wait_for 10 eval "[ \"\$(count)\" = 1000 ]"
	is "1200 commands leave 1000 nodes (groups: $kind)" "$(count)" 1000
	is 'the newest' "$(ls "$E" | grep '^[0-9]' | sort -n | tail -1)" 1200
	timeout 60 bash -c "for i in {1..20}; do echo 'sleep 0.3; sleep 1 &' > $E/new; done"
	exec 7<"$E/400/status" 8<"$E/401/stdout"
	ok 'keep is written' bash -c "echo 1 > $E/keep"
	is 'and read' "$(cat "$E/keep")" 1
	wait_for 10 eval "[ \"\$(count)\" = 2 ]"
	is 'what is open stays' "$(count) $(ls -d "$E/400" "$E/401" | wc -l)" '2 2'
	exec 7<&- 8<&-
	wait_for 5 eval "[ \"\$(count)\" = 1 ]"
	is 'until it is closed' "$(count)" 1
	for v in -1 x 100001 99999999999999999999 '' '1 2' 0x10; do refused "keep of '$v'" EINVAL "echo '$v' > $E/keep"; done
	refused 'keep of a page' E2BIG "head -c 5000 /dev/zero | tr '\\0' 1 > $E/keep"
	is 'is as it was' "$(cat "$E/keep")" 1
	mkdir "$E/unwritten"
	echo '{"cmd":"true","id":"with-id"}' >"$E/new"
	timeout 5 cat "$E/with-id/code" >"$W/out"
	ok 'keep nothing' bash -c "echo 0 > $E/keep"
	wait_for 5 eval "[ \"\$(count)\" = 0 ]"
	is 'leaves those with an id, and those without a command' "$(ls "$E" | tr '\n' ' ')" 'keep last new unwritten with-id '
	timeout 5 rmdir "$T/k$kind"
	stop_hutchd
done
