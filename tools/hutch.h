/* hutch.h - what the commands of hutch share
 *
 * hutch is for people: it does nothing that a shell with echo and cat could not
 * do on the mounted tree.  A command is a file hutch_NAME.c with one function
 * and one set of options, and a row in hutch.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"
#include "tools/options.h"

struct hutch_root;

/* A command in a sandbox may exit with anything; when hutch itself fails, it is with this. */
#define HUTCH_EXIT_FAILED 125

/* What an operand can be, for completion. */
enum hutch_operand {
	HUTCH_OPERAND_NONE,
	HUTCH_OPERAND_BOX,   /* one sandbox */
	HUTCH_OPERAND_EXEC,  /* one of BOX/EXEC */
	HUTCH_OPERAND_EXECS, /* any number of BOX or BOX/EXEC */
	HUTCH_OPERAND_RUN,   /* a sandbox, then a command of the shell's */
	HUTCH_OPERAND_COPY,  /* BOX:PATH or a file */
};

struct hutch_command {
	const char *name;
	const char *operands; /* for the usage line */
	enum hutch_operand operand;
	const char *doc;  /* one line, for the list of commands */
	const char *text; /* the rest of its help */
	const struct option_set *options;
	/* argv[0] is the command's name. An exit status, or a negative errno with a sentence,
	 * which is status HUTCH_EXIT_FAILED. */
	int (*run)(const struct hutch_command *, int argc, char **argv, struct err *);
};

int hutch_cp(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_cp_options;
int hutch_doctor(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_doctor_options;
int hutch_events(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_events_options;
int hutch_kill(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_kill_options;
int hutch_logs(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_logs_options;
int hutch_ls(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_ls_options;
int hutch_ps(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_ps_options;
int hutch_rm(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_rm_options;
int hutch_run(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_run_options;
int hutch_shell(const struct hutch_command *, int argc, char **argv, struct err *);
extern const struct option_set hutch_shell_options;

/* What could stand where the last word stands, for a shell's completion, a line each. */
int hutch_complete(const struct hutch_command *commands, size_t n, int words, char **word);

/* The first member of what a command's options are taken into, and the row that goes with it. */
struct hutch_common {
	bool help;
};
#define HUTCH_OPTION_HELP                                            \
	{                                                            \
		"help", 'h', NULL, hutch_take_help, "show this help" \
	}
int hutch_take_help(void *obj, const char *value, struct err *);

/* As options_parse(); 0: help was asked for and shown, there is nothing more to do. */
int hutch_options(const struct hutch_command *, int argc, char **argv, void *obj, struct err *);
/* Operands, NULL behind the last, of which there is at least one and each stands for itself: `one`
 * does it, and what fails is a warning. As hutch_command.run. */
int hutch_each(const struct hutch_command *, char **words,
	       int (*one)(const struct hutch_root *, const char *word, const void *opt,
			  struct err *),
	       const void *opt, struct err *);
/* Wrong operands: the sentence, and where the help is. Returns -EINVAL. */
int hutch_misused(const struct hutch_command *, struct err *, const char *what);
/* A warning, for what does not change the exit status: "hutch: ..." on stderr. */
void hutch_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* Ends this process as a signal ends one that was not prepared for it; returns 128 + sig if that
 * fails, as an exit status. */
int hutch_end_by_signal(int sig);

/* ---- the mounted tree: hutch_tree.c ---- */

struct hutch_root {
	int fd;                      /* owned: the root of the tree; -1: not open */
	char *path;                  /* owned */
	char since[RFC3339_LEN + 1]; /* refusals older than this were somebody else's */
};

/* Finds the tree: $HUTCH, else the default place of this user. If there is none, the sentence
 * says so and how to start one. */
int hutch_root_open(struct hutch_root *, struct err *);
void hutch_root_done(struct hutch_root *);

/* The directory of a sandbox: a descriptor that the caller owns, or a negative errno. */
int hutch_box_open(const struct hutch_root *, const char *id, struct err *);

/* For an operation that the tree refused with errno `code`: "WHAT: why", with the tree's own
 * explanation where there is one. Returns -code. */
int hutch_refused(const struct hutch_root *, int code, const char *what, struct err *);

/* A small file as text, without its last newline. Never waits: -EAGAIN if it would. */
int hutch_read_text(int dirfd, const char *path, char *text, size_t size);
/* All of a text into a file that takes verbs or requests. 0 or a negative errno. */
int hutch_write_text(int dirfd, const char *path, const char *text);

/* ---- what is in it: hutch_names.c ---- */

struct hutch_names {
	char **v; /* owned, as is each */
	size_t n, cap;
};

/* The sandboxes that this user may enter, in order. Those of a box: its commands; numbers as
 * numbers, names behind them. */
int hutch_names_boxes(const struct hutch_root *, struct hutch_names *, struct err *);
int hutch_names_execs(int box_fd, struct hutch_names *);
void hutch_names_done(struct hutch_names *);

/* BOX or BOX/EXEC, as people write it. */
struct hutch_target {
	char box[NAME_MAX_LEN + 1];
	char exec[NAME_MAX_LEN + 1];               /* "": the sandbox */
	int box_fd;                                /* owned: hutch_target_done() */
	char path[sizeof("exec/") + NAME_MAX_LEN]; /* of the command from box_fd on; "." else */
};

/* -ENOENT with a sentence if there is no such thing. "last" is resolved to what it points to. */
int hutch_target_open(const struct hutch_root *, const char *word, struct hutch_target *,
		      struct err *);
void hutch_target_done(struct hutch_target *);

/* Is this what `status` says of a command that has no result yet? */
bool hutch_status_live(const char *status);
