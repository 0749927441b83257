/* nodes.c - the table of the tree
 *
 * A row's order in a directory is its order here.  Handlers are elsewhere: show.c,
 * alias.c, tree_change.c and *_file.c.
 */
#include "fs/node.h"

#include <string.h>

#define DIR_MODE(bits)  (S_IFDIR | (bits))
#define FILE_MODE(bits) (S_IFREG | (bits))

const struct node_def node_table[] = {
	[NODE_ROOT] = {
		.shown = "",
		.mode = DIR_MODE(0755),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_PER_USER,
		.attr = root_attr,
		.doc = "mkdir ID makes a sandbox and starts it, rmdir ID ends and removes it",
		.reads = "Only sandboxes that the reader may enter are listed.",
		.errors = "mkdir: EEXIST, the name is taken or reserved; EINVAL, it is not 1 to 64 of "
			  "A-Z a-z 0-9 . _ - beginning with neither a dot nor a dash; EACCES, the root "
			  "is not open to this user.  Files cannot be made: EPERM.",
	},
	[NODE_HELP] = {
		.name = "help",
		.parent = NODE_ROOT,
		.mode = FILE_MODE(0444),
		.names = CACHE_STATIC,
		.attrs = CACHE_STATIC,
		.show = help_show,
		.doc = "this text",
		.reads = "The tree in words, from the table that serves it.",
	},
	[NODE_VERSION] = {
		.name = "version",
		.parent = NODE_ROOT,
		.mode = FILE_MODE(0444),
		.names = CACHE_STATIC,
		.attrs = CACHE_STATIC,
		.show = version_show,
		.doc = "the version of hutchd",
		.reads = "One line: hutch and a version number.",
	},
	[NODE_NEW] = {
		.name = "new",
		.parent = NODE_ROOT,
		.mode = FILE_MODE(0600),
		.names = CACHE_STATIC,
		.attrs = CACHE_STATIC,
		.flags = NODE_STREAM | NODE_FLUSHED,
		.ops = &new_ops,
		.attr = new_attr,
		.doc = "write a JSON spec, or an empty line: a sandbox; read its id from the same "
		       "handle",
		.reads = "The ids of the sandboxes made through this handle, a line each, as a stream: "
			 "a read never crosses a newline, and gives nothing when nothing is owed.",
		.writes = "A JSON object with the keys of a spec, or an empty line for the defaults.  "
			  "Writing needs the right to make directories in the root.",
		.errors = "EINVAL, the spec is not right; EEXIST, its name is taken; EBUSY, a second "
			  "spec on a handle that is not open for reading; E2BIG, more than 1 MiB.",
		.polls = "Always readable and writable.",
	},
	[NODE_ERROR] = {
		.name = "error",
		.parent = NODE_ROOT,
		.mode = FILE_MODE(0444),
		.names = CACHE_STATIC,
		.attrs = CACHE_STATIC,
		.flags = NODE_RESERVE,
		.show = error_show,
		.doc = "what this user was refused, newest first: TIME PATH ERRNO sentence",
		.reads = "The last 16 refused writes, opens for writing, mkdirs, rmdirs and changes of "
			 "attributes of the user who opened it.",
	},
	[NODE_SANDBOX] = {
		.shown = "ID",
		.parent = NODE_ROOT,
		.mode = DIR_MODE(0700),
		.names = CACHE_SHORT,
		.attrs = CACHE_SHORT,
		.attr = sandbox_attr,
		.doc = "one sandbox",
		.writes = "chmod, chgrp and, by root, chown work.  Owner, group and mode of this "
			  "directory are the gate to everything in it.",
		.errors = "ENOENT or ESTALE for whoever still holds the directory of a sandbox that has "
			  "been removed, also when there is a new one of that name.",
	},
	[NODE_STATE] = {
		.name = "state",
		.parent = NODE_SANDBOX,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_RESERVE,
		.show = state_show,
		.doc = "creating | running | stopped | quarantined: reason | failed: reason",
		.reads = "One line, as of open.  Never waits.  In a sandbox that is quarantined, since "
			 "its process 1 broke the protocol, reading and rmdir are all that is left.",
	},
	[NODE_SPEC] = {
		.name = "spec.json",
		.parent = NODE_SANDBOX,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.show = spec_show,
		.doc = "what it was made from, defaults filled in",
		.reads = "One JSON object.",
	},
	[NODE_CTL] = {
		.name = "ctl",
		.parent = NODE_SANDBOX,
		.mode = FILE_MODE(0220),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_STREAM | NODE_RESERVE,
		.ops = &ctl_ops,
		.doc = "verbs, one per line: stop, start, kill",
		.writes = "Verbs run in the order written.  stop ends process 1 and all with it; the "
			  "writable layer and the nodes stay.  start makes a new process 1.  kill ends "
			  "every command, and the sandbox runs on.  A write returns when its verbs are "
			  "done, or after 100 ms, and state tells the rest; a verb whose effect is "
			  "already there succeeds.",
		.errors = "EINVAL, no such verb: none of that write has run.",
		.polls = "Always writable.",
	},
	[NODE_EXECS] = {
		.name = "exec",
		.parent = NODE_SANDBOX,
		.mode = DIR_MODE(0770),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_PER_USER,
		.attr = execs_attr,
		.doc = "its commands; mkdir exec/NAME makes one whose command is written to its cmd; "
		       "rmdir exec/N removes one, and kills it if it runs",
		.errors = "mkdir: EEXIST, the name is taken; EINVAL, it is a number, or not 1 to 64 of "
			  "A-Z a-z 0-9 . _ - beginning with neither a dot nor a dash; ESRCH, the "
			  "sandbox is stopped or failed; EDQUOT, there are too many.",
	},
	[NODE_EXEC_NEW] = {
		.name = "new",
		.parent = NODE_EXECS,
		.mode = FILE_MODE(0660),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_STREAM | NODE_FLUSHED,
		.ops = &exec_new_ops,
		.doc = "write a command: a node; read its name from the same handle",
		.reads = "The names of the nodes made through this handle, a line each, as a stream: a "
			 "read commits the text written before, never crosses a newline, and gives "
			 "nothing when nothing is owed.",
		.writes = "{ begins a JSON request and [ a JSON array, the argv: it commits in the "
			  "write that completes it.  Anything else is a shell script, which commits "
			  "when its writer closes.  A handle that is not open for reading takes one "
			  "command.  A write waits while the disk of the state directory is slow and "
			  "as much as may be waits for it already.",
		.errors = "EINVAL, the request is not right, or a text holds a NUL; E2BIG, more than "
			  "1 MiB, or an argument of 128 KiB; EBUSY, a second command; ESRCH, the "
			  "sandbox is stopped or failed, and the request is not one with an id that it "
			  "took before; EDQUOT, there are too many commands, or they are too long "
			  "together, or this user's open files hold too much; ENOSPC or another, the "
			  "state directory takes nothing now.  A command "
			  "that cannot be started is no "
			  "error: the node exists, and its result says why.  A handle that refused a "
			  "write answers later ones alike, and last is gone until the next command is "
			  "accepted.",
		.polls = "Always readable and writable.",
	},
	[NODE_EXEC_LAST] = {
		.name = "last",
		.parent = NODE_EXECS,
		.mode = S_IFLNK | 0777,
		.names = CACHE_NONE,
		.attrs = CACHE_SHORT,
		.target = last_target,
		.doc = "symbolic link to this user's newest node",
		.errors = "ENOENT, there is none, or the user's last command was refused or removed.",
	},
	[NODE_EXEC] = {
		.shown = "N",
		.parent = NODE_EXECS,
		.mode = DIR_MODE(0770),
		.names = CACHE_NONE,
		.attrs = CACHE_SHORT,
		.doc = "one command; its name is a number, or what mkdir or its id gave it",
	},
	[NODE_EXEC_CMD] = {
		.name = "cmd",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0660),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_FLUSHED,
		.show = cmd_show,
		.ops = &cmd_ops,
		.attr = cmd_attr,
		.doc = "the command as JSON; in a node made by mkdir, written once",
		.reads = "The request, one line, as of open.  In a node without a command: what was set "
			 "of it, or nothing.",
		.writes = "As exec/new, one command.  The same one may be written again, and runs "
			  "nothing.  The cmd of a node with a number has mode 0440.",
		.errors = "EEXIST, the node has a different command; else as exec/new.",
	},
	[NODE_EXEC_STDIN] = {
		.name = "stdin",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0220),
		.names = CACHE_NONE,
		.attrs = CACHE_SHORT,
		.flags = NODE_STREAM | NODE_FRESH,
		.ops = &stdin_ops,
		.doc = "write, appending; ends when the last writer closes",
		.writes = "Bytes go to the command's standard input in order; a full pipe makes the "
			  "writer wait.  It ends when no handle is open for writing and one has written, "
			  "or was opened with O_TRUNC; an open handle holds it.  To a terminal they are "
			  "typed, and closing ends nothing.",
		.errors = "EPIPE, it has ended, or the command has; EAGAIN, the pipe is full and the "
			  "handle non-blocking, too many of this user's requests wait, or no command "
			  "was written to the node yet.",
		.polls = "Writable when the pipe takes bytes; POLLERR when it has ended.",
	},
	[NODE_EXEC_STDOUT] = {
		.name = "stdout",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_NONE,
		.ops = &output_ops,
		.attr = output_attr,
		.doc = "read, from any offset, by any number of readers, during and after the run",
		.reads = "The bytes so far; at their end a reader waits for more, until the stream "
			 "ends, which is when every process that has it open is gone.  st_size is what "
			 "is there so far.",
		.errors = "EAGAIN, nothing yet on a non-blocking handle, too many of this user's requests "
			  "wait, or no command was written to the node yet; EINTR, a signal came; EIO, "
			  "what was there was given back to the disk, see STREAMS.",
		.polls = "Readable when there is more, or the end.",
	},
	[NODE_EXEC_STDERR] = {
		.name = "stderr",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_NONE,
		.ops = &output_ops,
		.attr = output_attr,
		.doc = "the same for standard error",
		.reads = "As stdout.",
		.errors = "As stdout.",
		.polls = "As stdout.",
	},
	[NODE_EXEC_STATUS] = {
		.name = "status",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_RESERVE,
		.show = status_show,
		.doc = "pending | running | running (stdout full) | exited N | signaled SIGx | "
		       "timed_out | oom_killed | killed | failed: why | lost",
		.reads = "One line, as of open.  Never waits.  While a stream is full and waits for "
			 "its readers: running (stdout full), running (stderr full), running (stdout "
			 "and stderr full).",
	},
	[NODE_EXEC_RESULT] = {
		.name = "result.json",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.ops = &result_ops,
		.attr = result_attr,
		.doc = "blocks until there is a result",
		.reads = "One JSON object.  What was not collected is null, never 0.  st_size is 0 until "
			 "it is there.",
		.errors = "EAGAIN, no result yet on a non-blocking handle, too many of this user's requests "
			  "wait, or no command was written to the node yet; EINTR, a signal came.",
		.polls = "Readable when there is a result.",
	},
	[NODE_EXEC_CODE] = {
		.name = "code",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.ops = &code_ops,
		.attr = result_attr,
		.doc = "blocks like result.json, then one line as `$?` would be",
		.reads = "0 to 255; 128 + n for a signal, 124 for a timeout, 125 for failures of hutch "
			 "and lost commands, 126 and 127 for what could not be started.",
		.errors = "As result.json.",
		.polls = "As result.json.",
	},
	[NODE_EXEC_CTL] = {
		.name = "ctl",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0220),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_STREAM | NODE_RESERVE,
		.ops = &exec_ctl_ops,
		.doc = "verbs, one per line: kill, signal NAME, close-stdin, winsize ROWS COLS; before "
		       "the command is written: set KEY VALUE",
		.writes = "kill ends every process that the command started.  signal TERM, SIGTERM or "
			  "15 goes to its process group.  close-stdin ends stdin, whoever holds it; "
			  "at a terminal it types the end-of-file character.  winsize resizes the "
			  "terminal.  "
			  "set KEY VALUE is a key of the request that will be written, without any "
			  "quoting: VALUE is the rest of the line as it is, and members are dotted, as "
			  "in set env.CC clang -O2.  Keys of a JSON request win; cmd and id cannot be "
			  "set.",
		.errors = "EINVAL, no such verb, signal or key, or a value that does not fit: none of "
			  "that write has run.  EBUSY, set after the command was written.  "
			  "ENOTTY, winsize of a command without a terminal; EAGAIN, signal, "
			  "close-stdin and winsize before the command is written, winsize before "
			  "there is a terminal, and close-stdin when a terminal takes no more.",
		.polls = "Always writable.",
	},
	[NODE_EVENTS] = {
		.name = "events",
		.parent = NODE_ROOT,
		.mode = FILE_MODE(0444),
		.names = CACHE_STATIC,
		.attrs = CACHE_NONE,
		.flags = NODE_PER_USER,
		.ops = &events_ops,
		.attr = events_attr,
		.doc = "JSON lines: what happened to the sandboxes that this user may enter",
		.reads = "The last 10000 lines, each with a sequence number, and then the end of the "
			 "file.  Offsets only grow: a first read below the oldest line that is kept "
			 "begins with that line.  tail -f follows.",
		.polls = "Readable when there are lines behind those that were read.",
	},
	[NODE_STATS] = {
		.name = "stats.json",
		.parent = NODE_ROOT,
		.mode = FILE_MODE(0444),
		.names = CACHE_STATIC,
		.attrs = CACHE_STATIC,
		.flags = NODE_RESERVE,
		.show = stats_show,
		.doc = "the daemon's own counts",
		.reads = "One JSON object, as of open: version, uptime_s, cgroup; sandboxes by state; "
			 "commands live and finished, nodes; holds; handles and waiting requests of all "
			 "and of this user; users; events since the start.",
	},
	[NODE_EXEC_KEEP] = {
		.name = "keep",
		.parent = NODE_EXECS,
		.mode = FILE_MODE(0660),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.show = keep_show,
		.store = keep_store,
		.doc = "how many finished nodes stay; the oldest go",
		.reads = "A number, as of open.  Nodes whose request had an id do not count: they stay "
			 "72 hours.  Of the others no more than 64 MiB of commands stay, however many "
			 "they are.",
		.writes = "A number from 0 to 100000.  What is over goes at once, but for nodes that "
			  "are open or whose processes live.",
		.errors = "EINVAL, it is no such number.",
		.polls = "Always readable and writable.",
	},
	[NODE_HOLD] = {
		.name = "hold",
		.parent = NODE_SANDBOX,
		.mode = FILE_MODE(0220),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_STREAM,
		.ops = &hold_ops,
		.doc = "open it for writing: when the last handle closes, the sandbox is removed",
		.writes = "Taken, and without a meaning.  It is the open handle that counts, however its "
			  "process ends.  touch hold removes the sandbox.",
		.polls = "Always writable.",
	},
	[NODE_SANDBOX_EVENTS] = {
		.name = "events",
		.parent = NODE_SANDBOX,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_NONE,
		.ops = &events_ops,
		.attr = events_attr,
		.doc = "JSON lines: what happened to this sandbox",
		.reads = "As the root's events.",
		.polls = "As the root's events.",
	},
	[NODE_EXEC_HOLD] = {
		.name = "hold",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0220),
		.names = CACHE_STATIC,
		.attrs = CACHE_SHORT,
		.flags = NODE_STREAM,
		.ops = &exec_hold_ops,
		.doc = "open it for writing: when the last handle closes, the command is killed; its "
		       "node and result stay",
		.writes = "As the sandbox's hold.",
		.polls = "Always writable.",
	},
	[NODE_EXEC_INPUT] = {
		.name = "input",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0220),
		.names = CACHE_NONE,
		.attrs = CACHE_NONE,
		.flags = NODE_FRESH,
		.ops = &input_ops,
		.attr = input_attr,
		.doc = "the pipe of stdin by offset, for who resumes; closing it is no end",
		.writes = "st_size is how many bytes the pipe has taken, from stdin and from here: the "
			  "offset to go on at.  Bytes below it are skipped, as those that were taken "
			  "before; a handle with O_APPEND writes there, wherever that is.  O_TRUNC has "
			  "no effect.  An interrupted writer is told how many were taken, skipped ones "
			  "among them.  Neither a write nor a close ends stdin, and an open handle does "
			  "not hold it: close-stdin in ctl ends it.",
		.errors = "EINVAL, the offset is beyond what was taken; EPIPE and EAGAIN as stdin, but "
			  "bytes that were taken before are skipped after the end too.",
		.polls = "As stdin.",
	},
	[NODE_EXEC_OUTPUT] = {
		.name = "output",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_NONE,
		.ops = &arrival_ops,
		.attr = arrival_attr,
		.doc = "stdout and stderr, in the order in which they came",
		.reads = "As stdout: the bytes of stdout and stderr, in the order in which hutchd took "
			 "them from their pipes, until both have ended.  What was read at an offset "
			 "stays there.  Writes to the two streams that follow each other closely may "
			 "change places; with \"stderr\": \"merge\" the order is exact.",
		.errors = "As stdout.",
		.polls = "As stdout.",
	},
	[NODE_EXEC_FRAMES] = {
		.name = "frames",
		.parent = NODE_EXEC,
		.mode = FILE_MODE(0440),
		.names = CACHE_STATIC,
		.attrs = CACHE_NONE,
		.ops = &arrival_ops,
		.attr = arrival_attr,
		.doc = "stdout, stderr and the result, as a stream of frames",
		.reads = "Frames: a byte that is 1 for stdout, 2 for stderr, 3 for the result, three "
			 "bytes that are 0, the length of what follows as 4 bytes, big-endian, and so "
			 "many bytes, at most 65536.  The order is that of output, up to the result, "
			 "which is the text of result.json and the last frame.  What children that "
			 "were left behind write later is in output.  A reader at the end waits until "
			 "there is more, or the result; one that comes back goes on at its offset.",
		.errors = "As output.",
		.polls = "As stdout.",
	},
};
_Static_assert(sizeof(node_table) / sizeof(node_table[0]) == NODE_COUNT,
	       "node_table[] and enum node_id differ");

