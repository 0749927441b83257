#!/bin/bash
# hutch shell, by a terminal: tmux types and looks. vim, top, less, Ctrl-C, Ctrl-Z, resizing, the
# escapes, and that the terminal is as it was whatever ended it.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq tmux vim less top pgrep dash

start_hutchd
box b
export HUTCH=$T TMUX_TMPDIR=$W
unset TMUX
tm() { timeout -k 1 10 tmux -L hutch -f /dev/null "$@"; }
end_tmux() { tm kill-server 2>/dev/null; }
at_end+=(end_tmux)
screen() { tm capture-pane -p -t p; }
# keys KEY...: as tmux names them. line TEXT: types it, and Enter.
keys() { tm send-keys -t p -- "$@"; }
line() { tm send-keys -t p -l -- "$1" && keys Enter; }
sees() { wait_for 15 eval "screen | grep -Eq -- '$1'"; }
# shows WHAT REGEX: or says what it shows instead.
shows() { if sees "$2"; then pass "$1"; else fail "$1" "to match: $2" "$(screen)"; fi; }
clear_screen() { line clear; wait_for 5 eval '[ "$(screen | grep -c .)" = 1 ]'; }
# outer FILE: the modes of our terminal, told by the shell that sits at it.
outer() {
	rm -f "$W/$1"
	line "stty -g >$W/$1.new; mv $W/$1.new $W/$1; clear"
	wait_for 10 test -s "$W/$1"
}
restored() { # WHAT
	outer after
	is "$1: the terminal is as it was" "$(cat "$W/after")" "$(cat "$W/before")"
}
# enter [ARGUMENT...]: hutch shell, up to a prompt of our own in it.
# The processes of hutch; not one that has ended and that tmux, its parent, has not looked at yet.
hutch_runs() { pgrep -x -r D,R,S,T,t hutch; }
enter() {
	line "hutch shell $*"
	wait_for 10 eval "screen | grep -q ':.*# *$'"
	line "PS1='in''ner> '"
	shows "hutch shell $*" '^inner>'
	clear_screen
}
# prompt NAME: it is the last that there is on the screen.
prompt() { wait_for 15 eval '[ "$(screen | grep . | tail -n 1)" = "'"$1"'>" ]'; }
# left WHAT CODE: we are back at the outer prompt, with this exit status.
left() {
	prompt outer
	line 'echo "co''de $?"'
	shows "$1" "^code $2\$"
	restored "$1"
}

tm new-session -d -s p -x 80 -y 24 "env PATH=$BUILD:$PATH PS1='outer> ' bash --norc --noprofile"
shows 'a terminal' '^outer>'
outer before

enter b
line 'tty; stty size; uname -n'
shows 'a terminal of its own' '^/dev/pts/[0-9]+$'
shows 'of the size of ours' '^24 80$'
shows 'in that sandbox' '^b$'
line 'echo "term $TERM"'
shows 'TERM is ours' "^term $(tm show-options -gv default-terminal)\$"

# Resizing.
tm resize-window -t p -x 100 -y 30
wait_for 5 eval '[ "$(jq -r .pty.rows "$T/b/exec/last/cmd")" ]'
sized() { clear_screen; line 'stty size'; screen | grep -Eq '^30 100$'; }
ok 'resizing ours resizes its' wait_for 10 sized
clear_screen

# vim.
line 'cd /tmp; vim -u NONE -N file'
shows 'vim' '^~$'
keys i
tm send-keys -t p -l 'hello from vim'
keys Escape
line ':set lines? columns?'
shows 'vim knows the size' 'lines=30'
tm resize-window -t p -x 90 -y 20
vim_sized() { line ':set lines?'; screen | grep -q 'lines=20'; }
ok 'and follows it' wait_for 10 vim_sized
keys C-z
shows 'Ctrl-Z stops vim' 'Stopped'
line 'echo bet''ween'
shows 'and the shell has the terminal' '^between$'
line fg
shows 'fg brings it back' 'hello from vim'
line ':wq'
shows 'it is left' 'inner>'
clear_screen
line 'cat file'
shows 'what it wrote is there' '^hello from vim$'

