#!/bin/bash
# Bad input to exec/new: an errno where the writer sees it, a line in error, nothing half-made.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
new=$T/b/exec/new
nodes() { ls "$T/b/exec" | grep -c '^[0-9]'; }

# bad WHAT ERRNO REQUEST [IN THE SENTENCE]: \n, \0 and the like in REQUEST are as in printf %b.
bad() {
	local before
	before=$(nodes)
	printf '%b' "$3" >"$W/request"
	refused "refused: $1" "$2" "cat $W/request > $new"
	said "said: $1" "$2" "${4-}"
	is "no node: $1" "$(nodes)" "$before"
	no "no last: $1" test -e "$T/b/exec/last"
	# Python writes again at close; it must be told the same, and once is enough in `error`.
	like "python hears it: $1" "$(timeout 10 python3 - "$new" "$W/request" 2>&1 <<'X'
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
data = open(sys.argv[2], "rb").read()
for i in range(2):
    try: os.write(fd, data); print("accepted")
    except OSError as e: print(os.strerror(e.errno))
X
)" "^($(errno_text "$2")).($(errno_text "$2"))\$"
	is "still no node: $1" "$(nodes)" "$before"
}
bad 'an unknown key' EINVAL '{"cmd":"true","nosuch":1}' nosuch
bad 'two unknown keys' EINVAL '{"zip":1,"zap":2}' 'zip|zap'
bad 'no cmd' EINVAL '{"env":{}}' cmd
bad 'an empty object' EINVAL '{}' cmd
bad 'an empty cmd' EINVAL '{"cmd":[]}' cmd
bad 'an empty array' EINVAL '[]'
bad 'cmd null' EINVAL '{"cmd":null}' cmd
bad 'cmd a number' EINVAL '{"cmd":1}' cmd
bad 'cmd an object' EINVAL '{"cmd":{}}' cmd
bad 'a number in argv' EINVAL '{"cmd":["echo",1]}'
bad 'a list in argv' EINVAL '["echo",["x"]]'
bad 'a NUL in argv' EINVAL '{"cmd":["echo","a\\u0000b"]}'
bad 'a NUL in a script' EINVAL '{"cmd":"echo a\\u0000b"}'
bad 'a NUL in env' EINVAL '{"cmd":"true","env":{"A":"\\u0000"}}'
bad 'a raw NUL in JSON' EINVAL '{"cmd":"echo \0"}'
bad 'a NUL in a text' EINVAL 'echo a\0b\n'
bad 'a NUL at the end of a text' EINVAL 'echo a\0'
bad 'more behind an object' EINVAL '{"cmd":"true"} {"cmd":"true"}'
bad 'more behind an array' EINVAL '["true"] x'
bad 'a word behind' EINVAL '{"cmd":"true"}x'
bad 'does not parse: a brace script' EINVAL '{ echo hi; }' 'space'
bad 'does not parse: a test' EINVAL '[ -e /tmp ] && echo hi' 'space'
bad 'does not parse: single quotes' EINVAL "{'cmd':'true'}"
bad 'does not parse: a trailing comma' EINVAL '{"cmd":"true",}'
bad 'does not parse: a comment' EINVAL '{"cmd":"true" /* x */}'
bad 'brackets that do not match' EINVAL '{"cmd":["true"}]'
bad 'not UTF-8' EINVAL '{"cmd":"echo \xff"}'
bad 'half a surrogate' EINVAL '{"cmd":"echo \\ud800"}'
bad 'a key twice' EINVAL '{"cmd":"true","cmd":"false"}' cmd
bad 'timeout_s a string' EINVAL '{"cmd":"true","timeout_s":"5"}' timeout_s
bad 'timeout_s infinite' EINVAL '{"cmd":"true","timeout_s":1e999}'
bad 'env a list' EINVAL '{"cmd":"true","env":["A=b"]}' env
bad 'env with a number' EINVAL '{"cmd":"true","env":{"A":1}}' 'env|A'
bad 'env with =' EINVAL '{"cmd":"true","env":{"A=B":"1"}}' env
bad 'env with an empty name' EINVAL '{"cmd":"true","env":{"":"1"}}' env
bad 'cwd a number' EINVAL '{"cmd":"true","cwd":1}' cwd
bad 'cwd relative' EINVAL '{"cmd":"true","cwd":"a/b"}' cwd
bad 'user a number' EINVAL '{"cmd":"true","user":5}' user
bad 'stdin of another kind' EINVAL '{"cmd":"true","stdin":"file"}' stdin
bad 'stdout of another kind' EINVAL '{"cmd":"true","stdout":"merge"}' stdout
bad 'stderr a bool' EINVAL '{"cmd":"true","stderr":true}' stderr
bad 'too deep' EINVAL "{\"cmd\":$(printf '[%.0s' $(seq 5000))$(printf ']%.0s' $(seq 5000))}"
bad 'a key with control characters' EINVAL '{"cmd":"true","a\\nb\\u001b[31m":1}' 'a\\'
is 'error has one line each, whatever was in it' "$(timeout 5 grep -Evc '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z [^ ]+ [A-Z0-9]+ .+' "$T/error")" 0
is 'and no control characters' "$(timeout 5 tr -d '\n' <"$T/error" | LC_ALL=C grep -c '[[:cntrl:]]')" 0

