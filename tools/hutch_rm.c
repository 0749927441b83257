/* hutch_rm.c - hutch rm: removes sandboxes and commands */
#include "tools/hutch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

struct rm_options {
	struct hutch_common common; /* first */
	bool force;
};

OPTION_FLAG(take_force, struct rm_options, force)

static const struct option_def rm_defs[] = {
	{ "force", 'f', NULL, take_force,
	  "also what still runs, and no error if there is nothing" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_rm_options = { "hutch rm", rm_defs, ARRAY_SIZE(rm_defs), false };

static bool runs(int box_fd, const char *name)
{
	char path[sizeof("exec//status") + NAME_MAX_LEN], status[512];

	(void)snprintf(path, sizeof(path), "exec/%s/status", name);
	return hutch_read_text(box_fd, path, status, sizeof(status)) == 0 &&
	       strncmp(status, "running", 7) == 0;
}

static int refuse_live(const struct hutch_target *t, const char *word, struct err *err)
{
	struct hutch_names names = { 0 };
	size_t n = 0;

	if (*t->exec)
		return !runs(t->box_fd, t->exec)
			       ? 0
			       : err_say(err, EBUSY,
					 "'%s': it runs; -f ends and removes it, 'hutch kill %s' "
					 "ends it and keeps what it wrote",
					 word, word);
	if (hutch_names_execs(t->box_fd, &names) == 0)
		for (size_t i = 0; i < names.n; i++)
			n += runs(t->box_fd, names.v[i]);
	hutch_names_done(&names);
	return n == 0 ? 0
		      : err_say(err, EBUSY,
				"sandbox '%s': %zu command%s still run%s in it (see 'hutch ps -l "
				"%s'); "
				"-f removes it with all that runs",
				word, n, n == 1 ? "" : "s", n == 1 ? "s" : "", word);
}

static int rm_one(const struct hutch_root *root, const char *word, const void *opt, struct err *err)
{
	bool force = ((const struct rm_options *)opt)->force;
	struct hutch_target t;
	char what[sizeof("remove ''") + 2 * NAME_MAX_LEN + 1];
	int r = hutch_target_open(root, word, &t, err);

	if (r < 0)
		return r == -ENOENT && force ? 0 : r;
	if (!force)
		r = refuse_live(&t, word, err);
	(void)snprintf(what, sizeof(what), "remove '%s'", word);
	if (r == 0 &&
	    (*t.exec ? unlinkat(t.box_fd, t.path, AT_REMOVEDIR)
		     : unlinkat(root->fd, t.box, AT_REMOVEDIR)) < 0 &&
	    errno != ENOENT && errno != ESTALE) /* somebody else was faster */
		r = hutch_refused(root, errno, what, err);
	hutch_target_done(&t);
	return r;
}

int hutch_rm(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct rm_options opt = { 0 };
	int at = hutch_options(cmd, argc, argv, &opt, err);

	return at <= 0 ? at : hutch_each(cmd, argv + at, rm_one, &opt, err);
}
