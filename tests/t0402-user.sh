#!/bin/bash
# A hutchd that is not root's: what works, what it says of what does not, and that nothing of it is left.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq setpriv fusermount3 mknod

# As Debian has it, also where this machine does not; a namespace of mounts is this test's own.
mknod -m 666 "$W/fuse" c 10 229 && mount --bind "$W/fuse" /dev/fuse
cp -a /etc "$W/etc" && mount --bind "$W/etc" /etc
end_mounts() { umount -l /dev/fuse /etc; }
at_end+=(end_mounts)
echo "he:x:4321:4321::$W:/bin/sh" >>/etc/passwd
rm -f /etc/mtab && ln -s /proc/self/mounts /etc/mtab
chmod 777 "$HUTCH_TEST_DIR" "$W"
mkdir "$W/bin" && cp "$BUILD"/hutchd "$BUILD"/hutch "$BUILD"/hutch-agent "$W/bin" # he may not enter where we are
me() { HOME=$W as 4321 timeout -k 1 30 "$@"; }
start() { me "$W/bin/hutchd" --state-dir "$S" "$T" 2>&1; }
sh_me() { me bash -c "cd $T; $1" 2>&1; }

ok 'it starts' start
mounted "$T" || exit 0
like 'fusermount3 has mounted it' "$(grep " $T " /proc/mounts)" 'fuse.hutch .*user_id=4321'
is 'only he may come in' "$(ls "$T" 2>&1 | grep -c 'Permission denied') $(as 4322 ls "$T" 2>&1 | grep -c 'Permission denied')" '1 1'
sh_me 'mkdir b'
ok 'a sandbox' wait_for 10 eval '[ "$(sh_me "cat b/state")" = running ]'
is 'a command' "$(sh_me 'echo "id -u; cat /proc/self/uid_map; exit 3" > b/exec/new; cat b/exec/last/stdout b/exec/last/code' | tr -s ' \n' ' ')" \
	'0 0 4321 1 3 '
is 'another user there is not' "$(sh_me "echo '{\"cmd\":\"id\",\"user\":\"nobody\"}' > b/exec/new; jq -r .error b/exec/last/result.json")" \
	"the sandbox has no id for the user 'nobody'"
mkdir -p "$W/src" && echo hello >"$W/src/f" && chown -R 4321:4321 "$W/src"
is 'a directory of his, to be read' "$(me env HUTCH="$T" "$W/bin/hutch" run --mount "$W/src:/src" -- cat /src/f </dev/null)" hello
like 'and not to be written' "$(me env HUTCH="$T" "$W/bin/hutch" run --mount "$W/src:/src" -- touch /src/f </dev/null 2>&1)" 'Read-only'
me env HUTCH="$T" "$W/bin/hutch" doctor >"$W/doctor" 2>&1
is 'hutch doctor' "$? $(grep -c '^missing' "$W/doctor")" '0 0'
like 'says who may come in' "$(cat "$W/doctor")" $'note\tfusermount3\t.*user_allow_other'
like 'that there is one id' "$(cat "$W/doctor")" $'note\tuser ids\t.*one user'
like 'that a name is needed' "$(as 4329 "$W/bin/hutch" doctor)" $'missing\tfusermount3\tuser 4329'
is 'and of control groups what hutchd says' "$(grep -cE $'^note\tcontrol groups' "$W/doctor")" \
	"$(sh_me 'jq -r .cgroup stats.json' | grep -cx none)"

# Its end, and what of it was killed; with a list of mounts in /etc, and without one.
for how in mtab none; do
	[ $how = mtab ] || rm -f /etc/mtab
	mounted "$T" || start
	pid=$(hutchd_pid) || break
	kill -TERM "$pid"
	gone "$pid"
	no "$how: nothing is mounted after SIGTERM" mounted "$T"
	start
	pid=$(hutchd_pid) || break
	kill -KILL "$pid"
	gone "$pid"
	ok "$how: a dead mount is in the way" mounted "$T"
	ok "$how: it is detached" start
	is "$how: the sandbox is there" "$(sh_me 'cat b/state')" stopped
done
pid=$(hutchd_pid) && kill -TERM "$pid" && gone "$pid"
no 'nothing is mounted at the end' mounted "$T"
