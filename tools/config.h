/* config.h - hutchd's configuration: a JSON object, all of whose keys may be missing */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "fs/users.h"
#include "sandbox/sandbox.h"

struct config {
	mode_t root_mode; /* permission bits, and S_ISVTX */
	gid_t root_gid;   /* (gid_t)-1: the daemon's own */
	struct engine_limits limits;
	struct users_limits open;
	char id_tag[3]; /* "": none */
	char *cgroup;   /* owned; NULL: "auto" */
	char **mounts;  /* owned, as are the strings; NULL: none; ends with NULL */
};

/* The defaults. */
void config_init(struct config *);
void config_done(struct config *);
/* -ENOENT: there is no such file, and nothing has changed. Sentences name the file and the key. */
int config_read(struct config *, const char *path, struct err *);

/* For the man page. */
extern const struct json_key config_keys[], config_root_keys[], config_limit_keys[];
extern const size_t config_keys_n, config_root_keys_n, config_limit_keys_n;
