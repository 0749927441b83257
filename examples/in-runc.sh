#!/bin/sh
# The same as in-bwrap.sh with a container of runc's, as Docker and Kubernetes start them: the
# sandbox's directory is one more entry in the mounts of the container.
#
# The container's root may be another user on the host (rootless, user namespaces). Then give him
# the sandbox first: chown HIS-UID-ON-THE-HOST /run/hutch/ID.
set -eu
tree=${HUTCH:-/run/hutch}
box=$(mktemp -d "$tree/runc-XXXXXX")
bundle=$(mktemp -d)
trap 'rmdir "$box"; rm -rf "$bundle"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p "$bundle/root/usr" "$bundle/root/proc" "$bundle/root/dev" "$bundle/root/box"
for dir in bin lib lib64; do
	ln -s "usr/$dir" "$bundle/root/$dir"
done
cat > "$bundle/root/agent.sh" <<'SCRIPT'
exec 3<>/box/exec/new
echo 'tr a-z A-Z; exit 4' >&3
read -r n <&3
echo 'from a container' > "/box/exec/$n/stdin"
echo "it said: $(cat "/box/exec/$n/stdout"), and $(cat "/box/exec/$n/code")"
SCRIPT

(cd "$bundle" && runc spec)
jq --arg box "$box" '
	.process.terminal = false |
	.process.args = ["/bin/sh", "-eu", "/agent.sh"] |
	.root.path = "root" |
	.mounts += [
		{"destination": "/usr", "source": "/usr", "options": ["rbind", "ro"]},
		{"destination": "/box", "source": $box, "options": ["bind", "rw"]}
	]' "$bundle/config.json" > "$bundle/new.json"
mv "$bundle/new.json" "$bundle/config.json"
runc --root "$bundle/state" run --bundle "$bundle" "${box##*/}" < /dev/null
