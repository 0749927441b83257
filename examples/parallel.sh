#!/bin/sh
# Many commands at once in one sandbox: start them all, then collect the results.
#
#	examples/parallel.sh [HOW-MANY]
set -eu
tree=${HUTCH:-/run/hutch}
many=${1:-8}
box=$(mktemp -d "$tree/parallel-XXXXXX")
trap 'rmdir "$box"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

exec 3<>"$box/exec/new"
nodes=
i=1
while [ $i -le "$many" ]; do
	echo "sleep 0.$((i % 3)); seq $i | wc -l; exit $((i % 2))" >&3
	read -r n <&3
	nodes="$nodes $n"
	i=$((i + 1))
done

failed=0
for n in $nodes; do
	code=$(cat "$box/exec/$n/code")
	echo "command $n: exit code $code, output $(cat "$box/exec/$n/stdout")"
	if [ "$code" != 0 ]; then
		failed=$((failed + 1))
	fi
done
echo "$failed of $many failed"
