#!/bin/bash
# Nodes with names of their own: mkdir, set, cmd, and that one request runs once.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
E=$T/b/exec
count() { timeout 5 bash -c "ls $E | grep -vxc 'new\|last\|keep'"; }
# what READ-TEST of a node without a command must do: fail at once
eagain() { refused "$1" EAGAIN "timeout 3 $2"; }

# A node without a command.
ok 'mkdir -p' timeout 5 mkdir -p "$E/build"
ok 'mkdir -p again' timeout 5 mkdir -p "$E/build"
refused 'mkdir again' EEXIST "mkdir $E/build"
is 'its mode' "$(stat -c '%F %a' "$E/build")" 'directory 770'
is 'cmd can be written' "$(stat -c %a "$E/build/cmd")" 660
is 'cmd says nothing' "$(timeout 5 cat "$E/build/cmd")" ''
is 'status' "$(status_of b build)" pending
for f in result.json code stdout stderr; do eagain "$f" "cat $E/build/$f"; done
eagain 'stdin' "bash -c 'echo x > $E/build/stdin'"
said 'it says what is missing' EAGAIN 'no command'
no 'last does not move' test -e "$E/last"
is 'it is listed' "$(count)" 1
for name in 12 0 .x -x 'a b' 'a:b' "$(printf 'n%.0s' $(seq 65))"; do
	refused "no name: $name" EINVAL "mkdir -- '$E/$name'"
	said "and why: $name" EINVAL
done
for name in new last keep; do refused "a name of the tree: $name" EEXIST "mkdir $E/$name"; done
refused 'no directory in a command' EPERM "mkdir $E/build/x"
said 'and why' EPERM 'a directory made at the root'
ok 'rmdir' timeout 5 rmdir "$E/build"
is 'it is gone' "$(count)" 0

# One command, written once.
mkdir "$E/build"
ok 'a text' timeout 5 bash -c "echo 'echo made; exit 4' > $E/build/cmd"
is 'last moves at the commit' "$(readlink "$E/last")" build
is 'it runs' "$(timeout 10 cat "$E/build/code" "$E/build/stdout" | tr '\n' ' ')" '4 made '
is 'cmd is the command' "$(timeout 5 jq -r .cmd "$E/build/cmd")" 'echo made; exit 4'
before=$(stat -c %Y.%s "$E/build/stdout")
ok 'the same again' timeout 5 bash -c "echo 'echo made; exit 4' > $E/build/cmd"
ok 'the same in pieces' timeout 5 bash -c "(printf 'echo ma'; printf 'de; exit 4\n') > $E/build/cmd"
ok 'the same as JSON' timeout 5 bash -c "echo '{\"cmd\":\"echo made; exit 4\\n\"}' > $E/build/cmd"
is 'nothing ran' "$(status_of b build) $(stat -c %Y.%s "$E/build/stdout")" "exited 4 $before"
refused 'another' EEXIST "echo 'echo other' > $E/build/cmd"
no 'then last is gone' test -e "$E/last"
said 'and it is said' EEXIST 'a different command'
n=$(errors)
ok 'the same is accepted all the same' timeout 5 bash -c "echo 'echo made; exit 4' > $E/build/cmd"
is 'last is back' "$(readlink "$E/last")" build
refused 'a text that goes on' EEXIST "printf 'echo made; exit 4\nmore' > $E/build/cmd"
timeout 5 bash -c "printf 'echo made' > $E/build/cmd"
said 'a text that ends short is told in error' EEXIST
is 'once' "$(errors)" $((n + 2))
refused 'other surroundings' EEXIST "echo '{\"cmd\":\"echo made; exit 4\\n\",\"cwd\":\"/tmp\"}' > $E/build/cmd"
refused 'an argv is not a text' EEXIST "echo '[\"true\"]' > $E/build/cmd"
refused 'bad JSON' EINVAL "echo '{x}' > $E/build/cmd"
said 'with the hint' EINVAL 'begin with a space'
refused 'a NUL' EINVAL "printf 'a\\0b' > $E/build/cmd"
refused 'an id that is not the name' EINVAL "echo '{\"cmd\":\"true\",\"id\":\"else\"}' > $E/build/cmd"
ok 'touch and truncate' timeout 5 bash -c "touch $E/build/cmd; truncate -s0 $E/build/cmd; : > $E/build/cmd"
is 'change nothing' "$(timeout 5 jq -r .cmd "$E/build/cmd")" 'echo made; exit 4'
is 'read while it is open for both' "$(timeout 5 bash -c "exec 3<>$E/build/cmd; head -c 6 <&3")" '{"cmd"'

