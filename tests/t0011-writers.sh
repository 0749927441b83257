#!/bin/bash
# Everything that people use to write a file, against exec/new and the root's new.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 perl node dash

start_hutchd
box b

# Each of them takes FILE and LINE; how it is done is the point.
w_echo() { echo "$2" >"$1"; }
w_append() { echo "$2" >>"$1"; }
w_dash() { dash -c 'echo "$2" > "$1"' _ "$@"; }
w_dash_append() { dash -c 'echo "$2" >> "$1"' _ "$@"; }
w_printf3() { printf '%s\n \n\t\n' "$2" >"$1"; }
w_usr_printf() { /usr/bin/printf '%s\n' "$2" >"$1"; }
w_usr_echo() { /bin/echo "$2" >"$1"; }
w_heredoc() {
	cat <<-X >"$1"
		$2
	X
}
w_herestring() { cat <<<"$2" >"$1"; }
w_pipe_cat() { echo "$2" | cat >"$1"; }
w_tee() { echo "$2" | tee "$1" >/dev/null; }
w_tee_append() { echo "$2" | tee -a "$1" >/dev/null; }
w_cp() { echo "$2" >"$W/src" && cp "$W/src" "$1"; }
w_dd() { echo "$2" | dd of="$1" status=none; }
w_group() { (echo "$2"; echo) >"$1"; }
w_group_slow() { (echo "$2"; sleep 1; echo) >"$1"; }
w_exec3() { exec 3>"$1" && echo "$2" >&3 && exec 3>&-; }
w_python() { python3 -c 'import sys; open(sys.argv[1], "w").write(sys.argv[2] + "\n")' "$@"; }
w_python_unbuffered() { python3 -c 'import sys; f = open(sys.argv[1], "wb", 0); f.write(sys.argv[2].encode()); f.close()' "$@"; }
w_python_append() { python3 -c 'import sys; open(sys.argv[1], "a").write(sys.argv[2])' "$@"; }
w_python_pathlib() { python3 -c 'import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])' "$@"; }
w_python_thread() {
	python3 -c '
import sys, threading
f = open(sys.argv[1], "wb", 0)
t = threading.Thread(target=lambda: f.write(sys.argv[2].encode()))
t.start(); t.join(); f.close()' "$@"
}
w_perl() { perl -e 'open(my $f, ">", $ARGV[0]) or die; print $f "$ARGV[1]\n" or die; close $f or die' "$@"; }
w_node_sync() { node -e 'fs.writeFileSync(process.argv[1], process.argv[2])' "$@"; }
w_node_promise() { node -e 'fs.promises.writeFile(process.argv[1], process.argv[2])' "$@"; }
w_node_append() { node -e 'fs.promises.appendFile(process.argv[1], process.argv[2])' "$@"; }
w_node_stream() { node -e 'const s = fs.createWriteStream(process.argv[1]); s.write(process.argv[2]); s.end("\n")' "$@"; }
w_awk() { awk -v f="$1" -v l="$2" 'BEGIN { print l > f; close(f) }'; }
w_sed() { echo "$2" | sed "w $1" >/dev/null; }
w_jq() { jq -nr --arg l "$2" '$l' >"$1"; }
w_exec_rw() { exec 3<>"$1" && echo "$2" >&3 && read -r name <&3 && [ -n "$name" ] && exec 3>&-; }
w_split_word() { (printf %s "${2:0:3}"; printf %s "${2:3}") >"$1"; }

export W
count=0
nodes() { ls "$T/b/exec" | grep -c '^[0-9]'; }
for f in $(declare -F | sed -n 's/^declare -f \(w_.*\)/\1/p'); do
	# shellcheck disable=SC2163
	export -f "$f"
	for form in text json; do
		count=$((count + 1))
		request="echo $f-$form"
		[ $form = text ] || request="{\"cmd\":\"$request\"}"
		before=$(nodes)
		text=$(timeout -k 1 20 bash -c "$f \"\$1\" \"\$2\"" _ "$T/b/exec/new" "$request" 2>&1 </dev/null)
		is "$f $form into exec/new succeeds" "$? $text" '0 '
		wait_for 2 eval "[ \$(nodes) -gt $before ]" # the close of a program that was not waited for
		is "$f $form into exec/new: one node" $(($(nodes) - before)) 1
		is "$f $form into exec/new: it ran" "$(timeout 10 cat "$T/b/exec/last/stdout" 2>&1)" "$f-$form"
	done

	id=s-${f#w_}
	text=$(timeout -k 1 20 bash -c "$f \"\$1\" \"\$2\"" _ "$T/new" "{\"name\":\"$id\"}" 2>&1 </dev/null)
	is "$f into new succeeds" "$? $text" '0 '
	ok "$f into new: a sandbox" wait_for 5 test -d "$T/$id"
	ok "$f into new: rmdir" timeout 10 rmdir "$T/$id"
done

# 300 kB into both.
python3 - >"$W/spec" <<'X'
import json
print(json.dumps({"name": "large", "env": {"V%04d" % i: "x" * 290 for i in range(1000)}}))
X
ok 'the spec is larger than 300 kB' test "$(stat -c %s "$W/spec")" -gt 300000
for tool in 'cat SRC > DST' 'cp SRC DST' 'dd if=SRC of=DST bs=7k status=none'; do
	cmd=${tool//SRC/$W/spec}
	ok "$tool of 300 kB into new" timeout 20 bash -c "${cmd//DST/$T/new}"
	ok "$tool of 300 kB: a sandbox" wait_for 10 state_is large running
	is "$tool of 300 kB: its environment" "$(out large 'env | grep -c ^V0')" 1000
	ok "$tool of 300 kB: rmdir" timeout 10 rmdir "$T/large"
done

sandboxes() { find "$T" -mindepth 1 -maxdepth 1 -type d | wc -l; }
before="$(nodes) $(sandboxes) $(errors)"
for f in "$T/b/exec/new" "$T/new"; do
	name=${f#"$T/"}
	ok "touch $name" timeout 5 touch "$f"
	ok "truncate $name" timeout 5 truncate -s0 "$f"
	ok ": > $name" timeout 5 bash -c ": > $f"
	ok "true >> $name" timeout 5 bash -c "true >> $f"
	ok "exec 3<> $name" timeout 5 bash -c "exec 3<>$f; exec 3>&-"
	ok "dd of nothing into $name" timeout 5 dd if=/dev/null of="$f" status=none
done
is 'none of these made anything or was refused' "$(nodes) $(sandboxes) $(errors)" "$before"
for i in 1 2 3; do timeout 10 bash -c "echo > $T/new"; done
is 'a blank line into new makes a sandbox each' "$(ls "$T" | grep -Ec '^sbx_[0-9a-v]{13}$')" 3
is 'a blank text by heredoc' "$(timeout 10 bash -c "exec 3<>$T/new; echo >&3; read -r n <&3; cat $T/\$n/state" | grep -Ec 'running|creating')" 1
stop_hutchd
