/* hutch_doctor.h - what the checks of `hutch doctor` share */
#pragma once

#include <stdio.h>

#include "base/err.h"

enum finding_kind { FINDING_OK, FINDING_NOTE, FINDING_MISSING };

struct finding {
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
