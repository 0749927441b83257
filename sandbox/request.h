/* request.h - what a user asks for: a sandbox (spec) or a command (request)
 *
 * Parsing only: no side effects, so that a bad request leaves nothing behind.
 * The keys are tables in request.c and spec.c; help and man page print them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#define REQUEST_MAX     (1024 * 1024) /* bytes of one request: E2BIG above */
#define SPEC_MOUNTS_MAX 64
#define REQUEST_ARG_MAX (128 * 1024 - 1) /* bytes of one argument: the kernel's MAX_ARG_STRLEN */

/* "KEY=VALUE" strings. */
struct env {
	char **v; /* owned, as are the strings; not NULL-terminated */
	size_t n;
};
/* Replaces or adds. 0 or -ENOMEM. */
int env_set(struct env *, const char *key, const char *value);
/* The value of `key`, or NULL. */
const char *env_get(const struct env *, const char *key);
int env_copy(struct env *to, const struct env *from);
void env_done(struct env *);

#define OUTPUT_LIMIT_DEFAULT ((uint64_t)256 << 20) /* bytes of each stream */

#define PTY_SIZE_MAX 65535 /* rows or columns */
#define PTY_TERM_MAX 64

/* A terminal. */
struct exec_pty {
	bool on; /* else pipes, and the rest is zeroes */
	uint16_t rows, cols;
	char term[PTY_TERM_MAX + 1]; /* "": the sandbox's, or the default */
};

enum exec_stdio { EXEC_STDIO_PIPE, EXEC_STDIO_NULL, EXEC_STDIO_MERGE /* stderr only */ };

struct exec_request {
	char **argv; /* NULL: a script */
	size_t argc;
	char *script; /* NUL-terminated, for display; script_len bytes, no NUL inside */
	size_t script_len;
	struct env env;
	char *cwd, *user;
	double timeout_s;                                     /* <= 0: none */
	enum exec_stdio stdin_mode, stdout_mode, stderr_mode; /* with pty: none of them NULL */
	struct exec_pty pty;
	uint64_t output_limit; /* bytes that each stream keeps; 0: OUTPUT_LIMIT_DEFAULT */
	bool drops;            /* on_full: what is over that is thrown away; false: it waits */
	bool keep;             /* its output is never given back */
	char *id;        /* NULL: none; else the node's name, and what makes a start idempotent */
	char *broken;    /* not NULL: the node is made and says `failed: <this>`; nothing runs */
	uid_t by;        /* who asked: whose `last` moves */
	uint64_t unique; /* of the transport's request that committed it; 0: unknown */
};

/* `base` holds what keys have when the request does not set them: a sandbox's `exec`, or what
 * `set` was told of a named node; env is laid over it. NULL: the defaults.
 *
 * `bytes` is a whole JSON document, an object or an array. On failure ret is untouched. */
int exec_request_parse(struct exec_request *ret, const struct exec_request *base, const char *bytes,
		       size_t len, struct err *);
/* A text script. It must hold no NUL. */
int exec_request_script(struct exec_request *ret, const struct exec_request *base,
			const char *bytes, size_t len, struct err *);
/* `set KEY VALUE`: members are dotted (env.CC); `cmd` and `id` cannot be set. */
int exec_request_set(struct exec_request *, const char *key, const char *value, struct err *);
/* The same command in the same surroundings? Who asked does not count. */
bool exec_request_equal(const struct exec_request *, const struct exec_request *);
/* What never became a request: the node will say `failed: why`. */
int exec_request_broken(struct exec_request *ret, const char *bytes, size_t len, const char *why);
void exec_request_done(struct exec_request *);
/* Bytes that each stream keeps, the default filled in. */
uint64_t exec_request_output_limit(const struct exec_request *);
/* About how many bytes of memory it takes. */
size_t exec_request_size(const struct exec_request *);
/* The `cmd` node: the request as one line of JSON; without a command what was set, or nothing. */
int exec_request_print(const struct exec_request *, struct buf *);

/* A directory of the host's that a sandbox sees. */
struct spec_mount {
	char *source, *target; /* absolute */
	bool readonly;
};

struct spec {
	char id[NAME_MAX_LEN + 1];       /* "": one is made up */
	char hostname[NAME_MAX_LEN + 1]; /* "": the id */
	struct env env;                  /* over the defaults, under each command's own */
	char *cwd;                       /* NULL: the user's home */
	char *user;                      /* NULL: 0 */
	struct exec_request exec;        /* defaults of its commands; argv and script are NULL */
	struct spec_mount *mounts;
	size_t mounts_n;
	struct env labels;
	uint64_t output_max; /* bytes of output that are kept of all its commands; 0: the default */
	double ttl_s;        /* > 0: it is removed so long after it was made */
	double idle_timeout_s; /* > 0: it is stopped when no command has run for so long */
};

/* A blank text is the default spec; anything else must be a JSON object. */
int spec_parse(struct spec *ret, const char *bytes, size_t len, struct err *);
void spec_done(struct spec *);
/* spec.json: every key, defaults filled in. */
int spec_print(const struct spec *, struct buf *);

extern const struct json_key spec_keys[], exec_request_keys[];
extern const size_t spec_keys_n, exec_request_keys_n;
