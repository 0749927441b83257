#!/bin/bash
# A request is sent again while its sandbox does not run: what was accepted is accepted, and nothing else.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
E=$T/b/exec
paid='{"id":"paid","cmd":"echo paid >> /root/paid"}'
echo "$paid" >"$E/new"
mkdir "$E/named"
echo 'echo named' >"$E/named/cmd"
mkdir "$E/empty"
run b 'echo counted'
for n in paid named; do timeout 10 cat "$E/$n/code" >/dev/null; done

# python PROGRAM: `new` is open for reading and writing as f.
python() { timeout 20 python3 -c "import os, errno
f = os.open('$E/new', os.O_RDWR)
def write(b):
    try: return os.write(f, b)
    except OSError as e: return errno.errorcode[e.errno]
$1" 2>&1; }

again() { # WHEN
	local n before
	ok "$1: the same request" bash -c "echo '$paid' > $E/new"
	is "$1: last points to it" "$(readlink "$E/last")" paid
	ok "$1: the same in other words" bash -c "echo '{\"cmd\": \"echo paid >> /root/paid\", \"timeout_s\": 0, \"id\": \"paid\"}' > $E/new"
	ok "$1: by sh" sh -c "echo '$paid' > $E/new"
	ok "$1: the id of a node that mkdir made" bash -c "echo '{\"id\":\"named\",\"cmd\":\"echo named\\n\"}' > $E/new"
	ok "$1: its cmd" bash -c "echo 'echo named' > $E/named/cmd"
	is "$1: a handle is told its name, in pieces too" "$(python "print(write(b'$paid'), os.read(f, 99))
print([write(bytes([c])) for c in b'$paid'] == [1] * ${#paid}, os.read(f, 99))" | tr '\n' ' ')" \
		"${#paid} b'paid\\n' True b'paid\\n' "

	n=$(errors)
	refused "$1: the id with another command" EEXIST "echo '{\"id\":\"paid\",\"cmd\":\"echo other\"}' > $E/new"
	said "$1: and said" EEXIST paid
	no "$1: last is gone" readlink "$E/last"
	for what in 'echo true' 'echo "[\"true\"]"' 'echo "{\"cmd\":\"true\"}"' 'echo "{\"cmd\":\"true\",\"id\":\"fresh\"}"' \
		'echo "{\"cmd\":\"true\",\"id\":\"empty\"}"' 'printf "{\"cmd\":\n\"true\"}\n"' 'echo'; do
		echo "$paid" >"$E/new"
		refused "$1: a new one: $what" ESRCH "$what > $E/new"
		said "$1: and said: $what" ESRCH 'echo start'
		no "$1: last is gone: $what" readlink "$E/last"
		refused "$1: by cat: $what" ESRCH "$what | cat > $E/new"
		no "$1: by sh: $what" timeout 5 sh -c "$what > $E/new"
	done
	refused "$1: the command of a named one" ESRCH "echo true > $E/empty/cmd"
	is "$1: python hears it in the write" "$(python 'print(write(b"true\n"), write(b"true\n"))')" 'ESRCH ESRCH'
	is "$1: nothing came of all that" "$(ls "$E" | grep -vx 'new\|last\|keep\|failed-.*' | tr '\n' ' ')" "$nodes"
	is "$1: touch is no command" "$(timeout 5 touch "$E/new" 2>&1; timeout 5 sh -c ": > $E/new" 2>&1; echo $?)" 0

	# A document that never ends is found out where no shell looks: so there is a node to say it.
	before=$(ls "$E")
	ok "$1: half a document" bash -c "echo '{\"cmd\":' > $E/new"
	n=$(comm -13 <(echo "$before" | sort) <(ls "$E" | sort) | grep '^[0-9]')
	like "$1: its node says so" "$(status_of b "$n")" '^failed: the JSON document never ended'
	is "$1: last points to it" "$(readlink "$E/last")" "$n"
	is "$1: it has a code" "$(timeout 5 cat "$E/$n/code")" 125
	rmdir "$E/$n"
}

nodes=$(ls "$E" | grep -vx 'new\|last\|keep' | tr '\n' ' ')
echo stop >"$T/b/ctl"
wait_for 10 state_is b stopped
again 'stopped'
stop_hutchd
start_hutchd
again 'stopped, after a restart'
crash_hutchd
start_hutchd
again 'stopped, after a crash'
echo start >"$T/b/ctl"
wait_for 10 state_is b running
ok 'started: the same request' bash -c "echo '$paid' > $E/new"
is 'it ran once' "$(out b 'cat /root/paid')" paid
is 'a new one runs' "$(out b 'echo new')" new
ok 'the named one can be written' bash -c "echo 'echo at last' > $E/empty/cmd"
is 'and runs' "$(timeout 5 cat "$E/empty/stdout")" 'at last'

# A handle that outlives its sandbox finds nothing in it.
is 'removed: the same request' "$(timeout 20 python3 - "$T/b" "$paid" <<'X'
import errno, os, sys
box, paid = sys.argv[1:]
f, g = (os.open(box + "/exec/" + n, os.O_WRONLY) for n in ("new", "named/cmd"))
os.rmdir(box)
for h, b in (f, paid.encode()), (g, b"echo named\n"):
    try: print(os.write(h, b))
    except OSError as e: print(errno.errorcode[e.errno])
X
)" $'ESRCH\nESRCH'
stop_hutchd
