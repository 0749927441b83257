#include "tools/hutch_keys.h"

#include "base/auto.h"

#define CTRL_Z '\032'

static const struct escape {
	char typed;
	enum hutch_key key;
	const char *shown, *doc;
} escapes[] = {
	{ '.', HUTCH_KEY_END, "~.", "kill the command, and leave" },
	{ CTRL_Z, HUTCH_KEY_SUSPEND, "~^Z", "stop hutch; the command runs on" },
	{ '?', HUTCH_KEY_HELP, "~?", "show this" },
};

static const struct escape *find(char typed)
{
	for (size_t i = 0; i < ARRAY_SIZE(escapes); i++)
		if (escapes[i].typed == typed)
			return &escapes[i];
	return NULL;
}

size_t hutch_keys_take(struct hutch_keys *k, char *to, const char *from, size_t len, bool *end)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = from[i]; /* before `to` is written: they may overlap */
		const struct escape *e = k->tilde ? find(c) : NULL;

		if (e) {
			k->tilde = false; /* and a line begins again */
			*end = !k->pressed(k, e->key);
			if (*end)
				break;
			continue;
		}
		if (!k->tilde && !k->in_line && c == '~') {
			k->tilde = true;
			continue;
		}
		if (k->tilde && c != '~') /* two of them are one */
			to[n++] = '~';
		to[n++] = c;
		k->tilde = false;
		k->in_line = c != '\r' && c != '\n';
	}
	return n;
}

int hutch_keys_help(struct buf *out)
{
	int r = buf_printf(out, "\r\nAt the beginning of a line:\r\n");

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(escapes); i++)
		r = buf_printf(out, "  %-4s %s\r\n", escapes[i].shown, escapes[i].doc);
	return r < 0 ? r : buf_printf(out, "  %-4s %s\r\n", "~~", "a tilde");
}
