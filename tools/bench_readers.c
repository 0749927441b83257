/* bench_readers.c - what is said of reads, from bench_read.c, bench_latency.c, bench_park.c, and the aims of it */
#include <stdio.h>

#include "base/auto.h"
#include "tools/bench.h"

#define GIB (1ULL << 30)

static void print_times(const char *what, struct samples *s)
{
	printf("%-58s median %.1f, p99 %.1f\n", what, samples_quantile(s, 0.5) / 1e3,
	       samples_quantile(s, 0.99) / 1e3);
}

static double ratio(struct samples *of, struct samples *to)
{
	return samples_quantile(of, 0.5) / samples_quantile(to, 0.5);
}

static void print_ways(const char *where, struct samples way[WAY_COUNT])
{
	static const char *const through[WAY_COUNT] = {
		[WAY_NODE] = "from a command's write to a waiting reader, stdout, us:",
		[WAY_PIPE] = "the same through a pipe:",
		[WAY_CAT] = "the same through cat between two pipes:",
		[WAY_BARE] = "the same through a bare loop of libfuse, from a pipe:",
	};
	char what[80];

	for (int i = 0; i < WAY_COUNT; i++)
		if (way[i].n > 0)
			print_times(through[i], &way[i]);
	(void)snprintf(what, sizeof(what), "a byte to a waiting reader, %s, stdout / a pipe",
		       where);
	print_aim(what, true, 3, ratio(&way[WAY_NODE], &way[WAY_PIPE]));
	/* What of it nobody can leave out who is between the two, or answers through FUSE. */
	printf("note: stdout / cat between two pipes is %.2f",
	       ratio(&way[WAY_NODE], &way[WAY_CAT]));
	if (way[WAY_BARE].n > 0)
		printf(", / the bare loop %.2f; the bare loop / a pipe is %.2f",
		       ratio(&way[WAY_NODE], &way[WAY_BARE]),
		       ratio(&way[WAY_BARE], &way[WAY_PIPE]));
	printf("\n");
}

static int show_ways(const struct bench *bench, const char *where, struct err *err)
{
	struct samples way[WAY_COUNT] = { 0 };
	int r = bench_latency(bench, way, err);

	if (r == 0)
		print_ways(where, way);
	for (int i = 0; i < WAY_COUNT; i++)
		samples_done(&way[i]);
	return r;
}

/* Of the bare loop: libfuse's own, one thread, READ answered with one byte. */
static int show_byte(const struct bench *bench, struct err *err)
{
	struct samples node = { 0 }, bare = { 0 };
	int r = bench_byte(bench, &node, &bare, err);

	if (r == 0) {
		print_times("a read of 1 byte of the node stdout, us:", &node);
		print_times("the same of a bare loop of libfuse:", &bare);
		print_aim("1 byte of stdout / of a bare loop", true, 1.2, ratio(&node, &bare));
	}
	samples_done(&node);
	samples_done(&bare);
	return r;
}

static int show_reads(struct bench *bench, struct err *err)
{
	bool gathered;
	int r = 0;

	bench_gather(bench);
	gathered = bench->core >= 0;
	if (gathered) {
		printf("\nreads, with who writes, answers and reads all on one core:\n");
		if (bench->bare)
			r = show_byte(bench, err);
		if (r == 0)
			r = show_ways(bench, "on one core", err);
	}
	bench_scatter(bench);
	if (r < 0)
		return r;
	printf("\n%s, on whatever core the scheduler puts them:\n",
	       gathered ? "the same" : "reads, with who writes, answers and reads");
	if (!gathered && bench->bare)
		r = show_byte(bench, err);
	return r < 0 ? r : show_ways(bench, "as it comes", err);
}

/* Below output_limit, so that nobody has to wait for a reader. */
static int show_readers(struct bench *bench, struct err *err)
{
	static const unsigned readers[] = { 0, 1, 8 }; /* of the node; none: a pipe's one */
	const uint64_t bytes = GIB / 5;
	struct samples rates[ARRAY_SIZE(readers)] = { 0 };
	unsigned rounds = bench->quick ? 3 : 9;
	int r = 0;

	for (unsigned i = 0; i < rounds && r == 0; i++)
		for (size_t k = 0; k < ARRAY_SIZE(readers) && r == 0; k++) {
			double rate = 0;

			r = readers[k] ? bench_readers(bench, readers[k], bytes, &rate, err)
				       : bench_pipe_rate(bench, bytes, true, &rate, err);
			samples_add(&rates[k], rate / 1e9);
		}
	if (r == 0) {
		double through_pipe = samples_quantile(&rates[0], 0.5);

		printf("\na command gets rid of 205 MiB, GB/s: pipe of 64 KiB between two cores "
		       "%.2f, "
		       "stdout with 1 reader %.2f, with 8 %.2f\n",
		       through_pipe, samples_quantile(&rates[1], 0.5),
		       samples_quantile(&rates[2], 0.5));
		print_aim("the command's own rate with 1 reader / a pipe's", false, 1,
			  samples_quantile(&rates[1], 0.5) / through_pipe);
		print_aim("the command's own rate with 8 readers / a pipe's", false, 1,
			  samples_quantile(&rates[2], 0.5) / through_pipe);
	}
	for (size_t k = 0; k < ARRAY_SIZE(readers); k++)
		samples_done(&rates[k]);
	return r;
}

static int show_parked(struct bench *bench, struct err *err)
{
	struct bench_parked parked = { 0 };
	int r = bench_parked(bench, &parked, err);

	if (r < 0)
		return r;
	printf("\n%u readers wait for one result: %.2f KiB of hutchd's memory and %.2f descriptors "
	       "each; woken after %.0f us the first, %.1f us each until the last; hutchd's own "
	       "time %.1f us each\n",
	       parked.many, parked.kib, parked.fds, parked.first_us, parked.each_us,
	       parked.daemon_us);
	print_aim("memory for a reader that waits, KiB", true, 1, parked.kib);
	print_aim("descriptors for one", true, 0.01, parked.fds);
	print_aim("hutchd's time to wake one, us", true, 20, parked.daemon_us);
	return 0;
}

int bench_show_reads(struct bench *bench, struct err *err)
{
	int r = show_reads(bench, err);

	if (r == 0)
		r = show_readers(bench, err);
	if (r == 0 && bench->park)
		r = show_parked(bench, err);
	return r;
}
