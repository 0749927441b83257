#!/bin/bash
# The commit rule against a model of it, with random pieces, pauses and owners: commit_model.py.
# SEED=N plays that again; SOAK=1: many more rounds.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3

rounds=400
[ -z "${SOAK-}" ] || rounds=20000
start_hutchd
box b
timeout $((TEST_TIMEOUT - 30)) python3 "$(dirname "${BASH_SOURCE[0]}")/commit_model.py" "$T/b/exec" $rounds "${SEED-}" >"$W/out" 2>&1
status=$?
is "$(head -n 1 "$W/out")" $status 0
note "$(cat "$W/out")"
is 'the sandbox is as it was' "$(timeout 5 cat "$T/b/state") $(ls "$T/b/exec" | grep -c '^[0-9]')" 'running 0'
stop_hutchd
