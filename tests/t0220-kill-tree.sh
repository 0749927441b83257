#!/bin/bash
# Whatever a command has started ends with it, whatever that did to hide: with each kind of control
# groups, by each of the ways in which a command is ended.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 gcc

cat >"$W/hide.c" <<'X'
/* hide MARK [storm]: processes that try to outlive whoever started them; MARK is in their arguments */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void stay(void)
{
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	sigset_t all;

	(void)argv;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	if (fork() == 0) /* a session of its own */
		setsid(), stay();
	if (fork() == 0) /* a group of its own, deep in a family */
		for (int i = 0; i < 4; i++)
			if (setpgid(0, 0), fork() != 0)
				stay();
	if (fork() == 0) { /* a daemon: an orphan that has closed everything */
		setsid();
		if (fork() == 0) {
			for (int fd = 0; fd < 100; fd++)
				close(fd);
			if (chdir("/") == 0)
				stay();
		}
		_exit(0);
	}
	if (fork() == 0) /* stopped */
		raise(SIGSTOP), stay();
	if (vfork() == 0) /* its parent waits uninterruptibly in the kernel */
		stay();
	return argc;
}
X
cat >"$W/storm.c" <<'X'
/* storm MARK: chains in which each process is gone before anybody could have killed it.  As many as
 * they please, but for a limit that leaves the machine some. */
#include <sys/resource.h>
#include <unistd.h>
int main(void)
{
	setrlimit(RLIMIT_NPROC, &(struct rlimit){ 200, 200 });
	for (int i = 0; i < 8; i++)
		if (fork() == 0)
			for (;;) {
				if (fork() > 0)
					_exit(0);
				setsid();
			}
	for (;;)
		pause();
}
X
gcc -O1 -static -o "$W/hide" "$W/hide.c" && gcc -O1 -static -o "$W/storm" "$W/storm.c" || fail 'it compiles'

# How many groups of single commands this daemon has: those with somebody in them, and all. Where nobody
# is, a command was, or one will be: of each sandbox, also those made ahead, one waits.
groups() { find /sys/fs/cgroup -type d -path "*/hutch-*-$(stat -c %i "$S")/*/*" 2>/dev/null; }
commands() {
	local g n=0
	for g in $(groups); do [ -z "$(cat "$g/cgroup.procs" 2>/dev/null)" ] || n=$((n + 1)); done
	echo $n
}
left() { [ "$(commands)" != 0 ] || [ "$(groups | wc -l)" -gt 5 ]; }
put() { # FILE: into /root of the sandbox
	local n
	n=$(node "$2" "cat > /root/$1 && chmod 755 /root/$1")
	cat "$W/$1" >"$T/$2/exec/$n/stdin"
	[ "$(timeout 10 cat "$T/$2/exec/$n/code")" = 0 ]
}
many() { [ "$(pgrep -fc -- "$1")" -ge "$2" ]; }
# Are processes being made, whether or not one lives long enough to be seen?
storms() {
	local before after
	read -r _ _ _ _ before </proc/loadavg # the newest pid of this namespace
	sleep 0.2
	read -r _ _ _ _ after </proc/loadavg
	[ "$after" -lt "$before" ] || [ $((after - before)) -gt 50 ]
}
none() { ! pgrep -f -- "$1"; }

