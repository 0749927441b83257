/* hutch_node.h - a command that hutch starts, and the sandbox that it may make for it
 *
 * Both are held (`hold` of the tree) while hutch has them: should it be killed, the
 * kernel closes the handles, and hutchd ends what was started.
 */
#pragma once

#include "base/json.h"
#include "tools/hutch.h"

struct hutch_node {
	const struct hutch_root *root; /* borrowed */
	char box[NAME_MAX_LEN + 1];    /* "": none yet */
	char name[NAME_MAX_LEN + 1];   /* "": none yet */
	bool throw_away;               /* the sandbox is ours */
	int box_fd, box_hold;          /* owned; -1: none */
	int fd, hold;                  /* owned; -1: none. fd: the command's directory, O_PATH */
};

#define HUTCH_NODE_INIT(r)                                                      \
	{                                                                       \
		.root = (r), .box_fd = -1, .box_hold = -1, .fd = -1, .hold = -1 \
	}

/* Makes a sandbox with this spec and enters it. */
int hutch_node_make_box(struct hutch_node *, const cJSON *spec, struct err *);
/* Enters one that is there. */
int hutch_node_enter_box(struct hutch_node *, const char *box, struct err *);
/* Starts a command; `what` is its name in sentences. */
int hutch_node_start(struct hutch_node *, const cJSON *request, const char *what, struct err *);
/* Removes the command, so that it ends if it runs; the sandbox stays. */
void hutch_node_end(struct hutch_node *);
/* The same, and removes the sandbox if it is ours. Of one that has nothing: nothing happens. */
void hutch_node_done(struct hutch_node *);

/* {"cmd":[...]}, to which the caller adds; freed with cJSON_Delete(). NULL, with a sentence: not all
 * is UTF-8, or no memory. */
cJSON *hutch_request_new(const struct hutch_root *, const char *const *argv, struct err *);
