#!/bin/bash
# The configuration: what it does, what is refused; what hutchd was started with.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq setpriv python3

C=$W/hutch.json
bad() { # WHAT REGEX CONTENT
	local text
	printf '%s' "$3" >"$C"
	text=$(timeout -k 1 10 "$HUTCHD" --config "$C" --state-dir "$S" "$T" 2>&1 </dev/null)
	is "$1: exit status" $? 1
	like "$1: one line that says why" "$text" "^hutchd: '$C': [^"$'\n'"]*$2[^"$'\n'"]*\$"
}
bad 'an unknown key' "unknown key 'colour'; known: root, limits" '{"colour":1}'
bad 'an unknown limit' "limits: unknown key 'boxes'; known: sandboxes" '{"limits":{"boxes":1}}'
bad 'not JSON' 'is not JSON' '{bad'
bad 'an empty file' '.' ''
bad 'no object' 'must be a JSON object' '[]'
bad 'a key given twice' 'id_tag' '{"id_tag":"aa","id_tag":"bb"}'
for v in 0 -1 1.5 '"9"' null 1e12 '[]'; do bad "a limit of $v" 'limits: sandboxes: must be a whole number' "{\"limits\":{\"sandboxes\":$v}}"; done
for v in 755 '"9755"' '"4755"' '"0055"' '""' '"rwx"'; do bad "a mode of $v" 'root: mode: ' "{\"root\":{\"mode\":$v}}"; done
bad 'all may write, without the sticky bit' 'root: mode: .*1777' '{"root":{"mode":"0777"}}'
bad 'no such group' "root: group: there is no group 'no-such'" '{"root":{"group":"no-such"}}'
bad 'a group below 0' 'root: group: must' '{"root":{"group":-1}}'
for v in '"a"' '"abc"' '"zz"' '"A1"' 12; do bad "a tag of $v" 'id_tag: must' "{\"id_tag\":$v}"; done
bad 'an unknown kind of groups' 'cgroup: must be' '{"cgroup":"v3"}'
bad 'a mount that is not absolute' 'mounts: must' '{"mounts":["/usr","srv"]}'
no 'nothing was mounted' mounted "$T"
text=$(timeout 10 "$HUTCHD" --config "$W/none.json" --state-dir "$S" "$T" 2>&1)
is 'a file that was asked for must be there' $? 1
like 'and is named' "$text" "'$W/none.json': No such file"
text=$(timeout 10 "$HUTCHD" --config "$W" --state-dir "$S" "$T" 2>&1)
like 'a directory is no file' "$text" "'$W': Is a directory"

# A root for everybody.
printf '{"root":{"mode":"1777"},"id_tag":"4v","cgroup":"none","mounts":["/srv"]}' >"$C"
start_hutchd --config "$C"
is 'its mode' "$(stat -c '%a %u:%g' "$T")" '1777 0:0'
is 'new follows it' "$(stat -c %a "$T/new")" 666
is 'the kind of groups' "$(jq -r .cgroup "$T/stats.json")" none
id=$(timeout 5 bash -c "exec 3<>$T/new; echo >&3; cat <&3")
like 'ids begin with the tag' "$id" '^sbx_4v[0-9a-v]{11}$'
ok 'a user makes a sandbox' as 4321 mkdir "$T/his"
is 'by new as well' "$(as 4321 timeout 5 bash -c "exec 3<>$T/new; echo '{\"name\":\"hisnew\"}' >&3; cat <&3")" hisnew
is 'they are his' "$(stat -c '%u:%g %a' "$T/his" "$T/hisnew" | sort -u)" '4321:4321 700'
ok 'another makes one' as 4322 mkdir "$T/hers"
is 'each sees his own' "$(as 4321 ls "$T" | grep -xE 'his|hisnew|hers' | tr '\n' ' ')" 'his hisnew '
no 'and removes no other' as 4321 rmdir "$T/hers"
ok 'but his own' as 4321 rmdir "$T/hisnew"
is 'a name is taken for all' "$(as 4321 mkdir "$T/hers" 2>&1 | grep -c exists)" 1
ok 'root removes any' rmdir "$T/his"
mount_for_him() { # DIRECTORY: the state of a sandbox of his with it, or what `error` says
	as 4321 timeout 10 bash -c "exec 3<>$T/new; echo '{\"name\":\"m\",\"mounts\":[{\"source\":\"$1\",\"target\":\"/m\",\"readonly\":true}]}' >&3; cat <&3" >/dev/null
	wait_for 10 eval "! grep -q creating $T/m/state"
	head -n 1 "$T/m/state"
	rmdir "$T/m"
}
is 'he mounts what the config has' "$(mount_for_him /srv)" running
like 'and not what it has not: it names its key' "$(mount_for_him /etc)" "^failed: .*'/etc' belongs to user 0.* not in 'mounts' of the config"
is 'nobody is nobody' "$(as 65534 mkdir "$T/x" 2>&1 | grep -c 'not permitted')" 1
stop_hutchd

# A root for a group.
printf '{"root":{"mode":"0775","group":5000}}' >"$C"
start_hutchd --config "$C"
is 'its mode and group' "$(stat -c '%a %u:%g' "$T")" '775 0:5000'
is 'new follows' "$(stat -c '%a %g' "$T/new")" '660 5000'
no 'a stranger makes nothing' as 4321 mkdir "$T/x"
g() { setpriv --reuid="$1" --regid="$1" --groups=5000 -- "${@:2}"; }
ok 'a member does' g 4321 mkdir "$T/his"
no 'and another member does not remove it' g 4323 rmdir "$T/his"
like 'which is said' "$(g 4323 cat "$T/error")" '/his EPERM the sandbox belongs to user 4321'
ok 'the owner does' g 4321 rmdir "$T/his"
stop_hutchd

# Groups and names.
printf '{"root":{"mode":"0775","group":"daemon"}}' >"$C"
start_hutchd --config "$C"
is 'a group by its name' "$(stat -c %G "$T")" daemon
stop_hutchd

# Descriptors of whoever starts it.
ok 'it starts with stdin and stdout closed' timeout 10 bash -c "$HUTCHD --state-dir $S $T <&- >&-"
ok 'and works' mkdir "$T/b"
wait_for 10 state_is b running
is 'a command has its own' "$(out b 'echo out; echo err >&2')" out
stop_hutchd
ok 'with all three closed' timeout 10 bash -c "$HUTCHD --state-dir $S $T <&- >&- 2>&-"
pid=$(hutchd_pid)
is 'they are taken' "$(readlink "/proc/$pid/fd/"{0,1,2} | sort -u)" /dev/null
stop_hutchd
: >"$W/kept"
timeout 10 bash -c "exec 5<$W/kept 9>$W/kept 300<$W/kept; $HUTCHD --state-dir $S $T"
pid=$(hutchd_pid)
is 'it keeps nothing open that it was given' "$(find /proc/"$pid"/fd -lname "$W/kept" | wc -l)" 0
stop_hutchd
