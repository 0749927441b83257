/* ctl_file.c - the two ctl files: verbs as a table, one per line
 *
 * A write is checked as a whole before its first verb runs, and becomes a job.
 * A job's verbs run in order, each when the one before has had its effect; jobs
 * of one sandbox or command run one after the other.  The writer waits for its
 * job, but no longer than 100 ms: then the job goes on behind, and what fails
 * there is told in `error`.
 *
 * A job is held by the tree until it is done, and by the request that waits.
 */
#include "fs/ctl_file.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/text.h"
#include "base/watch.h"
#include "fs/ctl_line.h"
#include "fs/tree.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

#define JOB_TEXT_MAX 4096 /* bytes of one write */
#define JOBS_MAX     64   /* that wait for one sandbox or command */

enum verb_arg {
	ARG_NONE,
	ARG_WORD, /* white space around it does not count */
	ARG_REST, /* the rest of the line as it is */
};

struct verb {
	const char *name;
	enum verb_arg arg;
	/* Is the argument fit? NULL: anything is. */
	int (*check)(const char *arg, struct err *);
	int (*run)(const struct node_ref *, const char *arg, struct err *);
	/* Has its effect not come about yet? NULL: it has when run() returns. */
	bool (*busy)(const struct node_ref *);
};

struct verb_table {
	const struct verb *verb;
	size_t n;
	const char *known; /* for the sentence */
};

struct ctl_job {
	struct list link; /* tree.ctl_jobs, in the order of writing */
	unsigned refs;
	bool done, waited; /* waited: a request will tell its writer what fails */
	struct tree *tree;
	const struct verb_table *verbs;
	struct node_ref ref; /* holds references */
	uid_t uid;
	char *text, *next;          /* owned; the lines that have not run */
	const struct verb *running; /* whose effect is awaited */
	struct err err;             /* of the verb that failed */
	struct watch changed;
	struct list finished; /* watches of the request that waits */
};

/* Verbs of a sandbox */

static int verb_stop(const struct node_ref *ref, const char *arg, struct err *err)
{
	(void)arg;
	return sandbox_stop(ref->sandbox, err);
}

static int verb_start(const struct node_ref *ref, const char *arg, struct err *err)
{
	(void)arg;
	return sandbox_start(ref->sandbox, err);
}

static int verb_kill(const struct node_ref *ref, const char *arg, struct err *err)
{
	(void)arg;
	return sandbox_kill(ref->sandbox, err);
}

static bool sandbox_is_busy(const struct node_ref *ref)
{
	return !ref->sandbox->removed && sandbox_busy(ref->sandbox);
}

static const struct verb sandbox_verbs[] = {
	{ "stop", ARG_NONE, NULL, verb_stop, sandbox_is_busy },
	{ "start", ARG_NONE, NULL, verb_start, sandbox_is_busy },
	{ "kill", ARG_NONE, NULL, verb_kill, sandbox_is_busy },
};
static const struct verb_table sandbox_table = { sandbox_verbs, ARRAY_SIZE(sandbox_verbs),
						 "stop, start, kill" };

/* Verbs of a command */

static int verb_exec_kill(const struct node_ref *ref, const char *arg, struct err *err)
{
	(void)arg;
	return exec_kill(ref->exec, err);
}

static bool exec_is_busy(const struct node_ref *ref)
{
	return ref->exec->state != EXEC_DONE && !ref->exec->unwritten;
}

static int check_signal(const char *arg, struct err *err)
{
	if (signal_number(arg) < 0)
		return err_say(err, EINVAL, "signal '%s': no such signal", arg);
	return 0;
}

static int verb_signal(const struct node_ref *ref, const char *arg, struct err *err)
{
	return exec_signal(ref->exec, signal_number(arg), err);
}

static int verb_close_stdin(const struct node_ref *ref, const char *arg, struct err *err)
{
	(void)arg;
	return exec_end_stdin(ref->exec, err);
}

/* ROWS COLS; zeroes of what is not that. */
static void parse_size(const char *arg, uint16_t size[2])
{
	unsigned long n[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		size_t len = strspn(arg, "0123456789");

		n[i] = len && len <= 5 ? strtoul(arg, NULL, 10) : 0;
		arg += len;
		if (i == 0)
			arg += strspn(arg, " \t");
	}
	size[0] = size[1] = 0;
	if (*arg || n[0] > PTY_SIZE_MAX || n[1] > PTY_SIZE_MAX)
		return;
	size[0] = (uint16_t)n[0];
	size[1] = (uint16_t)n[1];
}

