/* manpage.c - fills in what a man page says from the tables that the daemon runs on
 *
 *	manpage docs/hutch.5.in > hutch.5
 *
 * A line that is nothing but @FILES@, @SPEC_KEYS@, @REQUEST_KEYS@ or one of
 * @CONFIG_KEYS@, @CONFIG_ROOT_KEYS@ and @CONFIG_LIMIT_KEYS@ is replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/file.h"
#include "fs/node.h"
#include "sandbox/request.h"
#include "tools/config.h"

static int put_keys(struct buf *out, const struct json_key *key, size_t n)
{
	int r = buf_printf(out, ".RS\n");

	for (size_t i = 0; i < n && r == 0; i++)
		r = buf_printf(out, ".TP\n.B %s\n%s.\n", key[i].name, key[i].doc);
	return r < 0 ? r : buf_printf(out, ".RE\n");
}

static int put_spec_keys(struct buf *out)
{
	return put_keys(out, spec_keys, spec_keys_n);
}

static int put_request_keys(struct buf *out)
{
	return put_keys(out, exec_request_keys, exec_request_keys_n);
}

static int put_config_keys(struct buf *out)
{
	return put_keys(out, config_keys, config_keys_n);
}

static int put_config_root_keys(struct buf *out)
{
	return put_keys(out, config_root_keys, config_root_keys_n);
}

static int put_config_limit_keys(struct buf *out)
{
	return put_keys(out, config_limit_keys, config_limit_keys_n);
}

static const struct {
	const char *line;
	int (*put)(struct buf *);
} parts[] = {
	{ "@FILES@", node_print_man },
	{ "@SPEC_KEYS@", put_spec_keys },
	{ "@REQUEST_KEYS@", put_request_keys },
	{ "@CONFIG_KEYS@", put_config_keys },
	{ "@CONFIG_ROOT_KEYS@", put_config_root_keys },
	{ "@CONFIG_LIMIT_KEYS@", put_config_limit_keys },
};

static int put_line(struct buf *out, const char *line, size_t len)
{
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strlen(parts[i].line) == len && memcmp(parts[i].line, line, len) == 0)
			return parts[i].put(out);
	r = buf_add(out, line, len);
	return r < 0 ? r : buf_add(out, "\n", 1);
}

int main(int argc, char **argv)
{
	auto_buf struct buf in = { 0 }, out = { 0 };
	struct err err = { 0 };
	const char *line;
	int r;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: manpage FILE.in > FILE\n");
		return 2;
	}
	r = file_read(AT_FDCWD, argv[1], &in, &err);
	for (line = in.data; r == 0 && line && *line;) {
		size_t len = strcspn(line, "\n");

		r = put_line(&out, line, len);
		line += len + (line[len] == '\n');
	}
	if (r == 0)
		r = write_all(STDOUT_FILENO, out.data, out.len);
	if (r < 0)
		(void)fprintf(stderr, "manpage: %s: %s\n", argv[1],
			      *err.msg ? err.msg : strerror(-r));
	return r < 0;
}
