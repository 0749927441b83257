#!/bin/bash
# Many: commands in a row, at once, and sandboxes.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

start_hutchd
box b
bad=
for ((i = 1; i <= 200; i++)); do
	echo "echo $i; echo e$i >&2; exit $((i % 50))" >"$T/b/exec/new"
	got=$(timeout 20 cat "$T/b/exec/last/stdout" "$T/b/exec/last/stderr" "$T/b/exec/last/code" | tr '\n' ' ')
	[ "$got" = "$i e$i $((i % 50)) " ] || bad+=" $i: $got"
done
is '200 commands in a row, output and code of each' "$bad" ''
is 'numbered from 1 to 200' "$(ls "$T/b/exec" | grep '^[0-9]' | sort -n | sed -n '1p;$p' | tr '\n' ' ')" '1 200 '
bad=
for ((i = 1; i <= 200; i++)); do [ "$(timeout 5 cat "$T/b/exec/$i/stdout")" = "$i" ] || bad+=" $i"; done
is 'all of them still there' "$bad" ''

for ((i = 1; i <= 50; i++)); do
	(
		cd "$T/b/exec" || exit
		exec 3<>new
		echo "read x; echo \$x; sleep 1; echo done-$i; exit $i" >&3
		read -r n <&3
		echo "in-$i" >"$n/stdin"
		echo "$(timeout 60 cat "$n/stdout" | tr '\n' ' ')$(timeout 60 cat "$n/code")" >"$W/at-once-$i"
	) &
done
sleep 1
is 'state answers meanwhile' "$(timeout 5 cat "$T/b/state")" running
wait
bad=
for ((i = 1; i <= 50; i++)); do [ "$(cat "$W/at-once-$i")" = "in-$i done-$i $i" ] || bad+=" $i: $(cat "$W/at-once-$i")"; done
is '50 at once, each with its own input, output and code' "$bad" ''

for ((i = 1; i <= 50; i++)); do timeout 30 bash -c "echo 'echo $i' > $T/b/exec/new" & done
wait
ok '50 plain writers at once' wait_for 20 eval "[ \$(cat $T/b/exec/*/status | grep -c 'exited 0') -ge 54 ]"
is 'each ran once' "$(for ((i = 251; i <= 300; i++)); do timeout 5 cat "$T/b/exec/$i/stdout"; done | sort -n | tr '\n' ' ')" "$(seq 50 | tr '\n' ' ')"

for ((i = 1; i <= 20; i++)); do
	(timeout 30 mkdir "$T/many-$i" && wait_for 20 state_is "many-$i" running &&
		out "many-$i" "echo $i > /root/id; sleep 0.5; cat /root/id; uname -n" >"$W/many-$i") &
done
wait
bad=
for ((i = 1; i <= 20; i++)); do [ "$(tr '\n' ' ' <"$W/many-$i")" = "$i many-$i " ] || bad+=" $i: $(cat "$W/many-$i")"; done
is '20 sandboxes at once' "$bad" ''
is 'no two share an id range' "$(for ((i = 1; i <= 20; i++)); do out "many-$i" 'cat /proc/self/uid_map' | awk '{ print $2 }'; done | sort -u | wc -l)" 20
for ((i = 1; i <= 20; i++)); do timeout 30 rmdir "$T/many-$i" & done
wait
is '20 removed at once' "$(ls "$T" | grep -c many)" 0

before=$(date +%s)
n=$(node b 'i=0; while [ $i -lt 100000 ]; do echo "line $i"; i=$((i + 1)); done')
is 'a command with 100 000 small writes' "$(timeout 60 md5sum <"$T/b/exec/$n/stdout")" \
	"$(for ((i = 0; i < 100000; i++)); do echo "line $i"; done | md5sum)"
note "it took $(($(date +%s) - before)) s"
n=$(node b 'yes flood')
box other
is 'a flood in one sandbox does not stop another' "$(out other 'echo calm')" calm
ok 'status answers as well' wait_for 10 eval '[ "$(status_of b "$n" | cut -c 1-7)" = running ]'
echo kill >"$T/b/ctl"
ok 'the flood ends' wait_for 10 status_is b "$n" killed
stop_hutchd
