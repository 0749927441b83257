#!/bin/bash
# 1000 live commands in one sandbox: each has its input and its output, and status, kill and rmdir
# still answer.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
pid=$(hutchd_pid)
steady
begin=$(fds)
t=$(now_ms)
timeout 100 python3 - "$T/b/exec" >"$W/names" 2>&1 <<'X'
import os, sys
fd = os.open(sys.argv[1] + "/new", os.O_RDWR)
for i in range(1000):
    os.write(fd, b'["cat"]')
    print(os.read(fd, 100).decode().strip())
X
is '1000 commands' "$(sort -u "$W/names" | grep -c '^[0-9]*$')" 1000
ok 'all live' wait_for 60 eval '[ "$(jq .commands.live "$T/stats.json")" = 1000 ] && [ "$(cat "$T"/b/exec/[0-9]*/status | grep -c "^running")" = 1000 ]'
note "started in $(($(now_ms) - t)) ms"
got=$(fds)
ok "they cost $((got - begin)) descriptors, at most 7 each" test $((got - begin)) -le 7000
answer() { # WHAT COMMAND...: in how many ms
	local what=$1 t
	shift
	t=$(now_ms)
	ok "$what" timeout 20 "$@"
	note "$what: $(($(now_ms) - t)) ms"
}
answer 'status' cat "$T/b/exec/500/status"
answer 'ls' ls -l "$T/b/exec"
answer 'one more command' bash -c "echo 'echo more' > $T/b/exec/new; [ \$(cat $T/b/exec/last/stdout) = more ]"
answer 'kill of one' bash -c "echo kill > $T/b/exec/500/ctl; [ \$(cat $T/b/exec/500/code) = 137 ]"
answer 'rmdir of one' rmdir "$T/b/exec/501"
answer 'another sandbox' mkdir "$T/c"
wait_for 10 state_is c running
is 'and a command there' "$(out c 'echo calm')" calm
is 'each has its own input and output' "$(timeout 100 python3 - "$T/b/exec" "$W/names" <<'X'
import os, sys
E, bad = sys.argv[1], []
names = [n for n in open(sys.argv[2]).read().split() if n not in ("500", "501")]
for n in reversed(names):
    with open(f"{E}/{n}/stdin", "w") as f: f.write(f"for {n}\n")
for n in names:
    if open(f"{E}/{n}/stdout").read() != f"for {n}\n" or open(f"{E}/{n}/code").read() != "0\n": bad.append(n)
print(len(names), bad[:5])
X
)" '998 []'
ok 'no descriptor is left of them' wait_for 10 eval "[ \$(fds) -le $((begin + 5)) ]"

# Again, and all of them killed at once; and a sandbox with so many removed.
for how in "echo kill > $T/b/ctl" "rmdir $T/b"; do
	timeout 100 python3 - "$T/b/exec" >"$W/names" 2>&1 <<-'X'
		import os, sys
		fd = os.open(sys.argv[1] + "/new", os.O_RDWR)
		for i in range(1000):
		    os.write(fd, b'["sleep", "7601"]')
		    os.read(fd, 100)
	X
	ok "1000 again: ${how%% *}" wait_for 60 eval '[ "$(pgrep -fc "^sleep 7601$")" = 1000 ]'
	answer "${how//"$T"/T} of 1000" bash -c "$how"
	ok "all of them are gone: ${how%% *}" wait_for 30 eval '! pgrep -f "^sleep 7601$"'
	[ ! -d "$T/b" ] || ok 'each is killed' wait_for 30 eval '[ "$(cat "$T"/b/exec/*/status 2>/dev/null | grep -c "^killed")" -ge 900 ]'
done
ok 'their descriptors are free' wait_for 10 eval "[ \$(fds) -le $((begin + 5)) ]"
stop_hutchd
