/* place.c - see place.h */
#include "tools/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"

/* `var` is what XDG calls the user's directory. */
struct place {
	const char *root;         /* as root */
	const char *var;          /* a user's: $var/below, */
	const char *home, *below; /* or ~/home/below without it; NULL: there is none */
};
const struct place place_mount = { "/run/hutch", "XDG_RUNTIME_DIR", NULL, "hutch" };
const struct place place_state = { "/var/lib/hutch", "XDG_STATE_HOME", ".local/state", "hutch" };
const struct place place_config = { "/etc/hutch/hutch.json", "XDG_CONFIG_HOME", ".config",
				    "hutch/hutch.json" };

int place_find(const struct place *p, const char *given, char **ret, struct err *err)
{
	const char *dir = getenv(p->var), *home = getenv("HOME");
	int r;

	if (given && *given != '/') {
		auto_free char *here = getcwd(NULL, 0);

		r = here ? asprintf(ret, "%s/%s", here, given) : -1;
	} else if (given) {
		r = asprintf(ret, "%s", given);
	} else if (geteuid() == 0) {
		r = asprintf(ret, "%s", p->root);
	} else if (dir && *dir) {
		r = asprintf(ret, "%s/%s", dir, p->below);
	} else if (p->home && home && *home) {
		r = asprintf(ret, "%s/%s/%s", home, p->home, p->below);
	} else {
		return err_say(err, ENOENT, "%s is not set: say where", p->var);
	}
	if (r < 0)
		*ret = NULL; /* asprintf leaves anything */
	return *ret ? 0 : err_set(err, ENOMEM, "start");
}
