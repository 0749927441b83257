/* bench_true.c - the command that costs nothing: static, so that starting it is all there is
 *
 *	bench_true		ends at once
 *	bench_true wait		stays until it is killed: what a container needs to be entered
 *	bench_true family N	N children that wait, then a byte of output, then it waits too
 *	bench_true stamps N [CORE]
 *				writes what the clock says, N times, with a pause before each; on
 *				that core
 *	bench_true pin CORE	0: a command may go to that core
 *	bench_true BYTES	writes so many zeroes to its output, 128 KiB at a time
 */
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (128 * 1024)

static int produce(unsigned long long left)
{
	static const char zeroes[CHUNK];

	while (left > 0) {
		ssize_t n = write(STDOUT_FILENO, zeroes, left < CHUNK ? (size_t)left : CHUNK);

		if (n < 0)
			return 1;
		left -= (unsigned long long)n;
	}
	return 0;
}

static int family(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0)
			return pause();
	}
	return write(STDOUT_FILENO, "", 1) == 1 ? pause() : 1;
}

static int pin(const char *core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(strtoul(core, NULL, 10), &set);
	return sched_setaffinity(0, sizeof(set), &set) < 0;
}

/* Who reads waits again when the next one comes. */
static int stamps(unsigned long n)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	struct timespec now;

	for (unsigned long i = 0; i < n; i++) {
		int64_t ns;

		(void)nanosleep(&pause, NULL);
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
		if (write(STDOUT_FILENO, &ns, sizeof(ns)) != sizeof(ns))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 0;
	if (strcmp(argv[1], "wait") == 0)
		return pause();
	if (strcmp(argv[1], "family") == 0 && argc > 2)
		return family(strtoul(argv[2], NULL, 10));
	if (strcmp(argv[1], "pin") == 0 && argc > 2)
		return pin(argv[2]);
	if (strcmp(argv[1], "stamps") == 0 && argc > 3 && pin(argv[3]))
		return 1;
	if (strcmp(argv[1], "stamps") == 0 && argc > 2)
		return stamps(strtoul(argv[2], NULL, 10));
	return produce(strtoull(argv[1], NULL, 10));
}