static int check_winsize(const char *arg, struct err *err)
{
	uint16_t size[2];

	parse_size(arg, size);
	if (!size[0] || !size[1])
		return err_say(err, EINVAL, "winsize: must be ROWS COLS, each 1 to %d",
			       PTY_SIZE_MAX);
	return 0;
}

static int verb_winsize(const struct node_ref *ref, const char *arg, struct err *err)
{
	uint16_t size[2];

	parse_size(arg, size);
	return exec_winsize(ref->exec, size[0], size[1], err);
}

/* KEY, one blank, and VALUE, which may be empty. */
static int set(struct exec_request *scratch, struct exec *x, const char *arg, struct err *err)
{
	size_t len = strcspn(arg, " \t");
	auto_free char *key = strndup(arg, len);

	if (!key)
		return err_set(err, ENOMEM, "set");
	if (!arg[len])
		return err_say(err, EINVAL, "set %.64s: a value is missing", key);
	return scratch ? exec_request_set(scratch, key, arg + len + 1, err)
		       : exec_set(x, key, arg + len + 1, err);
}

static int check_set(const char *arg, struct err *err)
{
	struct exec_request scratch = { 0 };
	int r = set(&scratch, NULL, arg, err);

	exec_request_done(&scratch);
	return r;
}

static int verb_set(const struct node_ref *ref, const char *arg, struct err *err)
{
	return set(NULL, ref->exec, arg, err);
}

static const struct verb exec_verbs[] = {
	{ "kill", ARG_NONE, NULL, verb_exec_kill, exec_is_busy },
	{ "signal", ARG_WORD, check_signal, verb_signal, NULL },
	{ "close-stdin", ARG_NONE, NULL, verb_close_stdin, NULL },
	{ "winsize", ARG_WORD, check_winsize, verb_winsize, NULL },
	{ "set", ARG_REST, check_set, verb_set, NULL },
};
static const struct verb_table exec_table = { exec_verbs, ARRAY_SIZE(exec_verbs),
					      "kill, signal NAME, close-stdin, winsize ROWS COLS, "
					      "set KEY VALUE" };

/* Lines */

static const struct verb *find_verb(const struct verb_table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->verb[i].name, name) == 0)
			return &t->verb[i];
	return NULL;
}

/* Finds the verb and cuts its argument off. */
static const struct verb *parse(const struct verb_table *t, char *line, char **ret_arg,
				struct err *err)
{
	char *arg = ctl_cut_argument(line);
	const struct verb *v;

	*ret_arg = arg;
	v = find_verb(t, line);
	if (!v) {
		(void)err_say(err, EINVAL, "no verb '%.64s'; there are: %s", line, t->known);
		return NULL;
	}
	if (v->arg != ARG_REST)
		ctl_trim_end(arg);
	if ((v->arg != ARG_NONE) != (*arg != '\0')) {
		(void)err_say(err, EINVAL, "%s: %s", line,
			      v->arg == ARG_NONE ? "takes no argument" : "an argument is missing");
		return NULL;
	}
	return v->check && v->check(arg, err) < 0 ? NULL : v;
}

static int check_lines(const struct verb_table *t, const char *bytes, size_t len, struct err *err)
{
	auto_free char *text = strndup(bytes, len);
	char *rest = text, *line, *arg;
	struct err why = { 0 };

	if (!text)
		return err_set(err, ENOMEM, "ctl");
	while ((line = ctl_next_line(&rest)))
		if (!parse(t, line, &arg, &why)) {
			if (err)
				*err = why;
			return -why.code;
		}
	return 0;
}

/* Jobs */

static void job_unref(struct ctl_job *job)
{
	if (--job->refs)
		return;
	watch_cancel(&job->changed);
	exec_unref(job->ref.exec);
	sandbox_unref(job->ref.sandbox);
	free(job->text);
	free(job);
}

static bool same_target(const struct ctl_job *a, const struct ctl_job *b)
{
	return a->ref.sandbox == b->ref.sandbox && a->ref.exec == b->ref.exec;
}

static struct list *changed_list(const struct ctl_job *job)
{
	return job->ref.exec ? &job->ref.exec->changed : &job->ref.sandbox->changed;
}

/* True when nothing is left to do. */
static bool job_step(struct ctl_job *job)
{
	char *line, *arg;

	if (job->running && job->running->busy && job->running->busy(&job->ref)) {
		watch_add(changed_list(job), &job->changed);
		return false;
	}
	while ((line = ctl_next_line(&job->next))) {
		job->running = parse(job->verbs, line, &arg, &job->err);
		if (!job->running || job->running->run(&job->ref, arg, &job->err) < 0)
			return true;
		if (job->running->busy && job->running->busy(&job->ref)) {
			watch_add(changed_list(job), &job->changed);
			return false;
		}
	}
	return true;
}

