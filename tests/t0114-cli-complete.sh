#!/bin/bash
# Completion, which has no list of its own: bash, zsh, and what both ask; help from the same tables.
# takes long
. "$(dirname "$0")/lib.sh"
need root fuse userns zsh

start_hutchd
box alpha
box beta
run alpha 'exit 0'
export HUTCH=$T PATH=$BUILD:$PATH
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
touch 'a file'

commands=$(hutch --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | sort)
is 'the commands' "$(hutch __complete '' | cut -f 1 | sort)" "$commands"
is 'there are eleven' "$(wc -w <<<"$commands")" 11
# Options as "-l --long ARGUMENT", sorted: of a help, and of the heads of a man page's paragraphs. --help, which
# each has, is only listed with an argument.
in_help() { sed -nE 's/^  (-(.), |    )--([a-z0-9-]+)( [A-Z][^ ]*)?  .*/-\2 --\3\4/p' | keep "$@"; }
in_page() {
	grep -A1 '^\.TP' | sed -nE 's/\\f[BIRP]//g; s/\\-/-/g; s/"//g; s/^\.B[RI]? +//p' |
		sed -nE 's/ +/ /g; s/^-(.) , --/-\1 --/; s/^--/- --/; /^-.? --/p' | keep "$@"
}
keep() { if [ $# = 0 ]; then grep -v -e '--help'; else cat; fi | sort; }

for command in $commands; do
	[ "$command" = help ] && continue
	options=$(hutch help "$command" | sed -n 's/^  .* \(--[a-z-]*\).*/\1/p' | sort)
	is "options of $command" "$(hutch __complete "$command" - | cut -f 1 | grep -vx -- -- | sort)" "$options"
	is "help of $command" "$(hutch "$command" --help)" "$(hutch help "$command")"
	sed -n "/^.SS hutch $command/,/^.S[SH] /p" "$repo/docs/hutch.1" >section
	# Those that it has in common with run are only named there, and told of at run.
	[ "$command" = shell ] && sed -n '/^.SS hutch run/,/^.S[SH] /p' "$repo/docs/hutch.1" |
		grep -A1 '^\.TP' | grep -F -f <(grep -o '\\-\\-[a-z]*' section | sort -u) | sed 'i .TP' >>section
	ok "$command is in the man page" grep -q . section
	is "with its options and letters, and no others" "$(in_page <section)" "$(hutch help "$command" | in_help)"
done
is 'options of hutch itself' "$(sed -n '/^.SH OPTIONS/,/^.SH [^O]/p' "$repo/docs/hutch.1" | in_page all)" "$(hutch --help | in_help all)"
is 'those of hutchd' "$(sed -n '/^.SH OPTIONS/,/^.SH [^O]/p' "$repo/docs/hutchd.8.in" | in_page all)" "$(hutchd --help | in_help all)"
is 'its synopsis' "$(sed -n '/^.SH SYNOPSIS/,/^.SH D/p' "$repo/docs/hutchd.8.in" | grep -o '\\-\\-[a-z]*.*[a-z]' | tr -d '\\' | sort | tr '\n' ' ')" \
	'--config --foreground --state-dir '

# shellcheck disable=SC1091
. "$repo/tools/completion/hutch.bash"
# bash_completes WORD...: the last one, as bash splits words.
bash_completes() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_hutch 2>/dev/null
	printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' '|'
}
is 'bash: commands' "$(bash_completes hutch r)" 'rm|run|'
is 'bash: sandboxes' "$(bash_completes hutch ps '')" 'alpha|beta|'
is 'bash: one only' "$(bash_completes hutch ps alpha '')" '|'
is 'bash: several' "$(bash_completes hutch rm alpha b)" 'beta|'
is 'bash: commands of a sandbox' "$(bash_completes hutch logs alpha/)" 'alpha/1|'
is 'bash: run' "$(bash_completes hutch run '')" '--|alpha|beta|'
is 'bash: shell' "$(bash_completes hutch shell '')" '--|alpha|beta|'
is 'bash: run, behind the sandbox' "$(bash_completes hutch run alpha '')" '--|'
like 'bash: run, the command' "$(bash_completes hutch run alpha -- ls)" '(^|\|)ls\|'
is 'bash: an argument of an option' "$(bash_completes hutch run --mount a)" 'a file|'
is 'bash: cp' "$(bash_completes hutch cp a)" 'a file|alpha:|'
is 'bash: cp, behind a colon' "$(bash_completes hutch cp alpha : x)" '|'
is 'bash: help' "$(bash_completes hutch help d)" 'doctor|'

# zsh: on a terminal of its own.
cat >zsh.sh <<-'END'
	zmodload zsh/zpty
	zpty z zsh -f -i
	zpty -w z "PS1=READY; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; LISTMAX=0; stty cols 200; cd $2; echo GO"
	zpty -r z line '*GO*GO*'
	shift 2
	for text; do
		zpty -w -n z "$text"$'\t'
		sleep 1
		zpty -w -n z $'\C-u'
		zpty -w z "echo DO''NE"
		zpty -r z line '*DONE*' && print -r -- "$line"
	done
	zpty -d z
END
zsh_completes() { TERM=vt100 timeout -k 1 30 zsh -f zsh.sh "$repo/tools/completion" "$W" "$@" | tr -d '\r\0' | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g'; }
like 'zsh: a command' "$(zsh_completes 'hutch do')" 'hutch doctor'
like 'zsh: a sandbox' "$(zsh_completes 'hutch ps al')" 'hutch ps alpha'
like 'zsh: a command of it' "$(zsh_completes 'hutch logs alpha/')" 'alpha/1'
like 'zsh: cp' "$(zsh_completes 'hutch cp al')" 'hutch cp alpha:'
like 'zsh: descriptions' "$(zsh_completes 'hutch run --')" '--timeout.*kill it after'

mkdir dest
ok 'make install' make -s -C "$repo" B="$BUILD" DESTDIR="$W/dest" PREFIX=/usr -o all install
ok 'installs that of bash' cmp "$repo/tools/completion/hutch.bash" dest/usr/share/bash-completion/completions/hutch
ok 'and that of zsh' cmp "$repo/tools/completion/_hutch" dest/usr/share/zsh/site-functions/_hutch
stop_hutchd
