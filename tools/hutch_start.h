/* hutch_start.h - what `hutch run` and `hutch shell` have in common
 *
 * The options that say how a command is started, the sandbox that it is started in,
 * its request, and what is said when it did not end by itself.
 */
#pragma once

#include "tools/hutch_node.h"
#include "tools/hutch_relay.h"

struct hutch_start {
	struct hutch_common common; /* first */
	const char *name;           /* of the command of hutch */
	struct hutch_root root;
	struct hutch_node node;
	const char *const *argv; /* of the command; borrowed, NULL at its end */
	const char *box;         /* borrowed; NULL: a throw-away one */
	cJSON *env, *mounts;     /* owned; NULL: none */
	const char *cwd, *user;  /* borrowed; NULL: the sandbox's */
	double timeout_s;        /* 0: not given */
};

void hutch_start_init(struct hutch_start *, const char *name);
/* Removes what was started. */
void hutch_start_done(struct hutch_start *);

int hutch_take_mount(void *obj, const char *value, struct err *);
int hutch_take_env(void *obj, const char *value, struct err *);
int hutch_take_cwd(void *obj, const char *value, struct err *);
int hutch_take_user(void *obj, const char *value, struct err *);
int hutch_take_timeout(void *obj, const char *value, struct err *);
/* Rows for a set whose object begins with a struct hutch_start. */
/* clang-format off */
#define HUTCH_OPTIONS_START                                                                      \
	{ "mount", 'm', "SRC[:DST][:rw]", hutch_take_mount,                                      \
	  "show it a directory of this machine" },                                               \
	{ "env", 'e', "NAME[=VALUE]", hutch_take_env,                                            \
	  "set a variable, or pass on the one that is here" },                                   \
	{ "cwd", 'w', "DIR", hutch_take_cwd, "where it begins, inside" },                        \
	{ "timeout", 't', "SECONDS", hutch_take_timeout,                                         \
	  "kill it after so long: exit status 124" },                                            \
	{ "user", 'u', "USER", hutch_take_user, "as whom, inside: a name, UID or UID:GID" }
/* clang-format on */

/* `box` may be NULL, and then a sandbox is made; argv ends with NULL. -EINVAL: options that do not
 * go with a sandbox that is there. */
int hutch_start_operands(struct hutch_start *, const char *box, const char *const *argv,
			 struct err *);
/* Enters the sandbox, or makes one. */
int hutch_start_box(struct hutch_start *, struct err *);
/* The request, which the caller frees, or NULL with a sentence. */
cJSON *hutch_start_request(const struct hutch_start *, struct err *);
/* What the exit status alone does not tell, on stderr: the command did not end by itself. */
void hutch_start_explain(const struct hutch_start *, const struct relay_outcome *);
/* Returns r, with a better sentence when what failed is that hutchd has died. */
int hutch_start_sentence(const struct hutch_start *, int r, struct err *);
