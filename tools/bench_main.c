/* bench_main.c - `make bench`: the rows, their turns, the table
 *
 * Every row is tried once before; one that cannot run here is left out, with the
 * reason.  Then twice: hot, in short blocks that take turns, and in another order each
 * round, with a pause of 40 ms before each single command, which is what a person or a
 * slow client sees: clocks have gone down and caches cold.  The figures are never a test: the exit
 * status is 0 whatever they are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "tools/bench.h"
#include "tools/options.h"

#define PAUSE_MS 40
#define GIB      (1ULL << 30)

enum row_id {
	ROW_SPAWN,
	ROW_EXEC_LAST,
	ROW_EXEC_HANDLE,
	ROW_EXEC_V1,
	ROW_BWRAP,
	ROW_RUNC_RUN,
	ROW_RUNC_EXEC,
	ROW_CRUN_RUN,
	ROW_BOX_RESULT,
	ROW_BOX,
	ROW_COUNT,
};

enum mode { MODE_HOT, MODE_PAUSED, MODE_COUNT };

struct row {
	const char *name;
	const char *rival[16]; /* argv, see bench_rival() */
	/* Through the tree instead. */
	int (*exec)(const struct bench *, const char *box, const char *request, struct err *);
	bool v1;        /* in the tree whose groups are of cgroup v1 */
	bool box;       /* a whole sandbox; ROW_BOX_RESULT is measured with it */
	unsigned block; /* how many in a row when hot; 0: measured by another row */
};

#define TRUE_INSIDE "{\"cmd\":[\"/root/true\"]}"

static const struct row rows[] = {
	[ROW_SPAWN] = { "posix_spawn, drain, wait", { "@true" }, .block = 25 },
	[ROW_EXEC_LAST] = { "exec/new, exec/last/result.json", .exec = bench_exec_last,
			    .block = 25 },
	[ROW_EXEC_HANDLE] = { "exec/new <>, exec/N/result.json", .exec = bench_exec_handle,
			      .block = 25 },
	[ROW_EXEC_V1] = { "the same, groups of cgroup v1", .exec = bench_exec_handle, .v1 = true,
			  .block = 25 },
	[ROW_BWRAP] = { "bwrap --unshare-all",
			{ "bwrap", "--unshare-all", "--ro-bind", "/", "/", "/bin/true" },
			.block = 5 },
	[ROW_RUNC_RUN] = { "runc run",
			   { "runc", "run", "--bundle", "@bundle", "@id" },
			   .block = 3 },
	[ROW_RUNC_EXEC] = { "runc exec", { "runc", "exec", "@container", "/true" }, .block = 3 },
	[ROW_CRUN_RUN] = { "crun run",
			   { "crun", "run", "--bundle", "@bundle", "@id" },
			   .block = 3 },
	[ROW_BOX_RESULT] = { "mkdir to first result" },
	[ROW_BOX] = { "mkdir to rmdir", .box = true, .block = 5 },
};
_Static_assert(ARRAY_SIZE(rows) == ROW_COUNT, "rows[] and enum row_id differ");

struct app {
	struct bench bench;
	bool help, streams;
	struct samples samples[MODE_COUNT][ROW_COUNT];
	char missing[ROW_COUNT][200]; /* why a row is left out; "": it is not */
};

/* ---- options ---- */

#define TAKE(field)                                                            \
	static int take_##field(void *obj, const char *value, struct err *err) \
	{                                                                      \
		struct app *app = obj;                                         \
                                                                               \
		(void)err;                                                     \
		app->bench.field = value;                                      \
		return 0;                                                      \
	}
TAKE(tree)
TAKE(box)
TAKE(true_path)
TAKE(bundle)
TAKE(container)
TAKE(box_v1)
TAKE(pid)
TAKE(bare)
TAKE(bare_fifo)
TAKE(bare_pid)
TAKE(park)

static int take_quick(void *obj, const char *value, struct err *err)
{
	struct app *app = obj;

	(void)value;
	(void)err;
	app->bench.quick = true;
	return 0;
}

static int take_streams(void *obj, const char *value, struct err *err)
{
	struct app *app = obj;

	(void)value;
	(void)err;
	app->streams = true;
	return 0;
}

static int take_help(void *obj, const char *value, struct err *err)
{
	struct app *app = obj;

	(void)value;
	(void)err;
	app->help = true;
	return 0;
}

