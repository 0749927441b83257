# shellcheck shell=bash
# lib.sh - what every whole-tree test begins with:  . "$(dirname "$0")/lib.sh"
#
# A test has $T (the mount point; it does not exist yet), $S (the state
# directory) and $W (a place for its own files).  It speaks only shell and
# ordinary programs.  Cases are the calls of ok, is, like, refused.  Everything
# that could block stands under a time limit.  At its end, however it comes, the
# daemon is stopped and the tree unmounted; tests/run then looks for what is left.

if [ -z "${HUTCH_TEST_DIR-}" ]; then
	exec "$(dirname "$0")/run" -v "$(basename "$0" .sh)"
fi
set -u
export LC_ALL=C.UTF-8
T=$HUTCH_TEST_DIR/t S=$HUTCH_TEST_DIR/state W=$HUTCH_TEST_DIR/work
HUTCHD=$BUILD/hutchd
cases=0
cd "$W" || exit 1

# ---------------------------------------------------------------- cases

# note TEXT: a remark in the log.
note() { printf '%s\n' "$*" | head -40 | cut -c1-400 | sed 's/^/# /'; }

pass() { cases=$((cases + 1)); echo "ok $cases - $1"; }
fail() { # WHAT [DETAILS...]
	cases=$((cases + 1))
	echo "not ok $cases - $1"
	shift
	local line
	for line; do note "$line"; done
}

# ok WHAT COMMAND...: the command succeeds.
ok() {
	local what=$1 text status
	shift
	text=$("$@" 2>&1 </dev/null)
	status=$?
	if [ $status = 0 ]; then pass "$what"; else fail "$what" "status $status of: $*" "$text"; fi
}

# no WHAT COMMAND...: the command fails, but not by the time limit.
no() {
	local what=$1 text status
	shift
	text=$("$@" 2>&1 </dev/null)
	status=$?
	case $status in
	0 | 124 | 137) fail "$what" "status $status of: $*" "$text" ;;
	*) pass "$what" ;;
	esac
}

# is WHAT GOT WANTED
is() {
	if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "got:    $2" "wanted: $3"; fi
}

# like WHAT GOT REGEX: an extended regular expression, anywhere in the text.
like() {
	if [[ $2 =~ $3 ]]; then pass "$1"; else fail "$1" "got:     $2" "to match: $3"; fi
}

unlike() {
	if [[ $2 =~ $3 ]]; then fail "$1" "got:         $2" "not to match: $3"; else pass "$1"; fi
}

skip() { cases=$((cases + 1)); echo "ok $cases - $1 # SKIP $2"; }

# What the C library says to each; alternatives are joined by |.
errno_text() {
	local name text=
	for name in ${1//|/ }; do
		case $name in
		EACCES) text+='|Permission denied' ;;
		EPERM) text+='|Operation not permitted' ;;
		EINVAL) text+='|Invalid argument' ;;
		ENOENT) text+='|No such file or directory' ;;
		ENOTDIR) text+='|Not a directory' ;;
		EISDIR) text+='|Is a directory' ;;
		EEXIST) text+='|File exists' ;;
		EBUSY) text+='|(Device or resource|Text file) busy' ;;
		E2BIG) text+='|Argument list too long' ;;
		ENAMETOOLONG) text+='|File name too long' ;;
		ESRCH) text+='|No such process' ;;
		EPIPE) text+='|Broken pipe' ;;
		EAGAIN) text+='|Resource temporarily unavailable' ;;
		ESTALE) text+='|Stale file handle' ;;
		EIO) text+='|Input/output error' ;;
		EXDEV) text+='|Invalid cross-device link' ;;
		ENOSPC) text+='|No space left on device' ;;
		ENOSYS) text+='|Function not implemented' ;;
		EOPNOTSUPP) text+='|Operation not supported' ;;
		EROFS) text+='|Read-only file system' ;;
		*) text+="|unknown errno $name" ;;
		esac
	done
	printf %s "${text#|}"
}

# refused WHAT ERRNO[|ERRNO] SCRIPT: bash runs SCRIPT, which fails and says so.
refused() {
	local text status want
	want=$(errno_text "$2")
	text=$(timeout -k 1 20 bash -c "$3" 2>&1 </dev/null)
	status=$?
	if [ $status != 0 ] && [ $status != 124 ] && [[ $text =~ $want ]]; then
		pass "$1"
	else
		fail "$1" "status $status of: $3" "got:     $text" "to match: $want"
	fi
}

# said WHAT ERRNO [REGEX]: the newest line in `error` is of that form and kind.
said() {
	local line
	line=$(timeout 5 head -n 1 "$T/error" 2>&1)
	like "$1" "$line" "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z .+ ($2) .*${3-}"
}

errors() { timeout 5 cat "$T/error" 2>&1 | wc -l; }

# ---------------------------------------------------------------- prerequisites

# need WHAT...: the whole test is skipped when one is missing, and says which.
need() {
	local what why
	for what; do
		why=
		case $what in
		root) [ "$(id -u)" = 0 ] || why="not root" ;;
		fuse) [ -c /dev/fuse ] || why="no /dev/fuse" ;;
		userns) unshare --user true 2>/dev/null || why="no user namespaces" ;;
		*) command -v "$what" >/dev/null || why="no $what" ;;
		esac
		[ -z "$why" ] || { skip "$(basename "$0" .sh)" "$why"; exit 0; }
	done
}