/* Names at the root that later versions use: a sandbox of that name would be in the way. */
static const char *const reserved[] = { "images", "secrets" };

enum node_id node_find(enum node_id parent, const char *name)
{
	for (int i = NODE_ROOT + 1; i < NODE_COUNT; i++)
		if (node_table[i].parent == parent && node_table[i].name &&
		    strcmp(node_table[i].name, name) == 0)
			return (enum node_id)i;
	return NODE_NONE;
}

enum node_id node_entries(enum node_id parent)
{
	for (int i = NODE_ROOT + 1; i < NODE_COUNT; i++)
		if (node_table[i].parent == parent && !node_table[i].name)
			return (enum node_id)i;
	return NODE_NONE;
}

bool node_reserved(const char *name)
{
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (strcmp(reserved[i], name) == 0)
			return true;
	return false;
}

static const char *check_file(const struct node_def *d)
{
	bool reads = d->show || (d->ops && d->ops->read);
	bool writes = d->store || (d->ops && d->ops->write);

	if (!!(d->mode & 0444) != reads)
		return "read bits and read handlers differ";
	if (!!(d->mode & 0222) != writes)
		return "write bits and write handlers differ";
	if (d->show && d->ops && d->ops->read)
		return "a file is rendered or read, not both";
	if (d->store && d->ops && d->ops->write)
		return "a value is stored or bytes are written, not both";
	if (d->ops && d->ops->read && !d->ops->ready)
		return "what may block needs a poll mask";
	if (d->target)
		return "only a symbolic link has a target";
	if (reads != !!d->reads || writes != !!d->writes)
		return "what reading or writing means is not documented";
	return NULL;
}

static const char *check_row(enum node_id id, const struct node_def *d)
{
	if (!d->mode || !d->doc || (!d->name && !d->shown))
		return "row missing";
	if (id != NODE_ROOT && (d->parent == NODE_NONE || !S_ISDIR(node_table[d->parent].mode)))
		return "parent is not a directory";
	if (d->name && node_find(d->parent, d->name) != id)
		return "name given twice";
	if (!d->name && id != NODE_ROOT && node_entries(d->parent) != id)
		return "two rows without a name in one directory";
	if (!S_ISREG(d->mode) && d->store)
		return "only a file stores a value";
	if (S_ISDIR(d->mode) && (d->show || d->ops || d->target))
		return "a directory has no handlers";
	if (S_ISLNK(d->mode) && (!d->target || d->show || d->ops))
		return "a symbolic link has a target and nothing else";
	return S_ISREG(d->mode) ? check_file(d) : NULL;
}

const char *node_table_check(void)
{
	for (int i = NODE_ROOT; i < NODE_COUNT; i++) {
		const char *fault = check_row((enum node_id)i, &node_table[i]);

		if (fault)
			return fault;
	}
	return NULL;
}