static const struct option_def defs[] = {
	{ "tree", 0, "DIR", take_tree, "where hutchd is mounted" },
	{ "box", 0, "DIR", take_box, "a directory in it that does not exist yet" },
	{ "true", 0, "FILE", take_true_path, "bench_true" },
	{ "bundle", 0, "DIR", take_bundle, "an OCI bundle with bench_true as /true" },
	{ "container", 0, "NAME", take_container, "a container of it that waits, for runc exec" },
	{ "box-v1", 0, "DIR", take_box_v1, "the same in a tree that uses cgroup v1" },
	{ "pid", 0, "PID", take_pid, "the process of the hutchd of the first tree" },
	{ "bare", 0, "DIR", take_bare, "where bench_bare is mounted" },
	{ "bare-fifo", 0, "FILE", take_bare_fifo, "what it has as its standard input" },
	{ "bare-pid", 0, "PID", take_bare_pid, "the process of bench_bare" },
	{ "park", 0, "FILE", take_park, "the program with many readers" },
	{ "quick", 'q', NULL, take_quick, "fewer iterations" },
	{ "streams", 's', NULL, take_streams, "only what is about streams and reads" },
	{ "help", 'h', NULL, take_help, "show this help" },
};
static const struct option_set options = { "bench", defs, ARRAY_SIZE(defs), false };

/* ---- measuring ---- */

static int once(struct app *app, enum row_id id, enum mode mode, struct err *err)
{
	const struct row *row = &rows[id];
	struct bench *bench = &app->bench;
	int64_t start = bench_now(), to_result = 0;
	int r;

	if (row->box)
		r = bench_box(bench, &to_result, err);
	else if (row->exec)
		r = row->exec(bench, row->v1 ? bench->box_v1 : bench->box, TRUE_INSIDE, err);
	else
		r = bench_rival(bench, row->rival, NULL, 0, err);
	if (r < 0)
		return err_wrap(err, r, "%s", row->name);
	samples_add(&app->samples[mode][id], (double)(bench_now() - start));
	if (row->box)
		samples_add(&app->samples[mode][ROW_BOX_RESULT], (double)to_result);
	return 0;
}

/* Rivals may be missing; what goes through the tree may not. */
static void try_rivals(struct app *app)
{
	if (!app->bench.box_v1)
		(void)snprintf(app->missing[ROW_EXEC_V1], sizeof(app->missing[0]),
			       "no cgroup v1 that hutchd may use");
	for (int id = 0; id < ROW_COUNT; id++) {
		char note[160] = "";
		struct err err = { 0 };

		if (!rows[id].rival[0] ||
		    bench_rival(&app->bench, rows[id].rival, note, sizeof(note), &err) == 0)
			continue;
		(void)snprintf(app->missing[id], sizeof(app->missing[id]), "%.*s", 180,
			       *note ? note : err.msg);
	}
}

static bool measured(const struct app *app, enum row_id id)
{
	return rows[id].block > 0 && !*app->missing[id];
}

static int measure_hot(struct app *app, struct err *err)
{
	unsigned rounds = app->bench.quick ? 4 : 20;

	for (unsigned round = 0; round < rounds; round++)
		for (int id = 0; id < ROW_COUNT; id++)
			for (unsigned i = 0; measured(app, id) && i < rows[id].block; i++) {
				int r = once(app, id, MODE_HOT, err);

				if (r < 0)
					return r;
			}
	return 0;
}

static void shuffle(enum row_id order[ROW_COUNT])
{
	for (int left = ROW_COUNT; left > 1; left--) {
		long pick = random() % left;
		enum row_id last = order[left - 1];

		order[left - 1] = order[pick];
		order[pick] = last;
	}
}

/* What was done before a row costs it something: after a mkdir the kernel asks for the attributes of
 * the directory once more.  So each comes after each. */