# less and top.
line 'seq 1000 | less'
shows 'less' '^19$'
keys G
shows 'less: the end' '^1000$'
line '/^77'
keys g
line '/^777'
shows 'less: a search' '^777$'
keys q
clear_screen
line top
shows 'top' 'load average'
shows 'top: its table' 'PID +USER'
keys q
shows 'top: is left' '^inner>'
clear_screen

# Ctrl-C and friends go inside.
line 'sleep 6501'
wait_for 5 pgrep -f '^sleep 6501'
keys C-c
line 'echo "code $?"'
shows 'Ctrl-C ends what runs inside' '^code 130$'
line 'cat; echo af''ter'
keys C-d
shows 'Ctrl-D is an end of input' '^after$'
line "printf 'utf8 \\303\\244\\n'; stty -a | grep -o ' iutf8'"
shows 'UTF-8' '^utf8 ä$'
shows 'is told to the terminal' '^ iutf8$'
clear_screen

# The escapes.
keys '~' '?'
shows '~? shows the escapes' '~\^Z +stop hutch'
keys Enter
clear_screen
line '~~ is not read'
shows '~~ is one' '~ is not read'
line 'echo a~.b'
shows 'in the middle of a line it is none' '^a~\.b$'
line 'x=kept; clear'
keys Enter '~' C-z
shows '~^Z stops hutch' 'Stopped +hutch shell b'
restored '~^Z'
line fg
keys Enter
line 'echo "x is $x"'
shows 'fg: it goes on' '^x is kept$'
line 'exit 5'
left 'the exit status is its' 5
is 'the node is gone' "$(find "$T/b/exec" -mindepth 1 -maxdepth 1 -type d)" ''

# Who was started with it stops with it, or its terminal would be nobody's.
line 'sh -c "hutch shell b; echo be""hind"'
wait_for 10 eval "screen | grep -q ':.*# *$'"
keys Enter '~' C-z
shows '~^Z in a script stops the script' 'Stopped +sh -c'
restored '~^Z in a script'
line fg
line 'exit 0'
shows 'fg: it goes on as well' '^behind$'
clear_screen
# What has been done to the terminal meanwhile stays.
line 'dash -i'
enter b
keys Enter '~' C-z
shows '~^Z under dash' 'Stopped +hutch shell b'
line 'stty -ixon; fg'
line 'exit 0'
prompt outer
line "stty -a | grep -o -- ' -ixon'; stty ixon; exit"
shows 'the terminal is as it was left at ~^Z' '^ -ixon$'
clear_screen
# In a window of its own there is nobody who would let it go on.
tm new-window -d -t p:7 "HUTCH=$T exec $BUILD/hutch shell b"
window() { tm capture-pane -p -t p:7; }
wait_for 10 eval "window | grep -q '#'"
tm send-keys -t p:7 Enter '~' C-z
tm send-keys -t p:7 -l 'echo st''ill'
tm send-keys -t p:7 Enter
ok '~^Z in a window of its own: it goes on' wait_for 10 eval "window | grep -x still"
tm send-keys -t p:7 -l exit
tm send-keys -t p:7 Enter
ok 'and its window closes' wait_for 10 eval '! tm list-panes -t p:7'

enter b
line 'sleep 6502'
wait_for 5 pgrep -f '^sleep 6502'
keys '~' '.' # Enter was typed: a line begins
left '~.' 137
no 'ended what ran' pgrep -f '^sleep 6502'

# More is typed than its terminal takes, at what does not read.
enter b
line 'sleep 6508'
wait_for 5 pgrep -f '^sleep 6508'
yes "$(printf '%078d' 0)" | head -n 1000 >"$W/much"
tm load-buffer "$W/much"
tm paste-buffer -t p
keys Enter '~' '.'
left '~. behind what is not read' 137
no 'ended that' pgrep -f '^sleep 6508'

