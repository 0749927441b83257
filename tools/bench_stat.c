/* bench_stat.c - samples, clocks */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tools/bench.h"

void samples_add(struct samples *s, double value)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 256;
		s->v = reallocarray(s->v, s->cap, sizeof(*s->v));
		if (!s->v)
			abort();
	}
	s->v[s->n++] = value;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double samples_quantile(struct samples *s, double q)
{
	if (s->n == 0)
		return (double)NAN;
	qsort(s->v, s->n, sizeof(*s->v), by_value);
	return s->v[(size_t)(q * (double)(s->n - 1) + 0.5)];
}

void samples_done(struct samples *s)
{
	free(s->v);
	*s = (struct samples){ 0 };
}

void print_aim(const char *what, bool most, double aim, double got)
{
	bool met = most ? got <= aim : got >= aim;

	if (isnan(got))
		printf("%-58s %s %-6.3g (not measured)\n", what, most ? "<=" : ">=", aim);
	else
		printf("%-58s %s %-6.3g %.3g (%s)\n", what, most ? "<=" : ">=", aim, got,
		       met ? "ok" : "missed");
}

int64_t bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void bench_pause_ms(unsigned ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&ts, NULL);
}
