/* engine.h - an engine on a directory of its own, for tests: real sandboxes, no tree */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/ev.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"
#include "tests/unit/built.h"
#include "tests/unit/fds.h"
#include "tests/unit/tap.h"
#include "tests/unit/turn.h"

static char dir[] = "/tmp/hutch-test-XXXXXX";
static int agent_fd;
static const char *kind = "auto"; /* of control groups */

static inline struct engine *open_engine(void)
{
	struct engine_config config = {
		.loop = &loop, .state_dir = dir, .agent_fd = agent_fd, .cgroup = kind
	};
	struct engine *eng = NULL;
	struct err err = { 0 };

	ok(engine_new(&eng, &config, &err) == 0, "engine opens: %s", err.msg);
	return eng;
}

static inline struct sandbox *make_box(struct engine *eng, const char *id)
{
	struct spec spec = { 0 };
	struct sandbox *sb = NULL;
	struct err err = { 0 };

	(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
	ok(sandbox_create(eng, &spec, 0, 0, &sb, &err) == 0, "box '%s' is made: %s", id, err.msg);
	return sb;
}

/* A reference; NULL when it was refused. */
static inline struct exec *run(struct sandbox *sb, const char *request)
{
	struct exec_request req = { 0 };
	struct exec *ex = NULL;
	struct err err = { 0 };
	int r = exec_request_parse(&req, NULL, request, strlen(request), &err);

	if (r == 0)
		r = exec_create(sb, &req, &ex, &err);
	if (r < 0) {
		printf("# %s: %s\n", request, err.msg);
		exec_request_done(&req);
		return NULL;
	}
	return exec_ref(ex);
}

static inline void read_all(struct stream *st, char *out, size_t cap)
{
	struct stream_reader rd;
	ssize_t n;

	out[0] = '\0';
	if (!turn_until(st->ended))
		return;
	stream_open(&rd, st);
	(void)turn_until((n = stream_read(&rd, out, cap - 1, 0)) != -EAGAIN);
	out[n > 0 ? n : 0] = '\0';
	stream_close(&rd);
}

/* The agent, a state directory and the loop.  The test ends here where it cannot run. */
static inline void engine_test_begin(void)
{
	struct rlimit files;

	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		exit(0);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* as hutchd does: 1024 are few commands */
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	agent_fd = built_agent();
	if (agent_fd >= 0 && mkdtemp(dir) && ev_init(&loop, NULL) == 0)
		return;
	printf("Bail out! no agent, state directory or loop\n");
	exit(1);
}

static inline void engine_close(struct engine *eng)
{
	engine_free(eng);
	(void)ev_turn(&loop, 0); /* what the loop still had in its hands */
}

static inline int engine_test_end(void)
{
	char cmd[64];

	ev_done(&loop);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	ok(system(cmd) == 0, "cleaned up");
	return tap_done();
}
