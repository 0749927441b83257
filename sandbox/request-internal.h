/* request-internal.h - what spec.c and request.c share: values that both kinds of request have */
#pragma once

#include "sandbox/request.h"

/* What spec_parse() and exec_request_parse() do behind the parser. */
int spec_take(struct spec *ret, const cJSON *doc, struct err *);
int exec_request_take(struct exec_request *ret, const struct exec_request *base, const cJSON *doc,
		      struct err *);
/* Keys only, into a request that is there: for `set` and for a spec's `exec`. */
int exec_request_take_defaults(struct exec_request *, const cJSON *doc, struct err *);

/* Each replaces *ret by a copy of the value; "must be …" with -EINVAL otherwise. */
int request_take_env(struct env *ret, const cJSON *value, struct err *);
int request_take_cwd(char **ret, const cJSON *value, struct err *);
int request_take_user(char **ret, const cJSON *value, struct err *);

/* Lays the members over what is there. */
int request_take_pty(struct exec_pty *ret, const cJSON *value, struct err *err);
/* Do its terminal and its stdio go together? EINVAL. */
int request_check_pty(const struct exec_request *, struct err *);
bool request_same_pty(const struct exec_pty *, const struct exec_pty *);
/* Appends ,"pty":{...} */
int request_print_pty(struct buf *, const struct exec_pty *);

/* Appends ,"key":"value" (or null, where value is NULL). */
int request_print_string(struct buf *, const char *key, const char *value);
/* Appends ,"key":{…} */
int request_print_env(struct buf *, const char *key, const struct env *);
/* Appends the keys that differ from the defaults, each with a comma in front; not the command. */
int exec_request_print_keys(const struct exec_request *, struct buf *);