static int measure_paused(struct app *app, struct err *err)
{
	unsigned rounds = app->bench.quick ? 15 : 100;
	enum row_id order[ROW_COUNT];

	for (int id = 0; id < ROW_COUNT; id++)
		order[id] = (enum row_id)id;
	for (unsigned round = 0; round < rounds; round++) {
		shuffle(order);
		for (int i = 0; i < ROW_COUNT; i++) {
			int r;

			if (!measured(app, order[i]))
				continue;
			bench_pause_ms(PAUSE_MS);
			r = once(app, order[i], MODE_PAUSED, err);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* ---- the table ---- */

static double ratio(struct app *app, enum mode mode, enum row_id id, enum row_id to)
{
	return samples_quantile(&app->samples[mode][id], 0.5) /
	       samples_quantile(&app->samples[mode][to], 0.5);
}

static void print_table(struct app *app)
{
	printf("\n%-33s %27s   %27s\n%-33s", "", "hot, ms", "after 40 ms of rest, ms", "");
	for (int mode = 0; mode < MODE_COUNT; mode++)
		printf(" %9s%9s%9s  ", "median", "p99", "ratio");
	putchar('\n');
	for (int id = 0; id < ROW_COUNT; id++) {
		printf("%-33s", rows[id].name);
		for (int mode = 0; !*app->missing[id] && mode < MODE_COUNT; mode++) {
			struct samples *s = &app->samples[mode][id];

			printf(" %9.3f%9.3f%9.2f  ", samples_quantile(s, 0.5) / 1e6,
			       samples_quantile(s, 0.99) / 1e6, ratio(app, mode, id, ROW_SPAWN));
		}
		printf("%s%s\n", *app->missing[id] ? "  not here: " : "", app->missing[id]);
	}
	putchar('\n');
}

/* What a command through the files may cost at the median, as a multiple of the floor; and at its
 * 99th percentile, as a multiple of its median. */
#define EXEC_MAX 1.6
#define TAIL_MAX 4.0

static void print_exec_aims(struct app *app, enum row_id id, enum mode mode, const char *how)
{
	struct samples *s = &app->samples[mode][id];
	char what[80];

	(void)snprintf(what, sizeof(what), "%s / posix_spawn, %s", rows[id].name, how);
	print_aim(what, true, EXEC_MAX, ratio(app, mode, id, ROW_SPAWN));
	(void)snprintf(what, sizeof(what), "%s, p99 / median, %s", rows[id].name, how);
	print_aim(what, true, TAIL_MAX, samples_quantile(s, 0.99) / samples_quantile(s, 0.5));
}

static void print_aims(struct app *app)
{
	static const char *const how[] = { "hot", "rested" };
	char what[80];

	for (int id = ROW_EXEC_LAST; id <= ROW_EXEC_V1; id++)
		for (int mode = 0; mode < MODE_COUNT && !*app->missing[id]; mode++)
			print_exec_aims(app, (enum row_id)id, (enum mode)mode, how[mode]);
	for (int mode = 0; mode < MODE_COUNT; mode++) {
		(void)snprintf(what, sizeof(what), "mkdir to first result / bwrap's whole run, %s",
			       how[mode]);
		print_aim(what, true, 1.0, ratio(app, mode, ROW_BOX_RESULT, ROW_BWRAP));
	}
	/* The same tail without hutch says what of it is the machine's. */
	for (int mode = 0; mode < MODE_COUNT; mode++) {
		struct samples *s = &app->samples[mode][ROW_SPAWN];

		printf("note: posix_spawn, p99 / median, %s: %.3g\n", how[mode],
		       samples_quantile(s, 0.99) / samples_quantile(s, 0.5));
	}
}

/* ---- much output ---- */

enum { STREAM_APART, STREAM_PIPE, STREAM_NODE, STREAM_COUNT };

static int stream_once(const struct bench *bench, int which, double *rate, struct err *err)
{
	if (which == STREAM_NODE)
		return bench_node_rate(bench, GIB, rate, err);
	return bench_pipe_rate(bench, GIB, which == STREAM_APART, rate, err);
}

/* The plain pipe twice: left alone, the scheduler mostly puts both ends on one core, where the
 * bytes never leave its cache, or does not; only with the ends apart is it a steady measure. */
static int measure_streams(struct app *app, struct err *err)
{
	static const char *const name[] = { "a pipe of 64 KiB, between two cores",
					    "a pipe of 64 KiB, as it comes", "the node stdout" };
	struct samples rates[STREAM_COUNT] = { 0 };
	double median[STREAM_COUNT];
	unsigned rounds = app->bench.quick ? 1 : 7;
	int r = 0;

	for (unsigned i = 0; i < rounds && r == 0; i++)
		for (int s = 0; s < STREAM_COUNT && r == 0; s++) {
			double rate = 0;

			r = stream_once(&app->bench, s, &rate, err);
			samples_add(&rates[s], rate / 1e9);
		}
	for (int s = 0; s < STREAM_COUNT; s++) {
		median[s] = samples_quantile(&rates[s], 0.5);
		if (r == 0)
			printf("1 GiB of output through %-36s %.2f GB/s (%.2f to %.2f)\n", name[s],
			       median[s], samples_quantile(&rates[s], 0),
			       samples_quantile(&rates[s], 1));
		samples_done(&rates[s]);
	}
	if (r == 0) {
		print_aim("stdout / a pipe between two cores", false, 1,
			  median[STREAM_NODE] / median[STREAM_APART]);
		printf("note: stdout / a pipe as it comes is %.2f\n",
		       median[STREAM_NODE] / median[STREAM_PIPE]);
	}
	return r;
}

static int measure_answers(struct app *app, struct err *err)
{
	struct samples status = { 0 }, lookup = { 0 };
	int r = bench_flood(&app->bench, app->bench.quick ? GIB : 3 * GIB, &status, &lookup, err);

	if (r == 0) {
		printf("\nwhile a command floods, ms: status median %.2f, p99 %.2f; lookup median "
		       "%.2f, p99 %.2f (%zu of each)\n",
		       samples_quantile(&status, 0.5) / 1e6, samples_quantile(&status, 0.99) / 1e6,
		       samples_quantile(&lookup, 0.5) / 1e6, samples_quantile(&lookup, 0.99) / 1e6,
		       status.n);
		print_aim("status while a command floods, p99, ms", true, 100,
			  samples_quantile(&status, 0.99) / 1e6);
		print_aim("a lookup then, p99, ms", true, 100,
			  samples_quantile(&lookup, 0.99) / 1e6);
	}
	samples_done(&status);
	samples_done(&lookup);
	return r;
}

/* ---- what it holds, what ending takes ---- */

static int measure_costs(struct app *app, struct err *err)
{
	struct bench_cost cost = { 0 };
	int r = bench_cost(&app->bench, &cost, err);

	if (r < 0)
		return r;
	printf("\nhutchd holds, KiB of memory and descriptors: for a sandbox %.1f and %.2f, for a "
	       "live "
	       "command %.1f and %.2f, for a finished one %.1f and %.2f\n",
	       cost.box_kib, cost.box_fds, cost.live_kib, cost.live_fds, cost.finished_kib,
	       cost.finished_fds);
	print_aim("descriptors for a sandbox", true, 3, cost.box_fds);
	print_aim("descriptors for a live command", true, 7, cost.live_fds);
	print_aim("descriptors for a finished one", true, 0.01, cost.finished_fds);
	return 0;
}

static int measure_ends(struct app *app, struct err *err)
{
	struct samples group = { 0 }, box = { 0 };
	unsigned rounds = app->bench.quick ? 5 : 20;
	int r = 0;

	for (unsigned i = 0; i < rounds && r == 0; i++) {
		r = bench_end_group(&app->bench, &group, err);
		if (r == 0)
			r = bench_end_box(&app->bench, &box, err);
	}
	if (r == 0)
		printf("\nthe end of 100 processes, ms: a process group by kill and wait, median "
		       "%.2f, p99 "
		       "%.2f; a sandbox by rmdir %.2f, %.2f\n",
		       samples_quantile(&group, 0.5) / 1e6, samples_quantile(&group, 0.99) / 1e6,
		       samples_quantile(&box, 0.5) / 1e6, samples_quantile(&box, 0.99) / 1e6);
	samples_done(&group);
	samples_done(&box);
	return r;
}

static void print_head(void)
{
	struct utsname un;
	double load = 0;

	(void)uname(&un);
	(void)getloadavg(&load, 1);
	printf("hutch on %ld cores, Linux %s, load average %.2f%s\n", sysconf(_SC_NPROCESSORS_ONLN),
	       un.release, load,
	       load > 0.5 ? ": others are at work, so these figures are not worth much" : "");
}

static int measure_commands(struct app *app, struct err *err)
{
	int r = measure_costs(app, err); /* while the daemon is new */

	try_rivals(app);
	if (r == 0)
		r = measure_hot(app, err);
	if (r == 0)
		r = measure_paused(app, err);
	if (r < 0)
		return r;
	print_table(app);
	print_aims(app);
	r = measure_ends(app, err);
	putchar('\n');
	return r;
}

static int measure(struct app *app, struct err *err)
{
	const struct bench *bench = &app->bench;
	int r = bench_prepare(bench, bench->box, err);

	if (r == 0 && bench->box_v1)
		r = bench_prepare(bench, bench->box_v1, err);
	if (r < 0)
		return r;
	print_head();
	if (!app->streams)
		r = measure_commands(app, err);
	if (r == 0)
		r = measure_streams(app, err);
	if (r == 0)
		r = measure_answers(app, err);
	if (r == 0)
		r = bench_show_reads(&app->bench, err);
	if (r == 0 && bench->box_v1)
		r = bench_remove(bench->box_v1, err);
	return r < 0 ? r : bench_remove(bench->box, err);
}

int main(int argc, char **argv)
{
	static struct app app;
	struct err err = { 0 };
	int r = options_parse(&options, argc, argv, &app, &err);

	(void)setvbuf(stdout, NULL, _IOLBF, 0); /* cut off, it has shown what it had */
	app.bench.core = -1;
	if (app.help) {
		options_help(&options, stdout);
		return 0;
	}
	if (r >= 0 && (!app.bench.tree || !app.bench.box || !app.bench.true_path || !app.bench.pid))
		r = err_say(&err, EINVAL, "this program is started by tools/bench");
	if (r >= 0)
		r = measure(&app, &err);
	if (r < 0)
		(void)fprintf(stderr, "bench: %s\n", err.msg);
	for (int mode = 0; mode < MODE_COUNT; mode++)
		for (int id = 0; id < ROW_COUNT; id++)
			samples_done(&app.samples[mode][id]);
	return r < 0;
}
