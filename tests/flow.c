/* flow.c - streams of which every byte follows from its offset, for the whole-tree tests
 *
 *	flow write [-c MOST] [-d] BYTES FD:SEED...
 *	flow read [-c MOST] [-f OFFSET] [-n BYTES] [-o] [-p OFFSET:SECONDS] [-r RATE] SEED FILE
 *
 * write: BYTES to each descriptor, in turns that a seeded generator draws, by
 * writes of 1 to MOST bytes.  -d: after the half the rest is left to a child.
 *
 * read: FILE (-: standard input) from OFFSET to its end, or so many bytes, by reads
 * of 1 to MOST; prints the offset where it ended.  -o: opens it anew again and
 * again, and goes on where it was.  -p: stops there for so long.  -r: at most so
 * many bytes a second.  A byte that is not what its offset says is a failure.
 *
 * Whoever knows the seed can check any part, without a copy.  It runs inside of
 * sandboxes too, so it is static.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_MAX   ((size_t)1 << 20)
#define MOST_BEGIN ((size_t)1 << 18)
#define FDS_MAX    8

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* The bytes at `off` of the stream `seed`; `out` has room for 15 more than `len`. Returns where in
 * `out` they begin. */
static const unsigned char *bytes_at(unsigned char *out, uint64_t seed, uint64_t off, size_t len)
{
	size_t skip = off % 8;
	uint64_t word = off / 8;

	for (size_t n = 0; n < skip + len; n += 8, word++) {
		uint64_t v = mix((word + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ mix(seed));

		memcpy(out + n, &v, 8);
	}
	return out + skip;
}

static uint64_t draw(uint64_t *state)
{
	*state += UINT64_C(0x9e3779b97f4a7c15);
	return mix(*state);
}

/* As many small ones as large ones. */
static size_t draw_size(uint64_t *state, size_t most)
{
	unsigned bits = 1;
	size_t size;

	while ((size_t)1 << bits < most)
		bits++;
	size = 1 + draw(state) % ((size_t)1 << draw(state) % (bits + 1));
	return size < most ? size : most;
}

static uint64_t number(const char *text, char end, const char **ret_rest)
{
	char *rest;
	uint64_t n = strtoull(text, &rest, 10);

	if (rest == text || *rest != end)
		errx(2, "not a number: '%s'", text);
	if (ret_rest)
		*ret_rest = rest + 1;
	return n;
}

static size_t size_of(const char *text)
{
	uint64_t n = number(text, '\0', NULL);

	return n && n <= MOST_MAX ? (size_t)n : MOST_MAX;
}

struct sink {
	int fd;
	uint64_t seed, off;
};

static void put(struct sink *to, size_t len)
{
	static unsigned char room[MOST_MAX + 16];
	const unsigned char *bytes = bytes_at(room, to->seed, to->off, len);

	while (len) {
		ssize_t n = write(to->fd, bytes, len);

		if (n < 0)
			err(1, "write to %d at %" PRIu64, to->fd, to->off);
		bytes += n;
		len -= (size_t)n;
		to->off += (uint64_t)n;
	}
}

/* The rest is the child's, and our parent gets to hear that we have ended. */
static void leave_to_child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid > 0)
		_exit(0);
}

static int do_write(int argc, char **argv)
{
	struct sink to[FDS_MAX] = { 0 };
	uint64_t total, left, state;
	size_t most = MOST_BEGIN;
	bool leaves = false;
	int n = 0, c;

	while ((c = getopt(argc, argv, "c:d")) >= 0) {
		if (c == 'c')
			most = size_of(optarg);
		else if (c == 'd')
			leaves = true;
		else
			return 2;
	}
	if (argc - optind < 2 || argc - optind - 1 > FDS_MAX)
		errx(2, "write BYTES FD:SEED...");
	total = number(argv[optind++], '\0', NULL);
	for (; optind < argc; optind++, n++) {
		const char *seed;

		to[n] = (struct sink){ .fd = (int)number(argv[optind], ':', &seed) };
		to[n].seed = number(seed, '\0', NULL);
	}
	left = total * (uint64_t)n;
	state = to[0].seed;
	while (left) {
		struct sink *s = &to[draw(&state) % (uint64_t)n];
		size_t len = draw_size(&state, most);

		if (len > total - s->off)
			len = (size_t)(total - s->off);
		put(s, len);
		left -= len;
		if (leaves && left <= total * (uint64_t)n / 2) {
			leave_to_child();
			leaves = false;
		}
	}
	return 0;
}