# The departing write itself fails, also late in a long text.
mkdir "$E/long"
is 'the write that departs fails' "$(timeout 20 python3 - "$E/long/cmd" <<'X'
import os, sys
text = b": " + b"x" * 300000 + b"\necho end\n"
def write(t):
    fd = os.open(sys.argv[1], os.O_WRONLY)
    out = []
    try:
        for i in range(0, len(t), 65536):
            os.write(fd, t[i:i+65536]); out.append("+")
    except OSError as e: out.append(e.strerror)
    try: os.close(fd)
    except OSError as e: out.append("close: " + e.strerror)
    return "".join(out)
print(write(text), write(text), write(text[:200000] + b"y" + text[200001:]), write(text + b"#"), write(text[:-1]))
X
)" '+++++ +++++ +++File exists ++++File exists +++++close: File exists'
is 'and the first has run' "$(timeout 10 cat "$E/long/stdout")" end

# Argvs, broken documents, one command per handle.
mkdir "$E/argv" "$E/broken" "$E/two"
ok 'an argv' timeout 5 bash -c "echo '[\"echo\",\"a b\"]' > $E/argv/cmd"
is 'runs' "$(timeout 10 cat "$E/argv/stdout")" 'a b'
refused 'its words as a text are another' EEXIST "echo 'echo a b' > $E/argv/cmd"
timeout 5 bash -c "printf '{\"cmd\":' > $E/broken/cmd"
like 'a document that never ended' "$(status_of b broken)" '^failed: the JSON'
refused 'two commands in one handle' EBUSY "{ echo '[\"true\"]'; echo '[\"true\"]'; } > $E/two/cmd"
run b 'true'
is 'cmd of a counted node is read' "$(stat -c %a "$X/cmd")" 440
refused 'and not written' EACCES "echo true > $X/cmd"

# mktemp, and a pool of names.
ok 'mktemp -d' timeout 5 bash -c "d=\$(mktemp -d $E/j-XXXXXX) && echo 'echo temp' > \$d/cmd && [ \"\$(cat \$d/stdout)\" = temp ]"

# set KEY VALUE
mkdir "$E/set"
s() { timeout 5 bash -c "printf '%s\n' \"\$1\" > $E/set/ctl" _ "$1"; }
ok 'set' s 'set env.CC clang  -O2 '
ok 'set a number' s 'set timeout_s 0.4'
ok 'set several' s $'set env.EMPTY \nset cwd /opt\n\nset stdin null'
is 'cmd says what was set' "$(timeout 5 jq -c . "$E/set/cmd")" \
	'{"env":{"CC":"clang  -O2 ","EMPTY":""},"cwd":"/opt","timeout_s":0.4,"stdin":"null"}'
