/* place.h - where hutchd's things are when nothing else was said */
#pragma once

#include "base/err.h"

struct place;
extern const struct place place_mount, place_state, place_config;

/* What was given, NULL if nothing was, as a path that begins with '/', which the caller frees.
 * -ENOENT: this user has no such place. */
int place_find(const struct place *, const char *given, char **ret, struct err *);
