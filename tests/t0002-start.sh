#!/bin/bash
# hutchd at start and at its end: usable when it returns, or one clear line.
. "$(dirname "$0")/lib.sh"
need root fuse userns setpriv

# start_fails WHAT REGEX COMMAND...: exit status 1 and one line that matches.
start_fails() {
	local what=$1 regex=$2 text status
	shift 2
	timeout -k 1 30 "$@" 2>"$W/said" >/dev/null </dev/null
	status=$?
	text=$(cat "$W/said")
	is "$what: exit status 1" "$status" 1
	is "$what: one line" "$(printf '%s\n' "$text" | wc -l)" 1
	like "$what: a clear one" "$text" "$regex"
}
procs() { for d in /proc/[0-9]*; do readlink "$d/exe"; done 2>/dev/null | grep -Ec '/hutchd|memfd:'; }

like '--version says so' "$("$HUTCHD" --version 2>&1)" '[0-9]'
like '--help names the options' "$("$HUTCHD" --help 2>&1)" '--state-dir'
start_fails 'unknown option' 'nosuch' "$HUTCHD" --nosuch "$T"
no 'nothing is made by a wrong option' test -e "$T"

# A mount point that is there stays; one that is not is made and removed.
mkdir "$T"
start_hutchd
ok 'an existing empty mount point is used' mounted "$T"
box box
pid=$(hutchd_pid)
started=$(node box 'sleep 1000')
ok 'a command runs' wait_for 5 status_is box "$started" running
start_fails 'in use by a live hutchd' 'hutchd|use|mounted' "$HUTCHD" --state-dir "$W/other" "$T"
is 'the live one is left alone' "$(state_is box running && echo fine)" fine
start_fails 'state directory in use' 'hutchd|use|busy' "$HUTCHD" --state-dir "$S" "$W/t2"
no 'its mount point was not left' test -e "$W/t2"
readers=()
for f in stdout result.json code; do
	timeout 60 cat "$T/box/exec/$started/$f" >"$W/parked" 2>&1 &
	readers+=($!)
done
sleep 0.3
kill -TERM "$pid"
ok 'SIGTERM ends it, with a command and waiting readers' gone "$pid" 10
for p in "${readers[@]}"; do ok 'a reader is freed' gone "$p" 5; done
ok 'an existing mount point stays' test -d "$T"
no 'but is not mounted' mounted "$T"
ok 'no process is left after SIGTERM' wait_for 2 eval '[ "$(procs)" = 0 ]'
is 'the mount table is clean' "$(grep -c "$HUTCH_TEST_DIR" /proc/self/mountinfo)" 0
rmdir "$T"

touch "$W/full-marker"
mkdir "$W/full" && touch "$W/full/file"
start_fails 'mount point not empty' 'empty' "$HUTCHD" --state-dir "$S" "$W/full"
is 'what was in it is untouched' "$(ls "$W/full")" file
start_fails 'mount point is a file' 'directory' "$HUTCHD" --state-dir "$S" "$W/full-marker"
start_fails 'missing parent' 'No such file|not exist|parent' "$HUTCHD" --state-dir "$S" "$W/no/such/place"
# A plain user, with a copy of the programs that he may execute.
mkdir -p "$W/bin" && cp "$BUILD/hutchd" "$W/bin/"
[ -e "$BUILD/hutch-agent" ] && cp "$BUILD/hutch-agent" "$W/bin/"
chmod -R a+rX "$W/bin"
mkdir -m 777 "$W/open" && mkdir -m 755 "$W/roots"
start_fails "a plain user on someone else's directory" 'denied|not permitted|permission|belong|owner|own' \
	setpriv --reuid=4321 --regid=4321 --clear-groups \
	env HOME="$W/open" "$W/bin/hutchd" --state-dir "$W/open/state" "$W/roots"
# The same where everybody may open /dev/fuse, as Debian has it.
# shellcheck disable=SC2016
start_fails "a plain user on someone else's directory, with /dev/fuse" "mount '$W/roots', .*Permission denied" unshare --mount bash -c '
	mknod -m 666 "$1/fuse" c 10 229 && mount --bind "$1/fuse" /dev/fuse &&
	exec setpriv --reuid=4321 --regid=4321 --clear-groups \
	env HOME="$1/open" "$1/bin/hutchd" --state-dir "$1/open/state" "$1/roots"' _ "$W"

# In a mount namespace of its own where /dev/fuse is missing.
start_fails 'no /dev/fuse' '/dev/fuse' unshare --mount bash -c '
	mkdir -p "$1/dev" && touch "$1/dev/null" && mount --bind /dev/null "$1/dev/null" &&
	mount --rbind "$1/dev" /dev && exec "$2" --state-dir "$3" "$4"' \
	_ "$W" "$HUTCHD" "$S" "$T"
no 'its mount point was not left' test -e "$T"

# A dead mount in the way.
start_hutchd
crash_hutchd
like 'after a crash the mount is dead' "$(stat "$T" 2>&1)" 'not connected'
start_hutchd
ok 'the next start detaches it and mounts' test -e "$T/version"
is 'mounted once' "$(grep -c " $T " /proc/self/mountinfo)" 1
stop_hutchd
[ ! -d "$T" ] || rmdir "$T"

# Run in the foreground, it logs to stderr and ends the same way; SIGINT is Ctrl-C.
for signal in TERM INT; do
	env --default-signal=INT "$HUTCHD" --foreground --state-dir "$S" "$T" >"$W/fg" 2>&1 </dev/null &
	pid=$!
	ok "--foreground mounts ($signal)" wait_for 10 test -e "$T/version"
	kill -$signal $pid
	ok "--foreground ends on SIG$signal" gone $pid 10
	wait $pid
	is "--foreground exits with 0 on SIG$signal" $? 0
	no "unmounted after SIG$signal" mounted "$T"
done

# Started with everything closed, as some supervisors do.
timeout 30 "$HUTCHD" --state-dir "$S" "$T" <&- >&- 2>&-
is 'starts with stdin, stdout and stderr closed' $? 0
box closed
is 'and works' "$(out closed 'echo fine')" fine
stop_hutchd

# A pipe on its output reaches its end: the daemon keeps no descriptor of its starter.
ok 'the daemon lets go of the stdout of its starter' \
	timeout 20 bash -c "$HUTCHD --state-dir $S $T | cat"
pid=$(hutchd_pid)
is 'its directory is /' "$(readlink "/proc/$pid/cwd")" /
is 'it is in a session of its own' "$(awk '{ print $6 }' "/proc/$pid/stat")" "$pid"
stop_hutchd
