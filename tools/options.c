#include "tools/options.h"

#include <assert.h>
#include <getopt.h>
#include <string.h>

#include "base/auto.h"

#define FIRST_LONG  256 /* getopt's values for long options: above every letter */
#define HELP_COLUMN 26

/* getopt wants the same table twice, in two forms. */
static void fill(const struct option_set *set, struct option *lng, char *letters)
{
	if (set->operands_first)
		*letters++ = '+';
	*letters++ = ':'; /* a missing argument is told apart from an unknown option */
	for (size_t i = 0; i < set->n; i++) {
		const struct option_def *d = &set->def[i];

		lng[i] = (struct option){ .name = d->name,
					  .has_arg = d->arg ? required_argument : no_argument,
					  .val = FIRST_LONG + (int)i };
		if (!d->letter)
			continue;
		*letters++ = d->letter;
		if (d->arg)
			*letters++ = ':';
	}
	*letters = '\0';
	lng[set->n] = (struct option){ 0 };
}

static const struct option_def *find(const struct option_set *set, int val)
{
	if (val >= FIRST_LONG)
		return &set->def[val - FIRST_LONG];
	for (size_t i = 0; i < set->n; i++)
		if (set->def[i].letter == val)
			return &set->def[i];
	return NULL;
}

/* What getopt just stumbled over: a letter inside a cluster has no word of its own. */
static int complain(const struct option_set *set, int c, const char *word, struct err *err)
{
	const char letter[3] = { '-', (char)optopt, '\0' };
	const char *what = "no such option";

	if (c == ':')
		what = "an argument is missing";
	else if (optopt >= FIRST_LONG)
		what = "takes no argument";
	return err_say(err, EINVAL, "%s: %s (try '%s --help')",
		       optopt > 0 && optopt < FIRST_LONG ? letter : word, what, set->program);
}

int options_parse(const struct option_set *set, int argc, char **argv, void *obj, struct err *err)
{
	struct option lng[OPTIONS_MAX + 1];
	char letters[3 + 2 * OPTIONS_MAX];

	assert(set->n <= OPTIONS_MAX);
	fill(set, lng, letters);
	opterr = 0;
	optind = 0; /* glibc: begin anew, also after an earlier call */
	for (;;) {
		const struct option_def *d;
		int c, r;

		c = getopt_long(argc, argv, letters, lng, NULL);
		if (c < 0)
			return optind;
		d = c == '?' || c == ':' ? NULL : find(set, c);
		if (!d)
			return complain(set, c, argv[optind > 1 ? optind - 1 : 1], err);
		r = d->take(obj, optarg, err);
		if (r < 0)
			return err_wrap(err, r, "--%s", d->name);
	}
}

void options_help(const struct option_set *set, FILE *out)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct option_def *d = &set->def[i];
		int used;

		if (!d->doc)
			continue;
		used = d->letter ? fprintf(out, "  -%c, ", d->letter) : fprintf(out, "      ");
		used += fprintf(out, "--%s%s%s", d->name, d->arg ? " " : "", d->arg ? d->arg : "");
		(void)fprintf(out, "%*s%s\n", used < HELP_COLUMN ? HELP_COLUMN - used : 2, "",
			      d->doc);
	}
}
