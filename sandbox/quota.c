/* quota.c - how many of each there may be: per owner of a sandbox first, then in all
 *
 * The counts of all are kept; those of one user are summed up only when all together
 * could be more than one may have, so that a command does not pay for it.
 */
#include <errno.h>
#include <sys/resource.h>

#include "sandbox/sandbox-internal.h"

/* Bytes of memory that requests take: all of one owner's; all; and those of one sandbox that are
 * kept for nobody but whoever may look at them. */
#define USER_REQUESTS_MAX     ((size_t)256 << 20)
#define ALL_REQUESTS_MAX      ((size_t)2 << 30)
#define FINISHED_REQUESTS_MAX ((size_t)64 << 20)

#define COMMAND_FDS 7   /* descriptors of a live command at the most, see exec.h */
#define OTHER_FDS   512 /* what is left for everything else */

static unsigned or_default(unsigned n, unsigned def)
{
	return n ? n : def;
}

void quota_init(struct engine *eng, const struct engine_limits *l)
{
	struct engine_limits *q = &eng->limits;
	struct rlimit files;

	q->user_sandboxes = or_default(l->user_sandboxes, 100);
	q->all_sandboxes = or_default(l->all_sandboxes, 4096);
	q->user_commands = or_default(l->user_commands, 2048);
	q->all_commands = or_default(l->all_commands, 16384);
	q->user_nodes = or_default(l->user_nodes, 200000);
	q->all_nodes = or_default(l->all_nodes, 2000000);
	q->sandbox_output = l->sandbox_output ? l->sandbox_output : (uint64_t)4 << 30;
	/* Out of descriptors nothing works any more; out of commands the rest still does. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
	    files.rlim_cur < OTHER_FDS + (rlim_t)q->all_commands * COMMAND_FDS)
		q->all_commands = files.rlim_cur > 2 * OTHER_FDS
					  ? (unsigned)(files.rlim_cur - OTHER_FDS) / COMMAND_FDS
					  : OTHER_FDS / COMMAND_FDS;
}

struct sums {
	size_t sandboxes, commands, nodes, request_bytes;
};

static struct sums sum_of(const struct engine *eng, uid_t uid)
{
	const struct sandbox *sb;
	struct sums sum = { 0 };

	list_for_each (sb, &eng->sandboxes, link) {
		if (sb->uid != uid)
			continue;
		sum.sandboxes++;
		sum.commands += sb->exec_live;
		sum.nodes += sb->exec_count;
		sum.request_bytes += sb->request_bytes;
	}
	return sum;
}

int sandbox_check_room(const struct engine *eng, uid_t uid, struct err *err)
{
	if (eng->count >= eng->limits.user_sandboxes &&
	    sum_of(eng, uid).sandboxes >= eng->limits.user_sandboxes)
		return err_say(err, EDQUOT,
			       "user %u has %u sandboxes, the most allowed: rmdir some", uid,
			       eng->limits.user_sandboxes);
	if (eng->count >= eng->limits.all_sandboxes)
		return err_say(err, EDQUOT, "there are %zu sandboxes, the most allowed",
			       eng->count);
	return 0;
}

int quota_command(const struct sandbox *sb, struct err *err)
{
	const struct engine *eng = sb->engine;

	if (eng->exec_live >= eng->limits.user_commands &&
	    sum_of(eng, sb->uid).commands >= eng->limits.user_commands)
		return err_say(err, EDQUOT,
			       "%u commands run in the sandboxes of user %u, the most allowed",
			       eng->limits.user_commands, sb->uid);
	if (eng->exec_live >= eng->limits.all_commands)
		return err_say(err, EDQUOT, "%zu commands run, the most allowed", eng->exec_live);
	return 0;
}

int quota_node(const struct sandbox *sb, struct err *err)
{
	const struct engine *eng = sb->engine;

	if (sb->exec_count >= EXEC_NODES_MAX)
		return err_say(err, EDQUOT, "'%s' has %d commands: rmdir some that are over",
			       sb->id, EXEC_NODES_MAX);
	if (eng->exec_count >= eng->limits.user_nodes &&
	    sum_of(eng, sb->uid).nodes >= eng->limits.user_nodes)
		return err_say(err, EDQUOT,
			       "the sandboxes of user %u have %u commands, the most allowed: "
			       "rmdir some that are over",
			       sb->uid, eng->limits.user_nodes);
	if (eng->exec_count >= eng->limits.all_nodes)
		return err_say(err, EDQUOT, "there are %zu commands, the most allowed",
			       eng->exec_count);
	return 0;
}

int quota_request(const struct sandbox *sb, size_t bytes, struct err *err)
{
	const struct engine *eng = sb->engine;

	if (eng->request_bytes + bytes > USER_REQUESTS_MAX &&
	    sum_of(eng, sb->uid).request_bytes + bytes > USER_REQUESTS_MAX)
		return err_say(err, EDQUOT,
			       "the commands of user %u are %zu MiB long, the most allowed: "
			       "rmdir some that are over",
			       sb->uid, USER_REQUESTS_MAX >> 20);
	if (eng->request_bytes + bytes > ALL_REQUESTS_MAX)
		return err_say(err, EDQUOT, "all commands are %zu MiB long, the most allowed",
			       ALL_REQUESTS_MAX >> 20);
	return 0;
}

void quota_recount(struct exec *ex)
{
	size_t bytes = exec_request_size(&ex->request);

	if (ex->base)
		bytes += exec_request_size(ex->base);
	ex->sandbox->request_bytes += bytes - ex->request_bytes;
	ex->sandbox->engine->request_bytes += bytes - ex->request_bytes;
	ex->request_bytes = bytes;
}

void quota_finished(struct exec *ex, bool counts)
{
	struct sandbox *sb = ex->sandbox;

	if (ex->request.id)
		return;
	sb->exec_finished += counts ? 1 : (size_t)-1;
	sb->finished_bytes += counts ? ex->request_bytes : -ex->request_bytes;
}

bool quota_keeps_too_much(const struct sandbox *sb)
{
	return sb->exec_finished > sb->keep || sb->finished_bytes > FINISHED_REQUESTS_MAX;
}

int exec_check_room(const struct sandbox *sb, bool node, struct err *err)
{
	int r = disk_fault(sb->engine->disk, err);

	if (r == 0 && node)
		r = quota_node(sb, err);
	if (r == 0) /* how long it will be is not known yet */
		r = quota_request(sb, REQUEST_MAX, err);
	return r < 0 ? r : quota_command(sb, err);
}

void engine_stats(const struct engine *eng, struct engine_stats *ret)
{
	const struct sandbox *sb;

	*ret = (struct engine_stats){
		.commands_live = eng->exec_live,
		.nodes = eng->exec_count,
		.events = eng->event_seq,
		.cgroup = cgroup_kind_name(eng->groups.kind),
	};
	list_for_each (sb, &eng->sandboxes, link) {
		ret->sandboxes[sb->state]++;
		ret->commands_finished += sb->exec_finished + sb->ids_count;
		ret->holds += sb->holds;
	}
}
