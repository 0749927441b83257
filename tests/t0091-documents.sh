#!/bin/bash
# What the documents show is what happens: README's session, its script, the man page.
. "$(dirname "$0")/lib.sh"
need root fuse userns

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The Nth block of README.md in language LANG, without its fences; paths are this test's.
block() { # LANG N
	awk -v want="\`\`\`$1" -v n="$2" '
		$0 == "```" { inside = 0 }
		inside { print }
		$0 == want && ++seen == n { inside = 1 }' "$repo/README.md" | sed "s,/run/hutch,$T,g"
}

# The session: what stands behind "# " is run, all else is what it said.
session=$W/session
block console 1 >"$session"
said='' wanted='' commands=0
while IFS= read -r line; do
	case $line in
	'# hutchd '*) ok "README: $line" timeout 10 "$HUTCHD" --state-dir "$S" "$T" ;;
	'# '*) said+=$(timeout 10 bash -c "${line#'# '}" 2>&1) && said+=$'\n' ;;
	*) wanted+=$line$'\n' ;;
	esac
	commands=$((commands + 1))
done <"$session"
is 'README: the session has its lines' "$([ $commands -ge 8 ] && echo yes)" yes
is 'README: the session says what it shows' "$(grep . <<<"$said")" "$(grep . <<<"$wanted")"

export HUTCH=$T PATH=$BUILD:$PATH
is 'README: hutch run' "$(block console 3 | sed -n '1s/^# //p' | timeout 10 bash)" \
	"$(block console 3 | sed -n 2p)"

printf '%s\n' '#include <stdio.h>' 'int main(void) { puts("hello"); return 0; }' >hello.c
{ block sh 1; block sh 2; } >script.sh
ok 'README: the script' timeout 60 bash -eu script.sh
printf 'int main(void) { wrong }\n' >hello.c
timeout 60 bash -u script.sh >out 2>&1
is 'README: the script, when it fails' "$? $(grep -q 'error:' out && echo said)" '1 said'
ok 'README: nothing is left of it' wait_for 5 eval "! ls -d '$T'/ci-*"

like 'help is the tree in words' "$(cat "$T/help")" 'result\.json'
stop_hutchd
