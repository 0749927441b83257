/* show.c - the text files: what each says when it is opened, and what attributes differ */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/tree.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

/* Handlers of one type fill one table: not each needs all that it is given. */
#define UNUSED __attribute__((unused))

static int end_line(struct buf *out, int r)
{
	if (r < 0)
		return r;
	return out->len && out->data[out->len - 1] == '\n' ? 0 : buf_add(out, "\n", 1);
}

int help_show(UNUSED struct tree *tree, UNUSED const struct node_ref *ref, UNUSED uid_t uid,
	      struct buf *out)
{
	return node_print_help(out);
}

int version_show(struct tree *tree, UNUSED const struct node_ref *ref, UNUSED uid_t uid,
		 struct buf *out)
{
	return buf_printf(out, "hutch %s\n", tree->version);
}

int error_show(struct tree *tree, UNUSED const struct node_ref *ref, uid_t uid, struct buf *out)
{
	return refusals_print(&tree->refusals, uid, out);
}

int state_show(UNUSED struct tree *tree, const struct node_ref *ref, UNUSED uid_t uid,
	       struct buf *out)
{
	return end_line(out, sandbox_state_print(ref->sandbox, out));
}

static int put_sandboxes(const struct engine_stats *st, struct buf *out)
{
	static const char *const name[SANDBOX_STATE_COUNT] = {
		[SANDBOX_CREATING] = "creating",       [SANDBOX_RUNNING] = "running",
		[SANDBOX_STOPPED] = "stopped",         [SANDBOX_FAILED] = "failed",
		[SANDBOX_QUARANTINED] = "quarantined",
	};
	int r = 0;

	for (int i = 0; i < SANDBOX_STATE_COUNT && r == 0; i++)
		r = buf_printf(out, "%s\"%s\":%zu", i ? "," : "", name[i], st->sandboxes[i]);
	return r;
}

int stats_show(struct tree *tree, UNUSED const struct node_ref *ref, uid_t uid, struct buf *out)
{
	const struct users *all = &tree->users;
	const struct user *mine = users_find(all, uid);
	struct engine_stats st;
	int r;

	engine_stats(tree->engine, &st);
	r = buf_printf(
		out, "{\"version\":\"%s\",\"uptime_s\":%lld,\"cgroup\":\"%s\",\"sandboxes\":{",
		tree->version, (long long)((ev_now() - tree->started_ns) / 1000000000), st.cgroup);
	if (r == 0)
		r = put_sandboxes(&st, out);
	if (r == 0)
		r = buf_printf(out,
			       "},\"commands\":{\"live\":%zu,\"finished\":%zu},\"nodes\":%zu,"
			       "\"holds\":%zu,\"events\":%llu,",
			       st.commands_live, st.commands_finished, st.nodes, st.holds,
			       (unsigned long long)st.events);
	return r < 0 ? r
		     : buf_printf(out,
				  "\"handles\":{\"all\":%zu,\"mine\":%zu},"
				  "\"waiting\":{\"all\":%zu,\"mine\":%zu},\"users\":%zu}\n",
				  all->handles, mine ? mine->handles : 0, all->parked,
				  mine ? mine->parked : 0, all->by_uid.count);
}

int keep_show(UNUSED struct tree *tree, const struct node_ref *ref, UNUSED uid_t uid,
	      struct buf *out)
{
	return buf_printf(out, "%u\n", ref->sandbox->keep);
}

int keep_store(UNUSED struct tree *tree, const struct node_ref *ref, const char *text,
	       struct err *err)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long n = strtoul(text, NULL, 10);

	if (!digits || text[digits])
		return err_say(err, EINVAL, "keep: must be a number");
	return sandbox_set_keep(ref->sandbox, n < UINT_MAX ? (unsigned)n : UINT_MAX, err);
}

int spec_show(UNUSED struct tree *tree, const struct node_ref *ref, UNUSED uid_t uid,
	      struct buf *out)
{
	return end_line(out, spec_print(&ref->sandbox->spec, out));
}

int cmd_show(UNUSED struct tree *tree, const struct node_ref *ref, UNUSED uid_t uid,
	     struct buf *out)
{
	return end_line(out, exec_request_print(&ref->exec->request, out));
}

int status_show(UNUSED struct tree *tree, const struct node_ref *ref, UNUSED uid_t uid,
		struct buf *out)
{
	return end_line(out, exec_status_print(ref->exec, out));
}

int last_target(UNUSED struct tree *tree, const struct node_ref *ref, uid_t uid, char *out,
		size_t cap)
{
	struct exec *x = exec_last(ref->sandbox, uid);

	if (!x)
		return -ENOENT;
	(void)snprintf(out, cap, "%s", x->name);
	return 0;
}

void root_attr(struct tree *tree, UNUSED const struct node_ref *ref,
	       UNUSED const struct caller *who, struct stat *st)
{
	st->st_mode = S_IFDIR | tree->root_mode;
	st->st_nlink = 2 + sandbox_count(tree->engine);
}

/* Writing here makes what mkdir in the root makes, so it needs the same right; whoever may write
 * may read the answer. */
void new_attr(struct tree *tree, UNUSED const struct node_ref *ref, UNUSED const struct caller *who,
	      struct stat *st)
{
	mode_t may = tree->root_mode & 0222;

	st->st_mode = S_IFREG | may | may << 1;
}

void sandbox_attr(UNUSED struct tree *tree, const struct node_ref *ref,
		  UNUSED const struct caller *who, struct stat *st)
{
	st->st_mode = S_IFDIR | ref->sandbox->mode;
	st->st_nlink = 3;
	st->st_mtim = st->st_ctim = ref->sandbox->changed_at;
}

void execs_attr(UNUSED struct tree *tree, const struct node_ref *ref,
		UNUSED const struct caller *who, struct stat *st)
{
	st->st_nlink = 2 + ref->sandbox->exec_count;
	st->st_mtim = st->st_ctim = ref->sandbox->execs_changed_at;
}

/* What was written to `new` has its number, and is not written again. */
void cmd_attr(UNUSED struct tree *tree, const struct node_ref *ref, UNUSED const struct caller *who,
	      struct stat *st)
{
	if (ref->exec->number)
		st->st_mode = S_IFREG | 0440;
}

void input_attr(UNUSED struct tree *tree, const struct node_ref *ref,
		UNUSED const struct caller *who, struct stat *st)
{
	st->st_size = (off_t)ref->exec->in_taken;
}

void output_attr(UNUSED struct tree *tree, const struct node_ref *ref,
		 UNUSED const struct caller *who, struct stat *st)
{
	const struct stream *s =
		&ref->exec->stream[ref->id == NODE_EXEC_STDOUT ? EXEC_STDOUT : EXEC_STDERR];

	st->st_size = (off_t)s->size;
	st->st_blocks = (blkcnt_t)((s->size - s->given + 511) / 512);
	/* Zero until the first byte: then the command's own time is as good as any. */
	if (s->changed_at.tv_sec)
		st->st_mtim = st->st_ctim = s->changed_at;
}
