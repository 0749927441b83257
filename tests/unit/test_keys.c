/* What is typed in hutch shell: escapes are found, and nothing else is touched. */
#include <string.h>

#include "base/auto.h"
#include "tests/unit/tap.h"
#include "tools/hutch_keys.h"

static char pressed[16];

static bool on_pressed(struct hutch_keys *keys, enum hutch_key key)
{
	static const char name[] = {
		[HUTCH_KEY_END] = '.', [HUTCH_KEY_SUSPEND] = 'z', [HUTCH_KEY_HELP] = '?'
	};
	size_t n = strlen(pressed);

	(void)keys;
	pressed[n] = name[key];
	pressed[n + 1] = '\0';
	return key != HUTCH_KEY_END;
}

static const struct {
	const char *what, *typed, *command, *escapes;
	bool end;
} rows[] = {
	{ "nothing special", "ls -l\r", "ls -l\r", "", false },
	{ "the end", "~.", "", ".", true },
	{ "the end of a line", "a\r~.", "a\r", ".", true },
	{ "behind the end", "~.rm -rf x\r", "", ".", true },
	{ "after a newline", "a\n~.", "a\n", ".", true },
	{ "in a line", "a~.\r", "a~.\r", "", false },
	{ "behind a space", " ~.\r", " ~.\r", "", false },
	{ "help", "~?", "", "?", false },
	{ "help, then the end", "~?~.", "", "?.", true },
	{ "suspend", "x\r~\032y", "x\ry", "z", false },
	{ "two tildes are one", "~~", "~", "", false },
	{ "and in a line then", "~~.", "~.", "", false },
	{ "three", "~~~.", "~~.", "", false },
	{ "a home", "~user\r", "~user\r", "", false },
	{ "tilde, enter", "~\r~.", "~\r", ".", true },
	{ "other bytes", "\003\xff\033[A", "\003\xff\033[A", "", false },
};

/* `step` bytes at a time, as they may come; the output one byte in front of the input. */
static void test_step(size_t step)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct hutch_keys keys = { .pressed = on_pressed };
		size_t len = strlen(rows[i].typed), n = 0;
		char out[64] = { 0 };
		bool end = false;

		*pressed = '\0';
		for (size_t at = 0; at < len && !end; at += step) {
			char buf[64];
			size_t some = len - at < step ? len - at : step, taken;

			memcpy(buf + 1, rows[i].typed + at, some);
			taken = hutch_keys_take(&keys, buf, buf + 1, some, &end);
			ok(taken <= some + 1, "%s: no more than there is room for", rows[i].what);
			memcpy(out + n, buf, taken);
			n += taken;
		}
		is_str(out, rows[i].command, "%s, by %zu: the command's", rows[i].what, step);
		is_str(pressed, rows[i].escapes, "%s, by %zu: escapes", rows[i].what, step);
		ok(end == rows[i].end, "%s, by %zu: the end", rows[i].what, step);
	}
}

int main(void)
{
	auto_buf struct buf help = { 0 };

	test_step(1);
	test_step(2);
	test_step(64);
	ok(hutch_keys_help(&help) == 0 && strstr(help.data, "~.") && strstr(help.data, "~~"),
	   "help names them");
	for (const char *p = help.data; (p = strchr(p, '\n')); p++)
		ok(p[-1] == '\r', "help: a line of a raw terminal");
	return tap_done();
}
