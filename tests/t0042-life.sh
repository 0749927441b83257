#!/bin/bash
# The life of a sandbox: stop, start, removal, and names that come back.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

alive() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -c "sleep[ ]$1"; }
start_hutchd
box b
run b 'echo layer > /root/file; mkdir -p /opt/d; echo deep > /opt/d/f; chown 1000 /opt/d/f; ln -s file /root/link; echo said'
done_node=$N
slow=$(node b 'echo begun; exec sleep 6543')
wait_for 5 test -s "$T/b/exec/$slow/stdout"
(timeout 20 cat "$T/b/exec/$slow/stdout" >"$W/reader") & reader=$!
ok 'stop' timeout 5 bash -c "echo stop > $T/b/ctl"
ok 'is stopped' wait_for 10 state_is b stopped
is 'its processes are gone' "$(alive 6543)" 0
ok 'a waiting reader reaches the end' gone $reader 5
is 'with what there was' "$(cat "$W/reader")" begun
like 'what ran has ended' "$(status_of b "$slow")" '^(killed|lost)'
ok 'its result is there' timeout 5 jq -e '.exit_code == -1' "$T/b/exec/$slow/result.json"
is 'finished nodes stay' "$(timeout 5 cat "$T/b/exec/$done_node/stdout")" said
refused 'exec in a stopped sandbox' ESRCH "echo true > $T/b/exec/new"
said 'and said' ESRCH b
refused 'the same with cat' ESRCH "echo true | cat > $T/b/exec/new"
refused 'the same read-write' ESRCH "exec 3<>$T/b/exec/new; echo true >&3"
is 'no node came of it' "$(ls "$T/b/exec" | grep -c '^[0-9]')" 2
no 'last does not exist' test -e "$T/b/exec/last"
ok 'start' timeout 5 bash -c "echo start > $T/b/ctl"
ok 'runs' wait_for 10 state_is b running
is 'the layer is there' "$(out b 'cat /root/link /opt/d/f; stat -c %u /opt/d/f' | tr '\n' ' ')" 'layer deep 1000 '
is 'nodes of before are still there' "$(timeout 5 cat "$T/b/exec/$done_node/stdout")" said
is 'process ids begin again' "$([ "$(out b 'echo $$')" -lt 100 ] && echo yes)" yes
for i in 1 2 3 4 5; do
	printf 'stop\nstart\n' >"$T/b/ctl"
	ok "stop and start, round $i" wait_for 10 eval "state_is b running && [ \"\$(out b 'echo $i')\" = $i ]"
done

# Removal while commands run and readers wait.
n=$(node b 'echo up; sleep 6544 & (setsid sleep 6545 &); exec sleep 6546')
x=$T/b/exec/$n
wait_for 5 test -s "$x/stdout"
for f in stdout stderr result.json code; do
	(timeout 30 cat "$x/$f" >"$W/r.$f" 2>&1) &
	readers+=($!)
done
head -c 1000000 /dev/zero >"$W/mega"
(timeout 30 cat "$W/mega" >"$x/stdin" 2>/dev/null) &
readers+=($!)
sleep 0.5
inode=$(stat -c %i "$T/b")
exec 5<"$x/status" 6<"$T/b"
ok 'rmdir while commands run and readers wait' timeout 5 rmdir "$T/b"
no 'the name is gone' test -e "$T/b"
ok 'every process is gone' wait_for 5 eval '[ "$(alive 654)" = 0 ]'
for p in "${readers[@]}"; do ok 'a reader or writer was freed' gone "$p" 5; done
is 'what a reader had got was right' "$(head -n 1 "$W/r.stdout")" up
ok 'mkdir of the same name at once' timeout 5 mkdir "$T/b"
no 'another inode number' test "$(stat -c %i "$T/b")" = "$inode"
like 'the old directory never shows the new one' "$(timeout 5 ls /proc/self/fd/6/ 2>&1 6<&6; timeout 5 cat /proc/self/fd/6/state 2>&1)" 'No such|Stale'
exec 5<&- 6<&-
wait_for 10 state_is b running
is 'it is fresh' "$(out b 'ls /root')" ''
is 'nodes begin at 1 again' "$N$(ls "$T/b/exec" | grep '^[0-9]' | tr '\n' ' ')" "${N}1 "
is 'from within: cwd of the removed' "$(cd "$T/b" && timeout 5 rmdir "$T/b" && timeout 5 mkdir "$T/b" && cat state 2>&1 | grep -Ec 'No such|Stale')" 1

# Removal of a node.
wait_for 10 state_is b running
n=$(node b 'echo x; exec sleep 6547')
wait_for 5 test -s "$T/b/exec/$n/stdout"
exec 5<"$T/b/exec/$n/stdout"
ok 'rmdir of a running node' timeout 5 rmdir "$T/b/exec/$n"
no 'it is gone' test -e "$T/b/exec/$n"
ok 'its process is gone' wait_for 5 eval '[ "$(alive 6547)" = 0 ]'
read -r -t 5 line <&5
like 'an open handle reads on, or hears that it is gone' "${line-}" '^(x|)$'
exec 5<&-
run b 'echo y'
no 'its name is not used again' test "$N" = "$n"
ok 'rmdir of a finished node' timeout 5 rmdir "$X"
is 'last does not point to what was removed' "$(cat "$T/b/exec/last/stdout" 2>&1 | grep -c '^y')" 0

# A command written right after mkdir runs, whether the sandbox was ready or not.
bad=
for i in 1 2 3 4 5 6 7 8; do
	timeout 10 mkdir "$T/quick" && echo "echo quick-$i" >"$T/quick/exec/new"
	got=$(timeout 10 cat "$T/quick/exec/last/stdout" 2>&1)
	[ "$got" = "quick-$i" ] || bad+=" $i: $got"
	timeout 10 rmdir "$T/quick" || bad+=" $i: rmdir"
done
is 'mkdir, a command, its output, rmdir: without waiting' "$bad" ''

# Made and removed many times: nothing piles up.
pid=$(hutchd_pid)
steady
begin=$(fds)
for i in $(seq 30); do timeout 10 mkdir "$T/many" && timeout 10 rmdir "$T/many"; done
ok 'no descriptor is left of 30 sandboxes' wait_for 5 eval "[ \$(fds) -le $((begin + 2)) ]"
for i in $(seq 30); do run b 'echo x'; done
ok 'no descriptor is left of 30 commands' wait_for 5 eval "[ \$(fds) -le $((begin + 2)) ]"
ok 'no zombie of hutchd' wait_for 5 eval "! grep -l '^PPid:.$pid\$' /proc/[0-9]*/status | xargs -r grep -l '^State:.Z' | grep -q ."
ok 'rmdir' timeout 5 rmdir "$T/b"
is 'the state directory keeps nothing of removed ones' "$(wait_for 5 eval "! find $S -name file -o -name mark | grep -q ."; find "$S" -name 'many*' | wc -l)" 0
stop_hutchd