static struct ctl_job *first_of(struct tree *tree, const struct ctl_job *like)
{
	struct ctl_job *job;

	list_for_each (job, &tree->ctl_jobs, link)
		if (same_target(job, like))
			return job;
	return NULL;
}

static void job_finish(struct ctl_job *job)
{
	job->done = true;
	list_del(&job->link);
	if (job->err.code && !job->waited)
		tree_refuse(job->tree, job->uid, &job->ref, NULL, &job->err);
	watch_fire_all(&job->finished);
}

/* Runs the first job of this target, and those behind it, until one has to wait. */
static void jobs_run(struct ctl_job *like)
{
	struct ctl_job *job;

	like->refs++;
	while ((job = first_of(like->tree, like)) && job_step(job)) {
		job_finish(job);
		job_unref(job); /* the tree's */
	}
	job_unref(like);
}

static void on_changed(struct watch *w)
{
	jobs_run(container_of(w, struct ctl_job, changed));
}

static int job_new(struct node_io *io, const struct verb_table *t, struct ctl_job **ret)
{
	struct handle *h = io->handle;
	struct ctl_job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->text = strndup(io->bytes, io->len);
	if (!job->text) {
		free(job);
		return -ENOMEM;
	}
	job->next = job->text;
	job->tree = h->tree;
	job->verbs = t;
	job->uid = h->uid;
	job->ref.id = h->ref.id;
	job->ref.sandbox = sandbox_ref(h->ref.sandbox);
	job->ref.exec = h->ref.exec ? exec_ref(h->ref.exec) : NULL;
	job->refs = 2; /* the tree's and the request's */
	job->waited = true;
	watch_init(&job->changed, on_changed);
	list_init(&job->finished);
	list_add_tail(&h->tree->ctl_jobs, &job->link);
	*ret = job;
	return 0;
}

static void drop_job(struct node_io *io)
{
	struct ctl_job *job = io->state;

	job->waited = false;
	io->state = NULL;
	job_unref(job);
}

static int begin(struct node_io *io, const struct verb_table *t, struct err *err)
{
	struct ctl_job *job, *other;
	size_t waiting = 0;
	int r;

	if (io->len > JOB_TEXT_MAX)
		return err_say(err, E2BIG, "one write of verbs may have %d bytes", JOB_TEXT_MAX);
	if (memchr(io->bytes, '\0', io->len))
		return err_say(err, EINVAL, "a NUL is in no verb");
	r = check_lines(t, io->bytes, io->len, err);
	if (r < 0)
		return r;
	r = job_new(io, t, &job);
	if (r < 0)
		return err_set(err, -r, "ctl");
	list_for_each (other, &io->handle->tree->ctl_jobs, link)
		waiting += same_target(job, other);
	io->state = job;
	io->drop = drop_job;
	if (waiting > JOBS_MAX) {
		list_del(&job->link);
		job_unref(job); /* what would have been the tree's; the request's goes in drop */
		return err_say(err, EBUSY, "%d writes of verbs are waiting here already", JOBS_MAX);
	}
	io->deadline = ev_now() + TREE_WAIT_NS;
	jobs_run(job);
	return 0;
}

static ssize_t write_verbs(struct node_io *io, const struct verb_table *t, struct err *err)
{
	struct ctl_job *job;

	if (!io->state) {
		int r = begin(io, t, err);

		if (r < 0)
			return r;
	}
	job = io->state;
	if (job->done && job->err.code) {
		if (err)
			*err = job->err;
		return -job->err.code;
	}
	io->done = io->len; /* an interrupted writer hears that all was accepted, which it was */
	if (job->done || io->expired)
		return (ssize_t)io->len;
	io->wait = &job->finished;
	return -EAGAIN;
}

static ssize_t ctl_write(struct node_io *io, struct err *err)
{
	return write_verbs(io, &sandbox_table, err);
}

static ssize_t exec_ctl_write(struct node_io *io, struct err *err)
{
	return write_verbs(io, &exec_table, err);
}

static uint32_t ctl_ready(struct handle *h, struct list **ret_wait)
{
	(void)h;
	(void)ret_wait;
	return POLLOUT | POLLWRNORM;
}

const struct node_ops ctl_ops = { .write = ctl_write, .ready = ctl_ready };
const struct node_ops exec_ctl_ops = { .write = exec_ctl_write, .ready = ctl_ready };

void ctl_done(struct tree *tree)
{
	while (!list_empty(&tree->ctl_jobs)) {
		struct ctl_job *job = list_first(&tree->ctl_jobs, struct ctl_job, link);

		list_del(&job->link);
		job_unref(job);
	}
}
