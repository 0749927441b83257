# bash completion for hutch(1); what there is to complete is asked of hutch itself

_hutch() {
	local cur=${COMP_WORDS[COMP_CWORD]} line words i word
	COMPREPLY=()

	# A colon ends a word for bash and not for hutch: put BOX : PATH together again.
	words=()
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ ${#words[@]} -gt 0 && ( $word == :* || ${words[-1]} == *: ) ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
	done
	local whole=${words[-1]-} behind=
	[[ $whole == *:* && $COMP_WORDBREAKS == *:* ]] && behind=${whole%"${whole##*:}"}

	while IFS= read -r line; do
		case $line in
		:command)
			i=1
			while [[ ${COMP_WORDS[i]} != -- ]]; do i=$((i + 1)); done
			if declare -F _command_offset >/dev/null; then
				_command_offset $((i + 1))
			else
				word=-f
				[[ $COMP_CWORD == $((i + 1)) ]] && word=-c
				mapfile -t COMPREPLY < <(compgen "$word" -- "$cur")
			fi
			return
			;;
		:files)
			[[ $whole == *:* ]] || while IFS= read -r word; do
				COMPREPLY+=("$word")
			done < <(compgen -f -- "$cur")
			compopt -o filenames 2>/dev/null
			;;
		*)
			word=${line%%$'\t'*}
			COMPREPLY+=("${word#"$behind"}")
			[[ $word == *: || $word == */ ]] && compopt -o nospace 2>/dev/null
			;;
		esac
	done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
}
complete -F _hutch hutch
