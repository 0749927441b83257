/* request_file.h - how bytes that are written become requests
 *
 * Both `new` files and `cmd` work like this; what a request is made into is the
 * owner's.
 * Nothing here knows FUSE or 9P.
 *
 * The first byte decides.  { or [ begins JSON, which commits in the write that
 * completes the document, so that a bad one fails where `echo` sees it.
 * Anything else is text; nothing in a text says where it ends, so it commits
 *   - at the FLUSH whose lock owner is that of the last WRITE: a shell sends a
 *     FLUSH before any data, and children that inherited the handle send theirs
 *     when they end; neither is the writer closing;
 *   - at a READ of the same handle, which asks for the name;
 *   - at the RELEASE, if nothing did before.
 *
 * A write-only handle takes one request.  A read-write handle takes many and
 * gives their names back, as the lines of a stream of bytes.
 *
 * A handle that refused a write, or at a read what had been written, answers every
 * later write with the same errno: Python repeats a failed write when it closes, and
 * the other half of a broken document must not be run as a script.  For the same
 * reason nothing follows a document that never ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define REQUEST_FILE_NAMES_MAX (64 * 1024) /* bytes of names that nobody read */

struct request_file;

struct request_file_ops {
	/* Could a request of this form be taken now? Asked before the first byte of each. */
	int (*check)(struct request_file *, struct err *);
	/* May so many bytes be pending? Asked before they are, and told when none are any more. NULL:
	 * up to REQUEST_MAX. */
	int (*keeps)(struct request_file *, size_t len, struct err *);
	/* May these bytes stand in a text, behind those that are pending? NULL: all may, except
	 * NUL. */
	int (*check_text)(const struct request_file *, const char *bytes, size_t len, struct err *);
	/* Make it so, and append what it was named to `name`, without a newline. */
	int (*commit_json)(struct request_file *, struct buf *name, struct err *);
	int (*commit_text)(struct request_file *, struct buf *name, struct err *);
	/* A document that never ended: made into something that says so. NULL: refused, like any
	 * other. */
	int (*commit_broken)(struct request_file *, const char *why, struct buf *name,
			     struct err *);
	/* Something was refused: called once per refusal. */
	void (*refused)(struct request_file *, const struct err *);
	/* Is the thread that closes dying of a signal? */
	bool (*dying)(pid_t pid);
	const char *json_hint; /* what is added where JSON does not parse; "": nothing */
	const char *busy;      /* the sentence for a second request of a write-only handle */
	bool blank_first;      /* white space in front of JSON is nothing, not a text */
};

enum request_form { REQUEST_FORM_NONE, REQUEST_FORM_TEXT, REQUEST_FORM_JSON };

struct request_file {
	const struct request_file_ops *ops;
	void *arg;       /* the owner's; borrowed */
	bool both;       /* opened for reading too */
	bool taken;      /* a write-only handle's one request has been made */
	bool after_json; /* white space belongs to the document that was committed */
	bool broken;     /* a document of this handle never ended */
	int refused;     /* errno that writes get from here on; 0: none */
	enum request_form form;
	struct buf pending;
	struct json_scan scan;
	uint64_t owner;   /* of the last write with data */
	uint64_t unique;  /* of the transport's request that commits, while it does */
	struct buf names; /* lines that were not read yet */
};

void request_file_init(struct request_file *, const struct request_file_ops *, void *arg,
		       bool both);
void request_file_done(struct request_file *);

/* Which request of the transport this is. */
struct request_from {
	uint64_t owner;  /* lock owner, of WRITE and FLUSH */
	uint64_t unique; /* its number */
	pid_t pid;       /* its thread; 0: cannot be seen */
};

/* All `len` bytes, or a negative errno. */
ssize_t request_file_write(struct request_file *, const char *bytes, size_t len,
			   const struct request_from *, struct err *);
int request_file_flush(struct request_file *, const struct request_from *, struct err *);
/* Commits what is pending, then gives at most one line's bytes; 0: nothing is owed. What is
 * refused here is refused as a write would be. */
ssize_t request_file_read(struct request_file *, char *bytes, size_t len,
			  const struct request_from *, struct err *);
/* Commits what is pending. Nobody is left to hear of an error, except through ops->refused. */
void request_file_release(struct request_file *, uint64_t unique);
