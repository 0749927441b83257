#!/bin/bash
# When a write becomes a command: the commit rules, each a case.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
new=$T/b/exec/new
nodes() { ls "$T/b/exec" | grep -c '^[0-9]'; }
# commits WHAT COUNT SCRIPT [OUTPUT of the newest]: so many nodes come of it. $f is exec/new.
commits() {
	local before text
	before=$(nodes)
	text=$(f=$new timeout -k 1 30 bash -c "$3" 2>&1 </dev/null)
	[ $? != 124 ] || note "timed out: $3"
	is "$1: nodes" $(($(nodes) - before)) "$2"
	[ $# -lt 4 ] || is "$1: output" "$(timeout 20 cat "$T/b/exec/last/stdout" 2>&1)" "$4"
	[ -z "$text" ] || note "said: $text"
}

commits 'text' 1 'echo "echo one" > $f' one
is 'nodes count from 1' "$(readlink "$T/b/exec/last")" 1
commits 'a JSON object' 1 "echo '{\"cmd\":[\"echo\",\"a  b\",\"\$x\"]}' > \$f" 'a  b $x'
is 'then 2' "$(readlink "$T/b/exec/last")" 2
commits 'a JSON object with a script' 1 "echo '{\"cmd\":\"echo \$((6*7))\"}' > \$f" 42
commits 'a JSON array' 1 "echo '[\"printf\",\"%s.\",\"x\",\"y z\"]' > \$f" 'x.y z.'
commits 'without a newline' 1 'printf "echo bare" > $f' bare
commits 'white space before JSON is text' 1 'printf " { echo grouped; }" > $f' grouped
commits 'several lines in several writes' 1 "printf 'echo a\necho b\necho c\n' > \$f" $'a\nb\nc'
commits 'a group of writers of one shell' 1 '(echo "echo a"; echo "echo b") > $f' $'a\nb'
commits 'a pause in the middle' 1 '(echo "echo a"; sleep 1; echo "echo b") > $f' $'a\nb'
commits 'JSON in pieces' 1 "(printf '{\"cmd\":'; printf '\"echo pieces\"'; printf '}') > \$f" pieces
commits 'JSON with space behind, in another write' 1 "(printf '{\"cmd\":\"echo sp\"}'; printf '\n \t\n') > \$f" sp
commits 'JSON over several lines' 1 "printf '{\n\"cmd\":\n\"echo lines\"\n}\n' > \$f" lines
commits 'braces inside strings' 1 "echo '{\"cmd\":\"echo \\\"}{\\\"\"}' > \$f" '}{'

commits 'opened and closed' 0 ': > $f'
commits 'opened for appending and closed' 0 'true >> $f'
commits 'touch' 0 'touch $f'
commits 'truncate' 0 'truncate -s0 $f'
commits 'opened read-write and closed' 0 'exec 3<>$f; exec 3>&-'
commits 'an empty write' 0 'printf "" > $f'

commits 'a blank line is a script that does nothing' 1 'echo > $f' ''
is 'and succeeds' "$(timeout 5 cat "$T/b/exec/last/code")" 0
commits '[""] is a command that could not be started' 1 "echo '[\"\"]' > \$f" ''
like 'its status' "$(timeout 5 cat "$T/b/exec/last/status")" '^failed: .'

# One command for each write-only handle.
before=$(nodes)
refused 'a second command on the handle' EBUSY "exec 3> $new; echo 'echo first' >&3; echo 'echo second' >&3"
said 'the sentence shows what to do' EBUSY 'cat'
is 'the first one ran' $(($(nodes) - before)) 1
is 'after the refusal last does not exist' "$(readlink "$T/b/exec/last" 2>&1)" ''
no 'nor can it be read' timeout 5 cat "$T/b/exec/last/stdout"
refused 'after JSON as well' EBUSY "exec 3> $new; echo '[\"true\"]' >&3; echo '[\"true\"]' >&3"
commits 'white space after it is accepted' 1 'exec 3> $f; echo "echo w" >&3; echo >&3 && printf "  \n" >&3' w
refused 'two programs in a group are two commits' EBUSY "(/bin/echo 'echo a'; /bin/echo 'echo b') > $new"
commits 'cat joins them' 1 '{ /bin/echo "echo a"; /bin/echo "echo b"; } | cat > $f' $'a\nb'
commits 'a descriptor that a child inherits' 1 'exec 3> $f; (printf "echo "; /usr/bin/printf "") >&3; exec 3>&-' ''
commits 'two handles do not mix' 2 'exec 3> $f 4> $f; printf "echo three" >&3; printf "echo four" >&4' four

# Refused in the write, where everybody sees it.
before=$(nodes)
for word in '{ echo hi; }' '{"cmd":"true"} x' '[]' '[1]' '{}' '{"cmd":[]}' '{"cmd":null}'; do
	refused "refused in the write: $word" EINVAL "echo '$word' > $new"
	said "and said: $word" EINVAL
	no "last does not exist: $word" test -e "$T/b/exec/last"
done
refused 'JSON that does not parse' EINVAL "echo '{ echo hi; }' > $new"
said 'says how to run it as a script' EINVAL 'space'
is 'none of them made a node' $(($(nodes) - before)) 0
commits 'the next accepted one is last again' 1 'echo "echo back" > $f' back

# What never ended is seen only at the end: a node that says so.
commits 'JSON that never ends' 1 "printf '{\"cmd\":\"echo' > \$f" ''
like 'is a node with status failed' "$(timeout 5 cat "$T/b/exec/last/status")" '^failed: .'
is 'its code' "$(timeout 5 cat "$T/b/exec/last/code")" 125
is 'its result' "$(timeout 5 jq -c '[.exit_code,.signal,.reason,.usage]' "$T/b/exec/last/result.json")" '[-1,"","failed",null]'

# One refusal, one line, although Python writes again at close.
timeout 10 python3 -c 'open("'"$new"'", "w").write("{\"onceonly\":1}")' >/dev/null 2>&1
said 'an unknown key is named' EINVAL 'onceonly'
is 'one line for a write that Python repeats' "$(timeout 5 grep -c onceonly "$T/error")" 1
for ((i = 0; i < 18; i++)); do echo '[]' >"$new"; done 2>/dev/null
is 'error keeps 16 lines' "$(errors)" 16

# A script that begins with #! runs with that interpreter, a long one from a file.
commits 'a Python script' 1 "printf '#!/usr/bin/python3\nimport sys\nprint(sys.version_info[0])\n' > \$f" 3
commits 'a Perl script' 1 "printf '#!/usr/bin/perl -w\nprint 6*7, qq(\\\\n);\n' > \$f" 42
commits 'an interpreter that is not there' 1 "printf '#!/no/such/thing\n' > \$f" ''
like 'is a failed node' "$(timeout 5 cat "$T/b/exec/last/status")" '^failed: .'
{ echo 'echo start'; for ((i = 0; i < 15000; i++)); do echo ": line of a script $i"; done; echo 'echo end'; } >"$W/long"
commits 'a long script by cat' 1 "cat $W/long > \$f" $'start\nend'
commits 'a long script by cp' 1 "cp $W/long \$f" $'start\nend'
is 'the long script leaves no file inside' "$(out b 'find /tmp /root /run /dev/shm -type f | wc -l')" 0

# Ctrl-C on cat > exec/new.
mkfifo "$W/fifo"
before=$(nodes)
for signal in INT TERM KILL; do
	newest=$(head -n 1 "$T/error")
	env --default-signal=INT cat "$W/fifo" >"$new" &
	pid=$!
	exec 5>"$W/fifo"
	echo 'echo must-not-run' >&5
	sleep 0.5
	kill -$signal $pid
	ok "cat dies of SIG$signal" gone $pid 2
	exec 5>&-
	wait $pid 2>/dev/null
	sleep 0.3
	is "SIG$signal in the middle of cat > new: no node" $(($(nodes) - before)) 0
	said "SIG$signal: a line in error" '[A-Z0-9]+'
	is "SIG$signal: one" "$(sed -n 2p "$T/error")" "$newest"
done
commits 'afterwards all is well' 1 'echo "echo well" > $f' well
stop_hutchd
