/* request_pty.c - the key `pty`: a terminal instead of pipes
 *
 * That the key is there is what counts: {} is a terminal of the usual size.  Members
 * are laid over those that are there, as `env` is, so that `set` can name them one
 * by one.
 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "sandbox/request-internal.h"

#define PTY_ROWS 24
#define PTY_COLS 80

static int take_size(uint16_t *ret, const cJSON *value, struct err *err)
{
	double n = 0;

	if (json_get_number(value, &n, NULL) < 0 || n < 1 || n > PTY_SIZE_MAX || n != (uint16_t)n)
		return err_say(err, EINVAL, "must be a whole number, 1 to %d", PTY_SIZE_MAX);
	*ret = (uint16_t)n;
	return 0;
}

static int take_rows(void *obj, const cJSON *value, struct err *err)
{
	return take_size(&((struct exec_pty *)obj)->rows, value, err);
}

static int take_cols(void *obj, const cJSON *value, struct err *err)
{
	return take_size(&((struct exec_pty *)obj)->cols, value, err);
}

/* What names a terminal in every terminfo; a program may look for a file of that name. */
static int take_term(void *obj, const cJSON *value, struct err *err)
{
	static const char known[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "._+-";
	struct exec_pty *pty = obj;
	const char *text = NULL;
	int r = json_get_string(value, &text, err);

	if (r < 0)
		return r;
	if (!*text || *text == '.' || text[strspn(text, known)] || strlen(text) > PTY_TERM_MAX)
		return err_say(err, EINVAL, "must name a kind of terminal, as xterm-256color");
	memcpy(pty->term, text, strlen(text) + 1);
	return 0;
}

static const struct json_key pty_keys[] = {
	{ "rows", take_rows, "its height; default: 24" },
	{ "cols", take_cols, "its width; default: 80" },
	{ "term", take_term, "what TERM says; default: the sandbox's, or xterm-256color" },
};

int request_take_pty(struct exec_pty *ret, const cJSON *value, struct err *err)
{
	struct exec_pty pty = ret->on ? *ret : (struct exec_pty){ true, PTY_ROWS, PTY_COLS, "" };
	int r;

	if (!cJSON_IsObject(value))
		return err_say(err, EINVAL, "must be an object: rows, cols, term");
	r = json_take_keys(value, "terminal", pty_keys, ARRAY_SIZE(pty_keys), &pty, err);
	if (r == 0)
		*ret = pty;
	return r;
}

int request_print_pty(struct buf *out, const struct exec_pty *pty)
{
	int r = buf_printf(out, ",\"pty\":{\"rows\":%u,\"cols\":%u", pty->rows, pty->cols);

	if (r == 0 && *pty->term)
		r = request_print_string(out, "term", pty->term);
	return r < 0 ? r : buf_printf(out, "}");
}

bool request_same_pty(const struct exec_pty *a, const struct exec_pty *b)
{
	return a->on == b->on && a->rows == b->rows && a->cols == b->cols &&
	       strcmp(a->term, b->term) == 0;
}

int request_check_pty(const struct exec_request *req, struct err *err)
{
	const struct {
		const char *name;
		enum exec_stdio mode;
	} stdio[] = {
		{ "stdin", req->stdin_mode },
		{ "stdout", req->stdout_mode },
		{ "stderr", req->stderr_mode },
	};

	for (size_t i = 0; req->pty.on && i < ARRAY_SIZE(stdio); i++)
		if (stdio[i].mode == EXEC_STDIO_NULL)
			return err_say(
				err, EINVAL,
				"pty: the terminal is its stdin, stdout and stderr, and '%s' is "
				"\"null\": make that \"pipe\", or leave out one of the two",
				stdio[i].name);
	return 0;
}
