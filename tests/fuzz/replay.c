/* replay.c - feeds a fuzz target its corpus, without a fuzzer
 *
 *	replay_NAME DIR|FILE...
 *
 * Every input is tried whole, and cut at each of a few places: what is
 * interesting in a parser is often what happens at the end.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/file.h"
#include "tests/unit/guard.h"

#define CUTS 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *current = "(none)";

/* The target dies by abort() or the guard page: say with what. */
static void on_death(int sig)
{
	static const char text[] = "replay: died on ";

	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)!write(STDERR_FILENO, current, strlen(current));
	(void)!write(STDERR_FILENO, "\n", 1);
	(void)signal(sig, SIG_DFL);
	(void)raise(sig);
}

static void feed(const char *bytes, size_t len)
{
	struct guard g = guard_new(bytes, len);

	(void)LLVMFuzzerTestOneInput((const uint8_t *)g.bytes, len);
	guard_free(&g);
}

static int replay_file(int dirfd, const char *name)
{
	auto_buf struct buf buf = { 0 };
	struct err err = { 0 };
	const char *bytes;

	current = name;
	if (file_read(dirfd, name, &buf, &err) < 0) {
		(void)fprintf(stderr, "replay: %s\n", err.msg);
		return -1;
	}
	bytes = buf.data ? buf.data : "";
	feed(bytes, buf.len);
	for (size_t cut = 1; cut < CUTS && cut < buf.len; cut++)
		feed(bytes, buf.len * cut / CUTS);
	return 1;
}

DEFINE_AUTO(DIR *, closedir);

/* How many inputs were fed, or -1. */
static int replay(const char *path)
{
	AUTO(closedir) DIR *dir = opendir(path);
	const struct dirent *entry;
	int n = 0;

	if (!dir)
		return replay_file(AT_FDCWD, path);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (replay_file(dirfd(dir), entry->d_name) < 0)
			return -1;
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	int total = 0;

	(void)signal(SIGABRT, on_death);
	(void)signal(SIGSEGV, on_death);
	for (int i = 1; i < argc; i++) {
		int n = replay(argv[i]);

		if (n < 0)
			return 1;
		total += n;
	}
	if (total == 0) {
		(void)fprintf(stderr, "%s: no inputs\n", argv[0]);
		return 1;
	}
	(void)printf("%s: %d inputs\n", argv[0], total);
	return 0;
}