refused 'an unknown key' EINVAL "echo 'set colour red' > $E/set/ctl"
said 'is named' EINVAL "unknown key 'colour'"
refused 'a bad value' EINVAL "echo 'set timeout_s soon' > $E/set/ctl"
refused 'no value' EINVAL "echo 'set cwd' > $E/set/ctl"
refused 'cmd cannot be set' EINVAL "echo 'set cmd true' > $E/set/ctl"
refused 'nor id' EINVAL "echo 'set id x' > $E/set/ctl"
refused 'one bad line, and none of the write has run' EINVAL "printf 'set cwd /tmp\nset bad x\n' | cat > $E/set/ctl"
is 'so it is as it was' "$(timeout 5 jq -r .cwd "$E/set/cmd")" /opt
ok 'kill of a node without a command' timeout 5 bash -c "echo kill > $E/set/ctl"
ok 'and of its sandbox' timeout 5 bash -c "echo kill > $T/b/ctl"
ok 'a hold of it ends' timeout 5 bash -c ": > $E/set/hold"
for verb in 'signal TERM' close-stdin 'winsize 24 80'; do
	refused "$verb" EAGAIN "echo '$verb' > $E/set/ctl"
	said "and why: $verb" EAGAIN "'set' has no command yet"
done
is 'nothing has happened to it' "$(status_of b set)" pending
ok 'written' timeout 5 bash -c "echo 'echo \"[\$CC][\$EMPTY]\"; pwd; cat; sleep 9' > $E/set/cmd"
is 'what was set holds' "$(timeout 10 cat "$E/set/code" "$E/set/stdout" | tr '\n' ' ')" '124 [clang  -O2 ][] /opt '
refused 'then it is too late' EBUSY "echo 'set cwd /' > $E/set/ctl"
ok 'the same text again' timeout 5 bash -c "echo 'echo \"[\$CC][\$EMPTY]\"; pwd; cat; sleep 9' > $E/set/cmd"
refused 'keys of JSON win, so this differs' EEXIST "printf '%s' '{\"cmd\":\"echo \\\"[\$CC][\$EMPTY]\\\"; pwd; cat; sleep 9\\n\",\"cwd\":\"/\"}' > $E/set/cmd"
mkdir "$E/json" && echo 'set cwd /opt' >"$E/json/ctl" && echo 'set env.A a' >"$E/json/ctl"
ok 'JSON over set' timeout 5 bash -c "echo '{\"cmd\":\"pwd; echo \$A\",\"cwd\":\"/tmp\"}' > $E/json/cmd"
is 'keys of JSON win, others stay' "$(timeout 10 cat "$E/json/stdout" | tr '\n' ' ')" '/tmp a '
refused 'the same command without its cwd is another' EEXIST "echo '{\"cmd\":\"pwd; echo \$A\"}' > $E/json/cmd"

# stdin of a node that gets its command later.
mkdir "$E/late"
is 'a handle opened before the command' "$(timeout 10 bash -c "
	exec 4> $E/late/stdin
	echo lost 2>/dev/null >&4; echo tried \$?
	echo cat > $E/late/cmd
	echo kept >&4; exec 4>&-
	cat $E/late/stdout" 2>&1 | tr '\n' ' ')" 'tried 1 kept '
mkdir "$E/later"
timeout 5 bash -c "echo lost > $E/later/stdin" 2>/dev/null
timeout 5 bash -c "echo cat > $E/later/cmd; : >> $E/later/stdin; echo found > $E/later/stdin"
is 'a write that was too early has not ended it' "$(timeout 10 cat "$E/later/stdout")" found

mkdir "$E/soon"
refused 'close-stdin that is too early' EAGAIN "echo close-stdin > $E/soon/ctl"
said 'says what to do' EAGAIN 'set stdin null'
timeout 5 bash -c "echo cat > $E/soon/cmd; echo more > $E/soon/stdin"
is 'and has ended nothing' "$(timeout 10 cat "$E/soon/stdout")" more

# id: the same in one step.
is 'an id is the name, and the same request runs once' "$(timeout 10 python3 - "$E/new" <<'X'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for doc in b'{"cmd":"echo once","id":"my"}', b'{"id":"my","cmd":"echo once"}', b'{"cmd":"echo","id":"my"}':
    try: os.write(fd, doc); print(os.read(fd, 99).decode().strip(), end=" ")
    except OSError as e: print(e.strerror)
