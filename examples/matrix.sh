#!/bin/bash
# A test matrix: the same test in eight sandboxes at once, one for each combination of settings.
# The first failure ends them all.
#
#	examples/matrix.sh [COMMAND]
#
# COMMAND finds the settings in $CSTD and $COPT. Without one, a small C program is compiled and run.
set -eu
tree=${HUTCH:-/run/hutch}
command=${1:-'printf "int main(void) { return 0; }\n" > t.c && cc -Wall -std="$CSTD" "$COPT" -o t t.c && ./t'}

boxes=()
trap '[ ${#boxes[@]} = 0 ] || rmdir "${boxes[@]}"' EXIT # with whatever still runs in them
trap 'exit 130' INT
trap 'exit 143' TERM

exec 3<>"$tree/new"
declare -A name=() node=()
for std in c11 gnu17; do
	for opt in -O0 -O1 -O2 -O3; do
		# What all commands of a sandbox find in their environment is said when it is made.
		echo "{\"env\": {\"CSTD\": \"$std\", \"COPT\": \"$opt\"}, \"exec\": {\"timeout_s\": 120}}" >&3
		read -r id <&3
		boxes+=("$tree/$id")
		exec 4<>"$tree/$id/exec/new"
		printf '%s' " $command" >&4 # the space: a script, whatever it begins with
		read -r n <&4
		exec 4>&-
		# `code` answers when the command is over; so this job ends then, and as it did.
		(trap - EXIT; exit "$(cat "$tree/$id/exec/$n/code")") &
		name[$!]="$std $opt" node[$!]=$tree/$id/exec/$n
	done
done

for ((passed = 0; passed < ${#boxes[@]}; passed++)); do
	status=0
	wait -n -p job || status=$?
	if [ $status != 0 ]; then
		echo "${name[$job]}: failed with $status after $passed passed"
		cat "${node[$job]}/stderr"
		exit 1
	fi
done
echo "all $passed passed"
