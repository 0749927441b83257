/* bench.h - the benchmarks: rows that are measured side by side
 *
 * All rows take turns in one run, so that what the machine does meanwhile hits
 * them alike; what counts is the ratio to the first row.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Times in nanoseconds, or rates. */
struct samples {
	double *v; /* owned */
	size_t n, cap;
};

/* Out of memory ends the program: there is nothing to rescue. */
void samples_add(struct samples *, double);
/* The value below which the part `q` (0-1) of the samples lies; sorts them. NAN without any. */
double samples_quantile(struct samples *, double q);
void samples_done(struct samples *);
/* A line with an aim and what came out. `most`: the aim is a ceiling, else a floor. */
void print_aim(const char *what, bool most, double aim, double got);

/* One that bench_gather() holds on a core, and where it may be otherwise. */
struct bench_held_core {
	pid_t pid; /* 0: this process */
	cpu_set_t was;
};

/* What was prepared by tools/bench. */
struct bench {
	const char *tree;      /* where hutchd is mounted */
	const char *true_path; /* bench_true on the host */
	const char *bundle;    /* an OCI bundle whose root holds /true */
	const char *container; /* a container of it that waits, for `runc exec`; NULL: none */
	const char *box;       /* a sandbox that holds bench_true as /root/true */
	const char *box_v1;    /* another, of a hutchd that uses cgroup v1; NULL: there is none */
	const char *pid;       /* of the hutchd that serves `tree` */
	const char *bare;      /* where bench_bare is mounted; NULL: it does not run */
	const char *bare_fifo; /* its standard input; NULL: it does not run */
	const char *bare_pid;  /* of bench_bare; NULL: it does not run */
	const char *park;      /* tests/park; NULL: not built */
	bool quick;
	unsigned serial; /* for names that are used once */
	int core;        /* see bench_gather(); -1: everybody is where the scheduler likes */
	unsigned held;   /* how many of: */
	struct bench_held_core held_core[3];
};

int64_t bench_now(void);
void bench_pause_ms(unsigned ms);

/* ---- bench_spawn.c ---- */

/* Starts argv with its output in a pipe, reads that to the end, waits. `note`: where the first line
 * of its stderr goes, for a trial; NULL: stderr is thrown away. 0 if it exited with 0. */
int bench_spawn(char *const argv[], char *note, size_t note_size, struct err *);
/* Replaces "@id" in argv by a name that was not used before, "@bundle", "@true" and
 * "@container" by what they are, and runs it. */
int bench_rival(struct bench *, const char *const argv[], char *note, size_t size, struct err *);

/* ---- bench_core.c ---- */

/* Puts a process (0: this one, and what it starts from then on) on that core. 0 or a negative errno. */
int bench_pin(pid_t, unsigned core);
/* Holds this process, hutchd and bench_bare on bench->core, until bench_scatter(); a command that is
 * to be there too is told so. Where that cannot be, all stay as they were and bench->core is -1. */
void bench_gather(struct bench *);
void bench_scatter(struct bench *);

/* ---- bench_tree.c ---- */

/* One command through the files of `box`, until its result is read. Its code must be 0. */
int bench_exec_last(const struct bench *, const char *box, const char *request, struct err *);
int bench_exec_handle(const struct bench *, const char *box, const char *request, struct err *);
/* A sandbox from mkdir to rmdir; *to_result is the time until the first result was read. */
int bench_box(struct bench *, int64_t *to_result, struct err *);
/* Makes the sandbox `box` and puts bench_true into it. */
int bench_prepare(const struct bench *, const char *box, struct err *);
int bench_remove(const char *box, struct err *);
/* Opens a file of a sandbox. */
int bench_open(const char *box, const char *node, int flags, struct err *);
/* Writes a request to exec/new, and reads the node's name: NAME_MAX_LEN + 2 bytes. */
int bench_start(int handle, const char *request, char *name, struct err *);

/* ---- bench_cost.c ---- */

/* What the daemon holds for one of each: KiB of resident memory, descriptors. */
struct bench_cost {
	double box_kib, box_fds;
	double live_kib, live_fds;
	double finished_kib, finished_fds;
};
struct bench_held {
	double kib, fds;
};
/* What the daemon holds now. */
struct bench_held bench_held(const struct bench *);
int bench_write_file(const char *box, const char *node, const char *text, struct err *);
/* To be measured first: memory that the daemon has freed would be used again. */
int bench_cost(struct bench *, struct bench_cost *ret, struct err *);
/* Nanoseconds for the end of 100 processes that sleep: of a process group, by kill and wait, and of
 * a sandbox, by rmdir. */
int bench_end_group(const struct bench *, struct samples *, struct err *);
int bench_end_box(struct bench *, struct samples *, struct err *);

/* ---- bench_stream.c ---- */

/* Bytes per second of `bytes` through a pipe of the usual size, and through the node stdout.
 * `apart`: the writer and the reader of the pipe each on a core of its own. */
int bench_pipe_rate(const struct bench *, uint64_t bytes, bool apart, double *ret, struct err *);
int bench_node_rate(const struct bench *, uint64_t bytes, double *ret, struct err *);
/* How long reading `status` and looking up a name that is not there take, while a command of the
 * same sandbox writes `bytes`. */
int bench_flood(const struct bench *, uint64_t bytes, struct samples *status,
		struct samples *lookup, struct err *);

/* ---- bench_read.c ---- */

/* Nanoseconds of a read of one byte: of stdout of a command that has ended, of bench_bare's file. */
int bench_byte(const struct bench *, struct samples *node, struct samples *bare, struct err *);
/* Bytes per second at which a command gets rid of `bytes` until it has ended, with so many readers,
 * at most 16; each must get them all. */
int bench_readers(struct bench *, unsigned readers, uint64_t bytes, double *ret, struct err *);

/* ---- bench_latency.c ---- */

/* Nanoseconds from a command's write to the return of a read that waited for it. */
enum bench_way {
	WAY_NODE, /* stdout */
	WAY_PIPE,
	WAY_CAT,  /* a process between two pipes */
	WAY_BARE, /* bench_bare, if it runs, between a pipe and a file */
	WAY_COUNT
};
int bench_latency(const struct bench *, struct samples way[WAY_COUNT], struct err *);

/* ---- bench_park.c ---- */

struct bench_parked {
	unsigned many;    /* readers that waited for one result */
	double kib, fds;  /* what hutchd holds for each */
	double first_us;  /* from `kill` to the first answer */
	double each_us;   /* from `kill` to the last answer, divided by how many they are */
	double daemon_us; /* processor time of hutchd, for each */
};
int bench_parked(const struct bench *, struct bench_parked *ret, struct err *);

/* ---- bench_readers.c ---- */

/* Measures and prints all that is about reads. */
int bench_show_reads(struct bench *, struct err *);
