#!/bin/bash
# The mount point: apart from the state directory, and one hutchd's, however many want it at once.
. "$(dirname "$0")/lib.sh"
need root fuse userns flock setpriv

# fails WHAT REGEX COMMAND...: exit status 1 and one line that matches.
fails() {
	local what=$1 regex=$2 text status
	shift 2
	text=$(timeout -k 1 30 "$@" 2>&1 </dev/null)
	status=$?
	is "$what: exit status 1" "$status" 1
	is "$what: one line" "$(printf '%s\n' "$text" | wc -l)" 1
	like "$what: a clear one" "$text" "$regex"
}
found() { find "$W" "$HUTCH_TEST_DIR" -maxdepth 1 -name '.hutchd-*'; }
mounts() { grep -c " $1 " /proc/self/mountinfo; }

# Neither in the other, by whatever name.
mkdir -p "$W/s/sub" "$W/m/sub" "$W/bound" "$W/far"
ln -s "$W/s" "$W/link-s"
ln -s "$W/m" "$W/link-m"
mount --bind "$W/s" "$W/bound"
while read -r what state place; do
	fails "$what" "mount point .*state directory '.*'" "$HUTCHD" --state-dir "$state" "$place"
done <<X
mount-in-state $W/s $W/s/mnt
deep-in-state $W/s $W/s/sub/mnt
a-directory-in-state $W/s $W/s/sub
the-same $W/s $W/s
the-same-with-a-slash $W/s/ $W/s
the-same-and-neither-exists $W/none $W/none
state-in-mount $W/m/sub $W/m
state-not-there-in-mount $W/m/a/b/c $W/m
state-in-mount-not-there $W/n/a $W/n
state-behind-a-link $W/link-m/state $W/m
mount-behind-a-link $W/s $W/link-s/mnt
state-by-a-link $W/link-s $W/s/mnt
state-by-another-mount $W/s $W/bound/mnt
X
umount "$W/bound"
is 'nothing was made' "$(find "$W/s" "$W/m" "$W/none" "$W/n" 2>/dev/null | sort | tr '\n' ' ')" \
	"$W/m $W/m/sub $W/s $W/s/sub "
# What only looks alike is fine.
ok 'beginning alike' timeout 30 "$HUTCHD" --state-dir "$W/far/x" "$W/far/xy"
kill "$(hutchd_pid "$W/far/xy")"
wait_for 10 eval '! mounted "$W/far/xy"'
wait_for 10 eval '! test -e "$W/far/xy"'

# Several at once, each with a state directory of its own: one has it, the others leave no trace.
race() { # WHAT STATE-OF-I
	local i won=0 lost=0 said='' p pids=()
	for i in 1 2 3 4; do
		timeout 60 "$HUTCHD" --state-dir "${2//I/$i}" "$T" >"$W/said.$i" 2>&1 </dev/null & pids+=($!)
	done
	for i in 1 2 3 4; do
		wait "${pids[i - 1]}"
		case $? in
		0) won=$((won + 1)) ;;
		1) lost=$((lost + 1)); said+="$(cat "$W/said.$i")"$'\n' ;;
		esac
	done
	is "$1: one has it" "$won $lost" '1 3'
	is "$1: the others say why" "$(printf %s "$said" | grep -Ec "^hutchd: .*'$T': a hutchd serves it already|^hutchd: .*in use by another hutchd")" 3
	is "$1: in a line each" "$(printf %s "$said" | wc -l)" 3
	is "$1: it is mounted once" "$(mounts "$T")" 1
	is "$1: and served" "$(timeout 5 head -c 5 "$T/version")" hutch
	box box
	is "$1: it works" "$(out box 'echo fine')" fine
	timeout 10 rmdir "$T/box"
	is "$1: one hutchd is left" "$(for d in /proc/[0-9]*; do is_hutchd "${d#/proc/}" && echo x; done | wc -l)" 1
	p=$(hutchd_pid)
	kill -TERM "$p"
	gone "$p" 15
	no "$1: unmounted" mounted "$T"
}
for round in 1 2 3 4 5; do
	race "made, round $round" "$W/state-I"
	no "made, round $round: removed" test -e "$T"
done
mkdir "$T"
for round in 1 2 3; do
	race "there, round $round" "$W/state-I"
	ok "there, round $round: stays" rmdir "$T"
	mkdir "$T"
done
rmdir "$T"
for round in 1 2; do race "one state directory, round $round" "$S"; done
is 'no directory of a loser is left' "$(found)" ''

# One that begins while another ends waits for it.
for round in 1 2 3; do
	start_hutchd
	box "of-$round"
	p=$(hutchd_pid)
	kill -TERM "$p"
	wait_for 10 eval '! mounted "$T"'
	start_hutchd
	ok "started while the other ended, round $round" test -e "$T/of-$round/state"
	is 'mounted once' "$(mounts "$T")" 1
	gone "$p" 10
	ok 'the other has not taken it away' test -e "$T/version"
	stop_hutchd
done

# Somebody who may read the directory can lock it, but not keep it from us.
mkdir "$T"
setpriv --reuid=4242 --regid=4242 --clear-groups bash -c 'exec 9<"$1"; flock 9; exec sleep 60' _ "$T" &
stranger=$!
wait_for 5 eval '! flock -n "$T" true'
ok 'locked by a stranger' timeout 30 "$HUTCHD" --state-dir "$S" "$T"
ok 'mounted all the same' mounted "$T"
kill $stranger
stop_hutchd
rmdir "$T"