struct source {
	const char *path;
	int fd;
	uint64_t seed, off, end, rate, pause_at;
	unsigned pause;
	size_t most;
	bool reopens;
};

static void open_at(struct source *from)
{
	if (strcmp(from->path, "-") == 0) {
		from->fd = 0;
		return;
	}
	from->fd = open(from->path, O_RDONLY | O_CLOEXEC);
	if (from->fd < 0)
		err(1, "open '%s'", from->path);
	if (from->off && lseek(from->fd, (off_t)from->off, SEEK_SET) < 0)
		err(1, "seek in '%s'", from->path);
}

static double seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void compare(const struct source *from, const unsigned char *got, size_t len)
{
	static unsigned char room[MOST_MAX + 16];
	const unsigned char *want = bytes_at(room, from->seed, from->off, len);

	if (memcmp(got, want, len) == 0)
		return;
	for (size_t i = 0; i < len; i++)
		if (got[i] != want[i])
			errx(1, "'%s': byte %" PRIu64 " is %02x and not %02x", from->path,
			     from->off + i, got[i], want[i]);
}

/* False at the end. */
static bool get(struct source *from, size_t len)
{
	static unsigned char bytes[MOST_MAX];
	ssize_t n;

	if (len > from->end - from->off)
		len = (size_t)(from->end - from->off);
	if (!len)
		return false;
	n = read(from->fd, bytes, len);
	if (n < 0)
		err(1, "read '%s' at %" PRIu64, from->path, from->off);
	compare(from, bytes, (size_t)n);
	from->off += (uint64_t)n;
	return n > 0;
}

static void read_all(struct source *from)
{
	uint64_t state = from->seed ^ (uint64_t)getpid(), begin = from->off;
	double began = seconds();

	open_at(from);
	while (get(from, draw_size(&state, from->most))) {
		if (from->pause && from->off >= from->pause_at) {
			(void)sleep(from->pause);
			from->pause = 0;
		}
		while (from->rate &&
		       (double)(from->off - begin) / (double)from->rate > seconds() - began)
			(void)usleep(10000);
		if (from->reopens && draw(&state) % 64 == 0) {
			(void)close(from->fd);
			open_at(from);
		}
	}
}

static int do_read(int argc, char **argv)
{
	struct source from = { .end = UINT64_MAX, .most = MOST_BEGIN };
	const char *rest;
	int c;

	while ((c = getopt(argc, argv, "c:f:n:op:r:")) >= 0) {
		switch (c) {
		case 'c':
			from.most = size_of(optarg);
			break;
		case 'f':
			from.off = number(optarg, '\0', NULL);
			break;
		case 'n':
			from.end = number(optarg, '\0', NULL);
			break;
		case 'o':
			from.reopens = true;
			break;
		case 'p':
			from.pause_at = number(optarg, ':', &rest);
			from.pause = (unsigned)number(rest, '\0', NULL);
			break;
		case 'r':
			from.rate = number(optarg, '\0', NULL);
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != 2)
		errx(2, "read SEED FILE");
	from.seed = number(argv[optind], '\0', NULL);
	from.path = argv[optind + 1];
	if (from.end != UINT64_MAX)
		from.end += from.off;
	read_all(&from);
	printf("%" PRIu64 "\n", from.off);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "write") == 0)
		return do_write(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "read") == 0)
		return do_read(argc - 1, argv + 1);
	errx(2, "flow write | read");
}
