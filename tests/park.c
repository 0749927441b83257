/* park.c - many readers that wait, for a test and for the benchmarks
 *
 *	park [--poll] N FILE...
 *
 * Opens the files in turn until N descriptors are open, and lets each wait in a
 * read of its own thread, or all in one epoll.  A line "waiting N" says that all
 * threads run; whether their reads have reached hutchd is for stats.json to say.
 * The last line tells what came of it:
 *
 *	data N end N failed N errno N first NS last NS
 *
 * with the errno of one that failed, and the CLOCK_MONOTONIC times of the first
 * and the last answer.  77: this machine does not allow so many threads or files.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define STACK     (32 * 1024)
#define TOO_MUCH  77
#define CHUNK_MAX 1024

struct reader {
	pthread_t thread;
	int fd;
	ssize_t got; /* or a negative errno */
	int64_t at;
};

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void take(struct reader *r)
{
	char chunk[CHUNK_MAX];
	ssize_t n = read(r->fd, chunk, sizeof(chunk));

	r->got = n < 0 ? -errno : n;
	r->at = now();
}

static void *read_in_thread(void *arg)
{
	take(arg);
	return NULL;
}

static bool open_all(struct reader *readers, size_t n, char **files, size_t files_n)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
		most.rlim_cur = most.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &most);
	}
	for (size_t i = 0; i < n; i++) {
		readers[i].fd = open(files[i % files_n], O_RDONLY | O_CLOEXEC);
		if (readers[i].fd < 0) {
			(void)fprintf(stderr, "park: open %s, the %zuth: %s\n", files[i % files_n],
				      i + 1, strerror(errno));
			return false;
		}
	}
	return true;
}

static bool start_all(struct reader *readers, size_t n)
{
	pthread_attr_t attr;
	int r = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (size_t i = 0; i < n && r == 0; i++) {
		r = pthread_create(&readers[i].thread, &attr, read_in_thread, &readers[i]);
		if (r)
			(void)fprintf(stderr, "park: the %zuth thread: %s\n", i + 1, strerror(r));
	}
	pthread_attr_destroy(&attr);
	return r == 0;
}

/* Each is told of once, and read then. */
static bool poll_all(struct reader *readers, size_t n)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	size_t left = n;

	for (size_t i = 0; i < n; i++) {
		struct epoll_event e = { .events = EPOLLIN | EPOLLONESHOT,
					 .data.ptr = &readers[i] };

		if (epoll_ctl(epfd, EPOLL_CTL_ADD, readers[i].fd, &e) < 0)
			return false;
	}
	printf("waiting %zu\n", n);
	(void)fflush(stdout);
	while (left) {
		struct epoll_event batch[64];
		int got = epoll_wait(epfd, batch, 64, -1);

		for (int i = 0; i < got; i++, left--)
			take(batch[i].data.ptr);
	}
	(void)close(epfd);
	return true;
}

static bool wait_all(struct reader *readers, size_t n)
{
	if (!start_all(readers, n))
		return false;
	printf("waiting %zu\n", n);
	(void)fflush(stdout);
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(readers[i].thread, NULL);
	return true;
}

static void report(const struct reader *readers, size_t n)
{
	size_t data = 0, end = 0, failed = 0;
	int64_t first = INT64_MAX, last = 0;
	int code = 0;

	for (size_t i = 0; i < n; i++) {
		data += readers[i].got > 0;
		end += readers[i].got == 0;
		failed += readers[i].got < 0;
		code = readers[i].got < 0 ? (int)-readers[i].got : code;
		first = readers[i].at < first ? readers[i].at : first;
		last = readers[i].at > last ? readers[i].at : last;
	}
	printf("data %zu end %zu failed %zu errno %d first %lld last %lld\n", data, end, failed,
	       code, (long long)first, (long long)last);
}

int main(int argc, char **argv)
{
	bool polls = argc > 1 && strcmp(argv[1], "--poll") == 0;
	char **args = argv + 1 + polls;
	int args_n = argc - 1 - polls;
	size_t n = args_n > 1 ? strtoul(args[0], NULL, 10) : 0;
	struct reader *readers = n ? calloc(n, sizeof(*readers)) : NULL;

	if (!readers) {
		(void)fprintf(stderr, "usage: park [--poll] N FILE...\n");
		return 2;
	}
	if (!open_all(readers, n, args + 1, (size_t)args_n - 1) ||
	    !(polls ? poll_all : wait_all)(readers, n))
		return TOO_MUCH;
	report(readers, n);
	return 0;
}
