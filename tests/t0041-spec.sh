#!/bin/bash
# Sandboxes by spec: new, spec.json, and what commands inherit from it.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

start_hutchd
new() { timeout -k 1 20 bash -c 'exec 3<>"$1"; printf %s "$2" >&3 && read -r n <&3 && echo "$n"' _ "$T/new" "$1"; }
spec() { timeout 5 jq -c "$2" "$T/$1/spec.json"; }

is 'a whole spec' "$(new '{"name":"full","env":{"A":"1","B":"two words"},"cwd":"/usr","user":"1000:1000"}')" full
ok 'runs' wait_for 10 state_is full running
is 'env' "$(out full 'echo "$A, $B, $LANG"')" '1, two words, C.UTF-8'
is 'cwd' "$(out full 'pwd')" /usr
is 'user' "$(out full 'id -u; id -g' | tr '\n' ' ')" '1000 1000 '
is 'env of the command wins' "$(out full '{"cmd":"echo $A $B","env":{"A":"9"}}')" '9 two words'
is 'cwd of the command wins' "$(out full '{"cmd":"pwd","cwd":"/etc"}')" /etc
is 'user of the command wins' "$(out full '{"cmd":"id -u","user":"0"}')" 0
is 'spec.json says what was asked' "$(spec full '[.name,.env.A,.env.B,.cwd,.user]')" '["full","1","two words","/usr","1000:1000"]'
ok 'PATH of the spec is used to find programs' test "$(new '{"name":"path","env":{"PATH":"/nowhere"}}')" = path
wait_for 10 state_is path running
run path '["env"]'
is 'not found in that PATH' "$C" 127
box plain
is 'mkdir is the spec with a name' "$(spec plain .name)" '"plain"'
is 'spec.json has every key, filled in' "$(spec plain 'keys - ["name","env","cwd","user"] | length >= 0')" true
for key in name env cwd user; do is "spec.json has $key" "$(spec plain "has(\"$key\")")" true; done
id=$(new '{}')
like 'an id is made up' "$id" '^sbx_[0-9a-v]{13}$'
is 'and is the hostname and the name' "$(wait_for 10 state_is "$id" running; out "$id" 'uname -n') $(spec "$id" .name)" "$id \"$id\""
id2=$(new '
')
like 'a blank line' "$id2" '^sbx_[0-9a-v]{13}$'
no 'another one' test "$id" = "$id2"

before=$(ls "$T" | wc -l)
refuse() { # WHAT ERRNO SPEC [IN THE SENTENCE]
	printf '%s' "$3" >"$W/spec"
	refused "refused: $1" "$2" "cat $W/spec > $T/new"
	said "said: $1" "$2" "${4-}"
}
refuse 'an unknown key' EINVAL '{"name":"x1","nosuchkey":1}' nosuchkey
refuse 'a key of the wrong type' EINVAL '{"name":5}' name
refuse 'env that is no object' EINVAL '{"name":"x2","env":["A=1"]}' env
refuse 'env with a number' EINVAL '{"name":"x3","env":{"A":1}}' 'env|A'
refuse 'env with an empty key' EINVAL '{"name":"x4","env":{"":"1"}}' env
refuse 'env with = in a key' EINVAL '{"name":"x4","env":{"A=B":"1"}}' env
refuse 'cwd that is no string' EINVAL '{"name":"x5","cwd":1}' cwd
refuse 'cwd that is relative' EINVAL '{"name":"x5","cwd":"a/b"}' cwd
refuse 'an array' EINVAL '["x6"]'
refuse 'a string' EINVAL '"x6"'
refuse 'a bare word' EINVAL 'x6'
refuse 'JSON that does not parse' EINVAL '{"name":}'
refuse 'JSON that has more behind it' EINVAL '{"name":"x7"} {"name":"x8"}'
refuse 'a name that is taken' EEXIST '{"name":"plain"}' plain
refuse 'a key twice' EINVAL '{"name":"x9","name":"x10"}' name
refuse 'a NUL in a string' EINVAL '{"name":"x11","env":{"A":"a\u0000b"}}'
refuse 'a deep document' EINVAL "{\"name\":\"x12\",\"env\":$(printf '[%.0s' $(seq 5000))$(printf ']%.0s' $(seq 5000))}"
refuse 'not UTF-8' EINVAL $'{"name":"x13","env":{"A":"\xff"}}'
for name in a/b . .. .a -a '' "$(printf 'a%.0s' $(seq 65))" 'a b' 'ä' 'a\n' help new version error events stats.json images secrets; do
	json=$(jq -nc --arg n "$name" '{name: $n}')
	refuse "name $name" 'EINVAL|EEXIST|ENAMETOOLONG' "$json"
done
head -c 1100000 /dev/zero | tr '\0' ' ' >"$W/huge"
refused 'a spec of more than 1 MiB' E2BIG "cat $W/huge > $T/new"
is 'none of them made anything' "$(ls "$T" | wc -l)" "$before"

# Everything a sandbox was made from survives a restart.
want=$(cat "$T/full/spec.json")
stop_hutchd
start_hutchd
is 'spec.json after a restart' "$(timeout 5 cat "$T/full/spec.json")" "$want"
echo start >"$T/full/ctl"
wait_for 10 state_is full running
is 'and its meaning' "$(out full 'echo "$B"; pwd; id -u' | tr '\n' ' ')" 'two words /usr 1000 '
stop_hutchd