X
)" 'my my File exists'
is 'once' "$(timeout 10 cat "$E/my/stdout")" once
for name in new last keep 7 .x; do refused "no id: $name" EINVAL "echo '{\"cmd\":\"true\",\"id\":\"$name\"}' > $E/new"; done
mkdir "$E/both" && echo 'set env.A set' >"$E/both/ctl"
ok 'an id of a node that mkdir made' timeout 5 bash -c "echo '{\"cmd\":\"echo \$A\",\"id\":\"both\"}' > $E/new"
is 'with what was set' "$(timeout 10 cat "$E/both/stdout")" set

# The spec's defaults.
timeout 5 bash -c "echo '{\"name\":\"d\",\"env\":{\"D\":\"default\"},\"exec\":{\"stdin\":\"null\",\"timeout_s\":50}}' > $T/new"
wait_for 10 state_is d running
mkdir "$T/d/exec/x"
is 'a named node begins with them' "$(timeout 5 jq -c . "$T/d/exec/x/cmd")" '{"timeout_s":50,"stdin":"null"}'
ok 'a command' timeout 5 bash -c "echo 'cat; echo \$D' > $T/d/exec/x/cmd"
is 'has them' "$(timeout 10 cat "$T/d/exec/x/stdout")" default
is 'one of exec/new too' "$(out d 'cat; echo $D')" default
w() { timeout 5 bash -c 'printf %s "$1" > "$2"' _ "$1" "$T/d/exec/x/cmd"; }
ok 'equal means equal after them' w '{"cmd":"cat; echo $D\n","timeout_s":50}'
no 'and not with others' w '{"cmd":"cat; echo $D\n","timeout_s":51}'

# Over a restart.
mkdir "$E/after" && echo 'set cwd /opt' >"$E/after/ctl"
stop_hutchd
start_hutchd
refused 'a stopped sandbox refuses a named command' ESRCH "echo pwd > $E/after/cmd"
refused 'and mkdir' ESRCH "mkdir $E/more"
ok 'but not the one that it has had' timeout 5 bash -c "echo 'echo \"[\$CC][\$EMPTY]\"; pwd; cat; sleep 9' > $E/set/cmd"
refused 'and still tells it from another' EEXIST "echo '{\"cmd\":\"pwd; echo \$A\"}' > $E/json/cmd"
ok 'start' timeout 5 bash -c "echo start > $T/b/ctl"
wait_for 10 state_is b running
ok 'written' timeout 5 bash -c "echo pwd > $E/after/cmd"
is 'what was set is there' "$(timeout 10 cat "$E/after/stdout")" /opt

# Scanners end at once, and end nothing.
mkdir "$E/idle"
timeout 20 bash -c "exec 3<>$E/new; echo 'cat; echo ended' >&3; read -r n <&3; echo \$n > $W/n; exec 5> $E/\$n/stdin 6> $E/\$n/hold 7> $T/b/hold; sleep 6" &
holder=$!
wait_for 5 test -s "$W/n"
n=$(cat "$W/n")
( sleep 3; echo "kill" >"$E/$n/ctl" ) &
mkdir "$W/copy"
for tool in "grep -rs xyz $T" "find $T -type f -exec cat {} +" "tar cf /dev/null -C $T ." "cp -a $T $W/copy"; do
	timeout 15 bash -c "$tool" >/dev/null 2>&1
	[ $? = 124 ] && fail "a scanner ends: $tool" || pass "a scanner ends: $tool"
done
is 'the command ended when it was killed, not before' "$(status_of b "$n")" killed
is 'nobody wrote a command' "$(status_of b idle)" pending
is 'the sandbox is there' "$(timeout 5 cat "$T/b/state")" running
wait $holder
wait_for 5 eval "! test -e $T/b"
no 'until its hold ends' test -e "$T/b"
stop_hutchd
