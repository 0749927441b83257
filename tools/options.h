/* options.h - the options of a program as a table, over getopt_long
 *
 *	static const struct option_def defs[] = {
 *		{ "state-dir", 0, "DIR", take_state_dir, "where sandboxes are kept" },
 *		{ "foreground", 'f', NULL, take_foreground, "stay in the foreground" },
 *		{ "help", 'h', NULL, take_help, "show this help" },
 *	};
 *	static const struct option_set set = { "hutchd", defs, ARRAY_SIZE(defs), false };
 *
 *	r = options_parse(&set, argc, argv, &app, &err);
 *	if (r < 0) ...		err.msg is the one line for stderr
 *	operands = argv + r;
 *
 * The help text is a column of the table: there is no second list to forget.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

struct option_def {
	const char *name; /* long form, without the dashes */
	char letter;      /* short form; 0: none */
	const char *arg;  /* what its argument is called in the help; NULL: it takes none */
	/* Takes it into `obj`; `value` is NULL without an argument and otherwise lives as long as
	 * argv. 0, or a negative errno with a sentence; "--name: " is prepended to that. */
	int (*take)(void *obj, const char *value, struct err *);
	const char *doc; /* one line; NULL: not shown in the help */
};

/* Defines take(): sets `field`, a bool of what the options are taken into. */
#define OPTION_FLAG(take, type, field)                                 \
	static int take(void *obj, const char *value, struct err *err) \
	{                                                              \
		(void)value;                                           \
		(void)err;                                             \
		((type *)obj)->field = true;                           \
		return 0;                                              \
	}

struct option_set {
	const char *program; /* for sentences: "hutchd", "hutch run" */
	const struct option_def *def;
	size_t n;            /* at most OPTIONS_MAX */
	bool operands_first; /* what follows the first operand is never an option, as for
			      * `hutch run BOX COMMAND --its-own` */
};

#define OPTIONS_MAX 40

/* Calls take() in the order of the command line; argv[0] is skipped. Returns the index of the first
 * operand in argv (which may have been reordered), or -EINVAL with a sentence that names the
 * option and the program's --help. May be called again with another argv. */
int options_parse(const struct option_set *, int argc, char **argv, void *obj, struct err *);

/* One line per option that has a doc, aligned: "  -f, --foreground     stay in the foreground". */
void options_help(const struct option_set *, FILE *out);
