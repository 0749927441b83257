/* table.h - lists for people and for programs
 *
 * On a terminal: a header, aligned columns, the last one cut at the edge, and colours
 * unless NO_COLOR is set.  Elsewhere: tabs, no header.  As JSON: an array with a
 * line for each object.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define TABLE_COLUMNS 6

struct table {
	const char *const *head; /* borrowed */
	size_t columns;          /* at most TABLE_COLUMNS */
	int coloured;            /* the column whose words have colours; -1: none */
	char **cell;             /* owned, as is each: rows * columns */
	size_t rows, cap;
};

/* Copies one string for each column. 0 or -ENOMEM. */
int table_add(struct table *, const char *const *cells);
void table_print(const struct table *);
void table_done(struct table *);

/* The colour in which a word of a state or status is shown on standard output, as an escape
 * sequence, and its end; both "" where there are no colours. */
const char *colour_begin(const char *word);
const char *colour_end(const char *word);

int print_json_array(const cJSON *array, struct err *);