# ---------------------------------------------------------------- the daemon

# is_hutchd PID: it is one, and not the helper of one, which may outlive it.
is_hutchd() {
	local exe parent name=
	read -r name 2>/dev/null <"/proc/$1/comm"
	case $name in hutchd-writer | hutch-janitor) return 1 ;; esac
	exe=$(readlink "/proc/$1/exe" 2>/dev/null) || return 1
	case $exe in */hutchd | */'hutchd (deleted)') ;; *) return 1 ;; esac
	parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
	[ "$(readlink "/proc/$parent/exe" 2>/dev/null)" != "$exe" ]
}

# hutchd_pid [MOUNTPOINT]: of the daemon that serves it.
hutchd_pid() {
	local d
	for d in /proc/[0-9]*; do
		is_hutchd "${d#/proc/}" || continue
		tr '\0' '\n' <"$d/cmdline" 2>/dev/null | grep -qxF -- "${1-$T}" || continue
		echo "${d#/proc/}"
		return 0
	done
	return 1
}

# fds: how many descriptors the daemon $pid has. steady: when what it makes ahead has been made: as many
# as a second before.
fds() { find "/proc/$pid/fd" -mindepth 1 -maxdepth 1 | wc -l; }
steady() {
	local before=
	until [ "$(fds)" = "$before" ]; do
		before=$(fds)
		sleep 1
	done
}

start_hutchd() { # [OPTION...]
	local status
	timeout -k 1 30 "$HUTCHD" --state-dir "$S" "$@" "$T" >"$W/hutchd.out" 2>&1 </dev/null
	status=$?
	if [ $status != 0 ]; then
		fail "hutchd starts" "status $status" "$(cat "$W/hutchd.out")"
		exit 0
	fi
}

# gone PID [SECONDS]: it has ended, or does so in time.
gone() {
	wait_for "${2:-10}" eval "! [ -e /proc/$1 ] || grep -q '^State:.Z' /proc/$1/status 2>/dev/null"
}

stop_hutchd() {
	local pid
	pid=$(hutchd_pid) || { fail "hutchd runs until it is stopped"; return; }
	kill -TERM "$pid"
	gone "$pid" 15 || { fail "hutchd ends on SIGTERM"; kill -KILL "$pid"; }
}

crash_hutchd() {
	local pid
	pid=$(hutchd_pid) || { fail "hutchd runs until it is killed"; return; }
	kill -KILL "$pid"
	gone "$pid" 5 || fail "hutchd ends on SIGKILL"
}

mounted() { awk -v d="$1" '$5 == d { found = 1 } END { exit !found }' /proc/self/mountinfo; }

at_end=()
end_of_test() {
	local pid dir d f
	for f in "${at_end[@]}"; do "$f"; done
	cd /
	for d in /proc/[0-9]*; do
		is_hutchd "${d#/proc/}" || continue
		pid=${d#/proc/}
		kill -TERM "$pid" 2>/dev/null
		gone "$pid" 15 || { fail "hutchd ends on SIGTERM"; kill -KILL "$pid"; }
	done
	awk -v d="$HUTCH_TEST_DIR" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo |
		sort -r | while read -r dir; do
			echo "not ok - still mounted after the end of hutchd: $dir"
			umount -l "$dir"
		done
	echo "1..$cases"
}
trap end_of_test EXIT
trap 'exit 1' INT TERM HUP

# ---------------------------------------------------------------- sandboxes and commands

# wait_for SECONDS COMMAND...: until the command succeeds.  A slow machine has HUTCH_PATIENCE times as long.
wait_for() {
	local end=$((SECONDS + $1 * ${HUTCH_PATIENCE:-1} + 1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

state_is() { [ "$(timeout 5 cat "$T/$1/state" 2>/dev/null)" = "$2" ]; }
status_of() { timeout 5 cat "$T/$1/exec/$2/status" 2>&1; }
status_is() { [ "$(status_of "$1" "$2")" = "$3" ]; }

# box NAME: a sandbox that runs.
box() {
	timeout 10 mkdir "$T/$1" && wait_for 10 state_is "$1" running && return
	fail "sandbox $1 runs" "$(timeout 5 cat "$T/$1/state" 2>&1)"
	exit 0
}

# node BOX REQUEST: writes it by the clone idiom and prints the node's name.
node() {
	timeout -k 1 20 bash -c 'exec 3<>"$1"; printf %s "$2" >&3 && read -r n <&3 && echo "$n"' \
		_ "$T/$1/exec/new" "$2"
}

# run BOX REQUEST [SECONDS]: the same, then waits for the result; sets N, X (the node) and C (its code).
run() {
	N=$(node "$1" "$2") X=$T/$1/exec/$N C=
	[ -n "$N" ] || return 1
	C=$(timeout -k 1 "${3:-30}" cat "$X/code")
}

# out BOX REQUEST [SECONDS]: prints what the command wrote to stdout.
out() {
	local N X C
	run "$@" && { timeout -k 1 "${3:-30}" cat "$X/stdout" || echo "(cat: status $?)"; }
}

# res KEY: a member of result.json of the last `run`.
res() { timeout 10 jq -r ".$1" "$X/result.json"; }

# as UID COMMAND...: a second real user.
as() {
	local uid=$1
	shift
	setpriv --reuid="$uid" --regid="$uid" --clear-groups -- "$@"
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }
