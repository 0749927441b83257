/* turn.h - the event loop of a test, and waiting with it */
#pragma once

#include "base/ev.h"
#include "tests/unit/tap.h"

static struct ev_loop loop;

/* Lets the loop go on until `cond`; its value, false when that did not come about. */
#define turn_until(cond)                                \
	({                                              \
		int64_t end_ = ev_now() + patience(20); \
                                                        \
		while (!(cond) && ev_now() < end_)      \
			(void)ev_turn(&loop, 100);      \
		(cond);                                 \
	})
