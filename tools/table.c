#include "tools/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/text.h"

int table_add(struct table *t, const char *const *cells)
{
	if (t->rows == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 16;
		char **cell = reallocarray(t->cell, cap * t->columns, sizeof(*cell));

		if (!cell)
			return -ENOMEM;
		t->cell = cell;
		t->cap = cap;
	}
	for (size_t i = 0; i < t->columns; i++)
		t->cell[t->rows * t->columns + i] = strdup(cells[i]);
	t->rows++;
	for (size_t i = 0; i < t->columns; i++)
		if (!t->cell[(t->rows - 1) * t->columns + i])
			return -ENOMEM;
	return 0;
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->rows * t->columns; i++)
		free(t->cell[i]);
	free(t->cell);
	t->cell = NULL;
	t->rows = t->cap = 0;
}

/* ---- colours ---- */

static const char *colour_of(const char *word)
{
	static const struct {
		const char *word, *sequence;
	} colours[] = {
		{ "running", "\033[32m" },    { "exited 0", "\033[2m" },
		{ "stopped", "\033[2m" },     { "ok", "\033[32m" },
		{ "note", "\033[33m" },       { "missing", "\033[31m" },
		{ "creating", "\033[33m" },   { "pending", "\033[33m" },
		{ "failed", "\033[31m" },     { "quarantined", "\033[31m" },
		{ "exited", "\033[31m" },     { "signaled", "\033[31m" },
		{ "timed_out", "\033[31m" },  { "killed", "\033[31m" },
		{ "oom_killed", "\033[31m" }, { "lost", "\033[31m" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(colours); i++) {
		size_t len = strlen(colours[i].word);

		if (strncmp(word, colours[i].word, len) == 0 &&
		    (!word[len] || strchr(" :", word[len])))
			return colours[i].sequence;
	}
	return "";
}

static bool colours_wanted(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && !(term && strcmp(term, "dumb") == 0) && isatty(STDOUT_FILENO);
}

const char *colour_begin(const char *word)
{
	return colours_wanted() ? colour_of(word) : "";
}

const char *colour_end(const char *word)
{
	return *colour_begin(word) ? "\033[0m" : "";
}

/* ---- columns ---- */

/* Code points, as many as fit into `room`; *ret_len is what they take in bytes. */
static size_t columns_of(const char *text, size_t room, size_t *ret_len)
{
	size_t left = strlen(text), columns = 0;
	const char *at = text;

	while (left > 0 && columns < room) {
		size_t len = utf8_next(at, left, NULL);

		len = len ? len : 1;
		at += len;
		left -= len;
		columns++;
	}
	*ret_len = (size_t)(at - text);
	return columns;
}

static size_t terminal_width(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
									       : SIZE_MAX;
}

static void print_row(const struct table *t, const char *const *cells, const size_t *width,
		      bool head)
{
	size_t used = 0, edge = terminal_width(), len;

	for (size_t i = 0; i < t->columns; i++) {
		bool last = i + 1 == t->columns, colour = !head && (int)i == t->coloured;
		size_t room = !last ? SIZE_MAX : used < edge ? edge - used : 1;
		size_t n = columns_of(cells[i], room, &len);

		printf("%s%.*s%s%*s", colour ? colour_begin(cells[i]) : "", (int)len, cells[i],
		       colour ? colour_end(cells[i]) : "", last ? 0 : (int)(width[i] - n + 2), "");
		used += width[i] + 2;
	}
	putchar('\n');
}

static void print_aligned(const struct table *t)
{
	size_t width[TABLE_COLUMNS] = { 0 }, len;

	for (size_t i = 0; i < t->columns; i++)
		width[i] = columns_of(t->head[i], SIZE_MAX, &len);
	for (size_t i = 0; i < t->rows * t->columns; i++) {
		size_t n = columns_of(t->cell[i], SIZE_MAX, &len);

		if (n > width[i % t->columns])
			width[i % t->columns] = n;
	}
	print_row(t, t->head, width, true);
	for (size_t i = 0; i < t->rows; i++)
		print_row(t, (const char *const *)t->cell + i * t->columns, width, false);
}

void table_print(const struct table *t)
{
	if (isatty(STDOUT_FILENO)) {
		print_aligned(t);
		return;
	}
	for (size_t i = 0; i < t->rows * t->columns; i++)
		printf("%s%c", t->cell[i], (i + 1) % t->columns ? '\t' : '\n');
}

int print_json_array(const cJSON *array, struct err *err)
{
	const cJSON *item;
	bool first = true;

	cJSON_ArrayForEach (item, array) {
		auto_free char *text = cJSON_PrintUnformatted(item);

		if (!text)
			return err_set(err, ENOMEM, "print the list");
		printf("%s%s", first ? "[" : ",\n ", text);
		first = false;
	}
	puts(first ? "[]" : "]");
	return 0;
}
