#!/bin/bash
# A hutchd that is not root's, where root has prepared nothing: fusermount3 mounts, a sandbox has one id.
# $OWN_GROUP: the control group that we are in is this user's, as below `systemd --user`.
. "$(dirname "$0")/../lib.sh"
need fuse userns jq fusermount3 setsid

start_hutchd
like 'fusermount3 mounts it' "$(grep " $T " /proc/mounts)" "fuse.hutch .*user_id=$(id -u)"
box b
like 'user 0 inside is the user outside' "$(out b 'id -u; cat /proc/self/uid_map' | tr -s ' \n' ' ')" "^0 0 $(id -u) 1 $"
run b '{"cmd": "echo out; exit 7", "stdin": "null"}'
is 'code' "$C" 7
is 'output' "$(cat "$X/stdout")" out
n=$(node b cat)
echo input >"$T/b/exec/$n/stdin"
is 'input' "$(timeout 10 cat "$T/b/exec/$n/stdout")" input
is 'a terminal' "$(out b '{"cmd": "tty; stty size; echo x >/dev/stderr; stat -c %u:%a $(tty)", "pty": {"rows": 30}}' | tr -s '\r\n' ' ')" '/dev/pts/0 30 80 x 0:620 '
is 'files stay from command to command' "$(out b 'echo x > /root/f'; out b 'cat /root/f')" x
like '/usr is read-only' "$(out b 'touch /usr/x 2>&1')" 'Read-only'
is 'nothing of the host' "$(out b "ls -d $T $S $HOME 2>/dev/null")" ''
is 'only lo, and it is up' "$(out b 'sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d " "')" lo

# What leaves its process group.
n=$(node b 'setsid sleep 5437 & echo x; sleep 5438')
is 'a command with a daemon' "$(timeout 10 head -n 1 "$T/b/exec/$n/stdout")" x
echo kill >"$T/b/exec/$n/ctl"
like 'killed' "$(timeout 10 cat "$T/b/exec/$n/status")" 'killed|signaled'
if [ -n "${OWN_GROUP-}" ]; then
	ok 'with all that is in its control group' wait_for 10 eval '! pgrep -x -f "sleep 543[78]"'
else
	ok 'with its process group' wait_for 10 eval '! pgrep -x -f "sleep 5438"'
fi
ok 'stop' timeout 10 bash -c "echo stop > $T/b/ctl"
ok 'start' timeout 10 bash -c "echo start > $T/b/ctl"
ok 'runs' wait_for 10 state_is b running
is 'with its files' "$(out b 'cat /root/f')" x
ok 'rmdir' timeout 10 rmdir "$T/b"
ok 'nothing of it runs' wait_for 10 eval '! pgrep -x hutch-agent && ! pgrep -x -f "sleep 543[78]"'
stop_hutchd
no 'nothing is mounted' mounted "$T"
is 'nothing is in the state directory that cannot be removed' "$(rm -rf "$S" 2>&1)" ''
group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
is 'no control group is left' "$(find "$group" -mindepth 1 -type d)" ''