# Sizes. $1 bytes of script, ending so that it proves that the end was there.
script() { python3 -c 'import sys; n = int(sys.argv[1]); e = "\necho end\n"; sys.stdout.write(":" + " " * (n - len(e) - 1) + e)' "$1"; }
json() { python3 -c 'import sys; n = int(sys.argv[1]); a = "{\"cmd\":[\"echo\",\"end\"]"; sys.stdout.write(a + " " * (n - len(a) - 1) + "}")' "$1"; }
args() { python3 -c 'import json, sys; print(json.dumps({"cmd": ["sh", "-c", "echo $#", "sh"] + ["x" * int(sys.argv[1])] * int(sys.argv[2])}))' "$1" "$2"; }
good() { # WHAT OUTPUT < REQUEST
	cat >"$W/request"
	ok "accepted: $1" timeout 20 bash -c "cat $W/request > $new"
	is "runs: $1" "$(timeout 20 cat "$T/b/exec/last/stdout" 2>&1 | tail -c 100)" "$2"
}
for n in 131070 131071 131072 131073 1048575 1048576; do
	script $n | good "a script of $n bytes" end
done
json 1048576 | good 'a JSON request of 1 MiB' end
before=$(nodes)
script 1048577 >"$W/request"
for how in 'cat SRC > DST' 'cp SRC DST' 'dd if=SRC of=DST bs=1M status=none' 'dd if=SRC of=DST bs=2M status=none' \
	'python3 -c "import shutil; shutil.copyfile(\"SRC\", \"DST\")"'; do
	how=${how//SRC/$W/request} how=${how//DST/$new}
	refused "1 MiB + 1: ${how%% *}" E2BIG "$how"
	said 'and said' E2BIG
done
json 1048577 >"$W/request"
refused 'a JSON request of 1 MiB + 1' E2BIG "cat $W/request > $new"
is 'none became a command, not even the first part' "$(nodes)" "$before"
args 10 10000 | good '10 000 arguments' 10000
args 1 100000 | good '100 000 arguments' 100000
args 131071 2 | good 'arguments of 131071 bytes' 2
args 131072 1 >"$W/request"
refused 'an argument of 128 KiB' E2BIG "cat $W/request > $new"
said 'and said' E2BIG
python3 -c 'import json; print(json.dumps({"cmd": "true", "env": {"A": "x" * 131072}}))' >"$W/request"
text=$(timeout 10 bash -c "cat $W/request > $new" 2>&1) ||
	like 'a variable of 128 KiB is refused' "$text" "$(errno_text E2BIG)"
[ -n "$text" ] || like 'a variable of 128 KiB is a failed node' "$(timeout 5 cat "$T/b/exec/last/status")" '^failed'
echo 'echo fine' | good 'afterwards all is well' fine
stop_hutchd