# Every other end.
for signal in TERM:143 HUP:129 INT:130 QUIT:131; do
	enter b
	line 'sleep 6503'
	wait_for 5 pgrep -f '^sleep 6503'
	kill "-${signal%:*}" "$(hutch_runs)"
	left "SIG${signal%:*}" "${signal#*:}"
	ok 'ends what ran' wait_for 5 eval '! pgrep -f "^sleep 6503"'
done
enter b
kill -TSTP "$(hutch_runs)"
shows 'SIGTSTP stops hutch' 'Stopped +hutch shell b'
restored 'SIGTSTP'
line fg
line 'exit 6'
left 'SIGTSTP, then fg' 6
enter b
kill -STOP "$(hutch_runs)"
shows 'SIGSTOP' 'Stopped +hutch shell b'
line fg
line 'exit 7'
left 'SIGSTOP, then fg' 7
enter b
echo kill >"$T/b/exec/last/ctl"
shows 'killed: told on a line of its own' '^hutch: shell: .sh.: it was killed'
left 'the command is killed' 137
line 'hutch shell b -- no-such-program'
shows 'a program that is not there' "no-such-program.: no such program"
line 'hutch shell nobox'
shows 'a sandbox that is not there' 'hutch: .*nobox'
restored 'what could not begin'
line 'hutch shell --timeout 0.5 b -- sleep 20'
left 'a timeout' 124
line 'hutch shell b -- sh -c "exit 9" | cat; echo "pipe ${PIPESTATUS[*]}"'
shows 'standard output may be a pipe' '^pipe 9 0$'

# A sandbox of its own.
before=$(ls "$T")
line "hutch shell -e A=1 -w /tmp -- sh -c 'echo \"<\$A> \$(pwd) \$(stty size)\"; exit 4'"
shows 'a sandbox of its own' '^<1> /tmp 20 90$'
left 'and its exit status' 4
is 'it is gone' "$(ls "$T")" "$before"

# Defaults of a sandbox do not take the terminal away.
exec 3<>"$T/new"
echo '{"name":"quiet","exec":{"stdin":"null"}}' >&3
read -r -t 10 _ <&3
exec 3>&-
line "hutch shell quiet -- sh -c 'read x; echo \"got \$x\"'"
line typed
shows 'a sandbox whose commands have no stdin' '^got typed$'

# Without a terminal, the terminal goes, hutchd goes.
timeout 5 "$BUILD/hutch" shell b </dev/null >out 2>err
is 'no terminal: one line' "$? $(wc -l <err)" '125 1'
like 'says so' "$(cat err)" 'standard input is no terminal'
for wrong in 'b c' 'b --'; do
	# shellcheck disable=SC2086
	"$BUILD/hutch" shell $wrong </dev/null >out 2>err
	is "wrong usage: $wrong" "$? $(wc -l <err)" '125 1'
done
enter b
line 'sleep 6504'
wait_for 5 pgrep -f '^sleep 6504'
tm split-window -t p -d 'exec sleep 6505' # so that the session stays
tm kill-pane -t p.0
ok 'the terminal is gone: the command ends' wait_for 10 eval '! pgrep -f "^sleep 6504"'
ok 'and hutch' wait_for 10 eval '! hutch_runs'
tm kill-server
wait_for 5 eval '! tm ls'
tm new-session -d -s p -x 80 -y 24 "env PATH=$BUILD:$PATH PS1='outer> ' bash --norc --noprofile"
shows 'another terminal' '^outer>'
outer before
enter b
crash_hutchd
shows 'hutchd dies' "^hutch: the hutchd of .* has died"
left 'hutchd dies' 125
end_tmux
start_hutchd # cleans up behind the one that died
stop_hutchd
