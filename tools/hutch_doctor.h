/* hutch_doctor.h - what the checks of `hutch doctor` share */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "tools/hutch.h"

struct doctor_options {
	struct hutch_common common; /* first */
	bool json;
	const char *state_dir; /* NULL: hutchd's own default */
};

enum finding_kind { FINDING_OK, FINDING_NOTE, FINDING_MISSING };

struct finding {
	const struct doctor_options *asked; /* borrowed */
	enum finding_kind kind;
	char text[ERR_MSG_MAX]; /* one sentence: what there is, or what its lack costs */
};

struct doctor_check {
	const char *name;
	void (*look)(struct finding *);
};

#define FOUND(f, found, ...)                                               \
	do {                                                               \
		(f)->kind = (found);                                       \
		(void)snprintf((f)->text, sizeof((f)->text), __VA_ARGS__); \
	} while (0)

/* Those that try something in a child process: hutch_doctor_try.c */
void doctor_try_userns(struct finding *);
void doctor_try_overlay(struct finding *);
void doctor_try_idmap(struct finding *);
/* hutch_doctor_state.c */
void doctor_look_state(struct finding *);
