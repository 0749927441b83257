/* bench_tree.c - the same through the files, as a program in C would do it */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/text.h"
#include "tools/bench.h"

#define PUT_TRUE "{\"cmd\":[\"sh\",\"-c\",\"cat > /root/true && chmod 755 /root/true\"]}"

int bench_open(const char *box, const char *node, int flags, struct err *err)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", box, node);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "open %s", path) : fd;
}

/* Reads a result to its end and checks that the command exited with 0. */
static int read_result(const char *box, const char *node, struct err *err)
{
	auto_close int fd = bench_open(box, node, O_RDONLY, err);
	char text[8192];
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		return err_set(err, errno, "read %s/%s", box, node);
	text[len] = '\0';
	if (!strstr(text, "\"exit_code\":0,") && !strstr(text, "\"exit_code\": 0,"))
		return err_say(err, EIO, "%s/%s: %s", box, node, text);
	return 0;
}

static int write_request(const char *box, const char *request, struct err *err)
{
	auto_close int fd = bench_open(box, "exec/new", O_WRONLY, err);
	int r;

	if (fd < 0)
		return fd;
	r = write_all(fd, request, strlen(request));
	return r < 0 ? err_set(err, -r, "write to %s/exec/new", box) : 0;
}

int bench_exec_last(const struct bench *bench, const char *box, const char *request,
		    struct err *err)
{
	int r = write_request(box, request, err);

	(void)bench;
	return r < 0 ? r : read_result(box, "exec/last/result.json", err);
}

int bench_start(int handle, const char *request, char *name, struct err *err)
{
	int r = write_all(handle, request, strlen(request));
	ssize_t n;

	if (r < 0)
		return err_set(err, -r, "write to exec/new");
	n = read(handle, name, NAME_MAX_LEN + 1);
	if (n <= 0)
		return err_set(err, n < 0 ? errno : EPROTO, "read the name from exec/new");
	name[n - 1] = '\0';
	return 0;
}

int bench_exec_handle(const struct bench *bench, const char *box, const char *request,
		      struct err *err)
{
	auto_close int fd = bench_open(box, "exec/new", O_RDWR, err);
	char name[NAME_MAX_LEN + 2], node[NAME_MAX_LEN + 32];
	int r;

	(void)bench;
	if (fd < 0)
		return fd;
	r = bench_start(fd, request, name, err);
	if (r < 0)
		return err_wrap(err, r, "%s", box);
	(void)snprintf(node, sizeof(node), "exec/%s/result.json", name);
	return read_result(box, node, err);
}

int bench_box(struct bench *bench, int64_t *to_result, struct err *err)
{
	char box[PATH_MAX];
	int64_t start = bench_now();
	int r;

	(void)snprintf(box, sizeof(box), "%s/bench-%u", bench->tree, bench->serial++);
	if (mkdir(box, 0700) < 0)
		return err_set(err, errno, "mkdir %s", box);
	r = bench_exec_last(bench, box, "{\"cmd\":[\"/bin/true\"]}", err);
	*to_result = bench_now() - start;
	if (rmdir(box) < 0)
		return err_set(err, errno, "rmdir %s", box);
	return r;
}

static int send_true(const struct bench *bench, const char *box, struct err *err)
{
	auto_close int from = open(bench->true_path, O_RDONLY | O_CLOEXEC);
	auto_close int to = bench_open(box, "exec/last/stdin", O_WRONLY, err);
	char chunk[65536];
	ssize_t n;

	if (to < 0)
		return to;
	if (from < 0)
		return err_set(err, errno, "open %s", bench->true_path);
	while ((n = read(from, chunk, sizeof(chunk))) > 0) {
		int r = write_all(to, chunk, (size_t)n);

		if (r < 0)
			return err_set(err, -r, "write to stdin");
	}
	return n < 0 ? err_set(err, errno, "read %s", bench->true_path) : 0;
}

int bench_prepare(const struct bench *bench, const char *box, struct err *err)
{
	int r;

	if (mkdir(box, 0700) < 0)
		return err_set(err, errno, "mkdir %s", box);
	r = write_request(box, PUT_TRUE, err);
	if (r == 0)
		r = send_true(bench, box, err);
	return r < 0 ? r : read_result(box, "exec/last/result.json", err);
}

int bench_remove(const char *box, struct err *err)
{
	return rmdir(box) < 0 ? err_set(err, errno, "rmdir %s", box) : 0;
}