for kind in v2 v1; do
	echo "{\"cgroup\":\"$kind\"}" >"$W/c.json"
	if ! timeout 30 "$HUTCHD" --config "$W/c.json" --state-dir "$S" "$T" >"$W/hutchd.out" 2>&1 </dev/null; then
		skip "$kind" "$(cat "$W/hutchd.out")"
		continue
	fi
	is "$kind: is what is used" "$(jq -r .cgroup "$T/stats.json")" $kind
	box b
	ok "$kind: programs go in" put hide b
	ok "$kind: both" put storm b
	ok "$kind: a finished command has no group" wait_for 5 eval '! left'

	i=0
	# HOW, and what its status and code are then; - where the node is gone.
	while IFS='|' read -r how request status code; do
		i=$((i + 1)) mark=mark-$kind-$i
		n=$(node b "${request//MARK/$mark}")
		x=$T/b/exec/$n
		ok "$kind, ${how//"$T"/T}: a family" wait_for 10 many " $mark\$| $mark " 7
		is "$kind, ${how//"$T"/T}: in one group" "$(commands)" 1
		timeout 10 bash -c "${how//%/$x}" </dev/null
		if [ "$status" != - ]; then
			is "$kind, ${how//"$T"/T}: status and code" "$(timeout 20 cat "$x/code") $(status_of b "$n")" "$code $status"
			is "$kind, ${how//"$T"/T}: the streams end" "$(timeout 10 cat "$x/stdout" "$x/stderr"; echo $?)" 0
		fi
		ok "$kind, ${how//"$T"/T}: none is left" wait_for 10 none "$mark"
		ok "$kind, ${how//"$T"/T}: nor the group" wait_for 10 eval '! left'
	done <<-X
		echo kill > %/ctl|/root/hide MARK; sleep 500|killed|137
		true|{"cmd":"/root/hide MARK; sleep 500","timeout_s":$((2 * ${HUTCH_PATIENCE:-1}))}|timed_out|124
		echo kill > $T/b/ctl|/root/hide MARK; sleep 500|killed|137
		rmdir %|/root/hide MARK; sleep 500|-|
		exec 5> %/hold; exec 5>&-|/root/hide MARK; sleep 500|killed|137
	X
	for how in kill timeout; do
		mark=storm-$kind-$how
		request="/root/storm $mark"
		[ $how = kill ] || request="{\"cmd\":[\"/root/storm\",\"$mark\"],\"timeout_s\":$((2 * ${HUTCH_PATIENCE:-1}))}"
		n=$(node b "$request")
		ok "$kind: a fork storm ($how)" wait_for 10 eval 'many "$mark" 1 && storms'
		[ $how != kill ] || echo kill >"$T/b/exec/$n/ctl"
		like "$kind: a fork storm ends by $how" "$(timeout 30 cat "$T/b/exec/$n/code")" '^(137|124)$'
		ok "$kind: none is left of it ($how)" wait_for 20 none "$mark"
		ok "$kind: nor its group ($how)" wait_for 10 eval '! left'
	done

	# A leader that is over, and what it left: the result is there, the rest goes with kill or rmdir.
	run b "/root/hide left-$kind >/dev/null 2>&1 </dev/null & sleep 0.3; exit 6"
	is "$kind: the leader is over" "$C" 6
	ok "$kind: its family is not" many "left-$kind" 7
	echo kill >"$X/ctl"
	ok "$kind: kill reaches it" wait_for 10 none "left-$kind"
	is "$kind: its result stays" "$(status_of b "$N")" 'exited 6'
	run b "/root/hide gone-$kind >/dev/null 2>&1 </dev/null & sleep 0.3"
	ok "$kind: rmdir of such a node" timeout 5 rmdir "$X"
	ok "$kind: reaches it" wait_for 10 none "gone-$kind"

	# Neighbours are not touched.
	n=$(node b "echo on; sleep 501")
	m=$(node b "/root/hide near-$kind; sleep 500")
	wait_for 5 many "near-$kind" 7
	echo kill >"$T/b/exec/$m/ctl"
	wait_for 10 none "near-$kind"
	is "$kind: another command runs on" "$(status_of b "$n")" running

	# Of the whole sandbox: stop, rmdir; of all: the end of hutchd, and its death.
	for how in "echo stop > $T/b/ctl" "rmdir $T/b"; do
		n=$(node b "(/root/storm all-$kind &); /root/hide all-$kind; sleep 500")
		ok "$kind, ${how%% *} of a sandbox: a family and a storm" wait_for 10 many "all-$kind" 9
		timeout 10 bash -c "$how"
		ok "$kind, ${how%% *} of a sandbox: none is left" wait_for 20 none "all-$kind"
		ok "$kind, ${how%% *} of a sandbox: nor a group" wait_for 10 eval '! left'
		[ ! -d "$T/b" ] || { echo start >"$T/b/ctl"; wait_for 10 state_is b running; }
	done
	box c
	put hide c
	for how in stop crash; do
		node c "/root/hide end-$kind; sleep 500" >/dev/null
		wait_for 10 many "end-$kind" 7
		ok "$kind: it has a group ($how)" wait_for 10 eval '[ "$(commands)" = 1 ]'
		${how}_hutchd
		ok "$kind: $how of hutchd leaves nothing" wait_for 10 none "end-$kind"
		start_hutchd --config "$W/c.json"
		ok "$kind: nor its group at the next start ($how)" wait_for 10 eval '! left'
		echo start >"$T/c/ctl"
		wait_for 10 state_is c running
	done
	timeout 10 rmdir "$T/c"
	stop_hutchd
	is "$kind: no group is left at the end" "$(find /sys/fs/cgroup -type d -name "hutch-*-$(stat -c %i "$S")")" ''
done

# Without groups the process group is reached, and removal reaches everything all the same.
echo '{"cgroup":"none"}' >"$W/c.json"
start_hutchd --config "$W/c.json"
box b
put hide b
n=$(node b 'sleep 503 & sh -c "sleep 504; :" & sleep 505')
wait_for 5 many '^sleep 50[345]$' 3
echo kill >"$T/b/exec/$n/ctl"
ok 'none: kill reaches the process group' wait_for 5 none '^sleep 50[345]$'
node b '/root/hide nogroup; sleep 500' >/dev/null
wait_for 5 many nogroup 7
ok 'none: rmdir' timeout 5 rmdir "$T/b"
ok 'none: reaches everything' wait_for 10 none nogroup
stop_hutchd
