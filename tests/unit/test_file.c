/* test_file.c - whole files, ceilings, replacement */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "tests/unit/tap.h"

static int dir;

static void test_read(void)
{
	static const struct {
		size_t max, size;
		int want;
	} row[] = {
		{ 0, 0, 0 },       { 0, 10000, 0 },    { 4096, 4096, 0 },   { 4096, 4097, -E2BIG },
		{ 4095, 4095, 0 }, { 10, 11, -E2BIG }, { 10000, 10000, 0 }, { 4097, 4098, -E2BIG },
	};
	char *bytes = malloc(10000);

	if (!bytes)
		exit(1);
	memset(bytes, 'x', 10000);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		auto_buf struct buf b = { .max = row[i].max };

		is_int(file_write(dir, "f", 0600, bytes, row[i].size, NULL), 0, "write");
		is_int(file_read(dir, "f", &b, NULL), row[i].want, "read %zu bytes, ceiling %zu",
		       row[i].size, row[i].max);
		is_int((long long)b.len, row[i].want < 0 ? 0 : (long long)row[i].size, "length");
	}
	free(bytes);
}

static void test_append(void)
{
	auto_buf struct buf b = { .max = 8 };
	struct err err = { 0 };

	(void)file_write(dir, "f", 0600, "12345", 5, NULL);
	(void)buf_add(&b, "abc", 3);
	is_int(file_read(dir, "f", &b, &err), 0, "reading appends");
	is_str(b.data, "abc12345", "to what is there");
	is_int(err.code, 0, "success leaves err alone");
	buf_consume(&b, 1);
	is_int(file_read(dir, "f", &b, &err), -E2BIG, "no room");
	is_str(b.data, "bc12345", "a failure appends nothing");
	is_str(err.msg, "'f' is larger than 1 bytes", "and says how much was allowed");
	is_int(file_read(dir, "none", &b, &err), -ENOENT, "a missing file");
	is_str(err.msg, "open 'none': No such file or directory", "is named");
	is_int(file_read(AT_FDCWD, "/", &b, &err), -EISDIR, "a directory");
	is_int(file_read(AT_FDCWD, "/proc/self/stat", &b, &err), -E2BIG, "a file of unknown size");
}

static mode_t mode_of(const char *path)
{
	struct stat st = { 0 };

	(void)fstatat(dir, path, &st, 0);
	return st.st_mode & 07777;
}

static void test_replace(void)
{
	auto_buf struct buf b = { 0 };
	struct err err = { 0 };

	(void)umask(022);
	is_int(file_replace(dir, "r", 0644, "one", 3, NULL), 0, "replace creates");
	is_int(mode_of("r"), 0644, "with its mode");
	(void)file_write(dir, "r.new", 0666, "left by a crash", 15, NULL);
	is_int(file_replace(dir, "r", 0600, "two", 3, NULL), 0, "what a crash left is no obstacle");
	is_int(mode_of("r"), 0600, "nor does its mode stay");
	(void)file_read(dir, "r", &b, NULL);
	is_str(b.data, "two", "the new bytes");
	is_int(faccessat(dir, "r.new", F_OK, 0), -1, "nothing is left beside it");
	is_int(symlinkat("target", dir, "r.new"), 0, "make a link");
	is_int(file_replace(dir, "r", 0600, "three", 5, NULL), 0, "a link in the way");
	is_int(faccessat(dir, "target", F_OK, 0), -1, "is not followed");
	(void)mkdirat(dir, "d", 0700);
	is_int(file_replace(dir, "d", 0600, "x", 1, &err), -EISDIR, "over a directory");
	is_str(err.msg, "rename 'd.new' to 'd': Is a directory", "is refused in words");
	is_int(faccessat(dir, "d.new", F_OK, 0), -1, "and leaves nothing");
	is_int(file_write(dir, "no/x", 0600, "x", 1, &err), -ENOENT, "writing without a parent");
}

static void test_fd(void)
{
	int pipe_fd[2];
	char sink[70000] = { 0 };

	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		exit(1);
	is_int(fd_set_nonblock(pipe_fd[1]), 0, "non-blocking");
	is_int(write_all(pipe_fd[1], sink, 10), 0, "what fits");
	is_int(write_all(pipe_fd[1], sink, sizeof(sink)), -EAGAIN, "what does not fit");
	(void)close(pipe_fd[0]);
	(void)close(pipe_fd[1]);
	is_int(write_all(pipe_fd[1], "x", 1), -EBADF, "a closed descriptor");
	is_int(fd_set_nonblock(pipe_fd[1]), -EBADF, "the same");
	is_int(file_write(AT_FDCWD, "/dev/full", 0600, "x", 1, NULL), -ENOSPC, "a full disk");
}

int main(void)
{
	char path[] = "/tmp/hutch-test-file-XXXXXX";
	static const char *const made[] = { "f", "r", "r.new" };

	if (!mkdtemp(path))
		return 1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_read();
	test_append();
	test_replace();
	test_fd();
	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		(void)unlinkat(dir, made[i], 0);
	(void)unlinkat(dir, "d", AT_REMOVEDIR);
	ok(rmdir(path) == 0, "no other file was made");
	return tap_done();
}
