#!/bin/sh
# An `id` makes a start safe to repeat: whoever asks again, after a lost connection or in a second
# process, gets the same command, not another one.
set -eu
tree=${HUTCH:-/run/hutch}
box=$(mktemp -d "$tree/once-XXXXXX")
trap 'rmdir "$box"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() {
	echo "{\"id\": \"order-17\", \"cmd\": \"echo shipped; echo 1 >> count; wc -l < count\"}" > "$box/exec/new"
	cat "$box/exec/order-17/code" > /dev/null
}
for try in 1 2 3; do
	start
	echo "try $try: $(tr '\n' ' ' < "$box/exec/order-17/stdout")"
done

# A different command of that id is a mistake, and is told so.
if echo '{"id": "order-17", "cmd": "echo cancelled"}' 2> /dev/null > "$box/exec/new"; then
	echo "it was taken, and should not have been"
else
	echo "refused: $(head -n 1 "$tree/error" | cut -d ' ' -f 3)"
fi

# A server by name: mkdir -p and the same words again start it once.
for try in 1 2; do
	mkdir -p "$box/exec/server"
	echo 'echo >> starts; echo "started $(wc -l < starts) time"; exec sleep 1000' > "$box/exec/server/cmd"
	echo "server: $(head -n 1 "$box/exec/server/stdout")"
done
echo kill > "$box/exec/server/ctl"
echo "server: $(cat "$box/exec/server/status")"
