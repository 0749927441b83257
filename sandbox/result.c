/* result.c - a command's state as text: status, result.json, and back from the journal */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/text.h"
#include "sandbox/sandbox-internal.h"

static const char *const reason_name[] = {
	[EXEC_REASON_NONE] = "",          [EXEC_EXITED] = "exited",
	[EXEC_SIGNALED] = "signaled",     [EXEC_TIMED_OUT] = "timed_out",
	[EXEC_OOM_KILLED] = "oom_killed", [EXEC_KILLED] = "killed",
	[EXEC_FAILED] = "failed",         [EXEC_LOST] = "lost",
};

const char *exec_reason_name(enum exec_reason reason)
{
	return reason_name[reason];
}

/* Every number has a text: a real-time signal without a name is "SIG42". */
static int print_signal(struct buf *out, int sig)
{
	const char *name = signal_name(sig);

	return name ? buf_printf(out, "%s", name) : buf_printf(out, "SIG%d", sig);
}

/* Its output may wait for a reader. */
static int print_going(const struct exec *ex, struct buf *out)
{
	bool full[] = { ex->stream[EXEC_STDOUT].full, ex->stream[EXEC_STDERR].full };

	return buf_printf(out, "%s%s%s%s%s", ex->state == EXEC_PENDING ? "pending" : "running",
			  full[0] || full[1] ? " (" : "", full[0] ? "stdout" : "",
			  full[1] ? full[0] ? " and stderr" : "stderr" : "",
			  full[0] || full[1] ? " full)" : "");
}

int exec_status_print(const struct exec *ex, struct buf *out)
{
	const struct exec_result *res = &ex->result;
	int r;

	if (ex->state != EXEC_DONE)
		return print_going(ex, out);
	r = buf_printf(out, "%s", reason_name[res->reason]);
	if (r == 0 && res->reason == EXEC_EXITED)
		r = buf_printf(out, " %d", res->exit_code);
	if (r == 0 && res->reason == EXEC_SIGNALED) {
		r = buf_printf(out, " ");
		if (r == 0)
			r = print_signal(out, res->signal);
	}
	if (r == 0 && res->reason == EXEC_FAILED) {
		const char *why = res->error ? res->error : "no memory to say why";

		r = buf_printf(out, ": ");
		if (r == 0)
			r = text_escape(out, why, strlen(why));
	}
	return r;
}

/* --- result.json --- */

static const struct {
	const char *key;
	size_t offset;
} usage_key[] = {
	{ "cpu_user_ms", offsetof(struct exec_usage, cpu_user_ms) },
	{ "cpu_sys_ms", offsetof(struct exec_usage, cpu_sys_ms) },
	{ "peak_memory_bytes", offsetof(struct exec_usage, peak_memory_bytes) },
	{ "page_faults_major", offsetof(struct exec_usage, page_faults_major) },
	{ "context_switches_involuntary",
	  offsetof(struct exec_usage, context_switches_involuntary) },
	{ "io_read_bytes", offsetof(struct exec_usage, io_read_bytes) },
	{ "io_write_bytes", offsetof(struct exec_usage, io_write_bytes) },
};

static int print_usage(const struct exec_usage *usage, struct buf *out)
{
	int r = buf_printf(out, ",\"usage\":");

	if (r == 0 && !usage->collected)
		return buf_printf(out, "null");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(usage_key); i++) {
		uint64_t n;

		memcpy(&n, (const char *)usage + usage_key[i].offset, sizeof(n));
		r = buf_printf(out, "%s\"%s\":", i ? "," : "{", usage_key[i].key);
		if (r == 0)
			r = n == USAGE_UNKNOWN ? buf_printf(out, "null")
					       : buf_printf(out, "%" PRIu64, n);
	}
	return r < 0 ? r : buf_printf(out, "}");
}

static const char *bool_text(bool b)
{
	return b ? "true" : "false";
}

int exec_result_print(const struct exec *ex, struct buf *out)
{
	const struct exec_result *res = &ex->result;
	const char *error = res->error ? res->error : "";
	char started[RFC3339_LEN + 1], finished[RFC3339_LEN + 1];
	int r = buf_printf(out, "{\"exit_code\":%d,\"duration_ms\":%" PRId64 ",\"signal\":\"",
			   res->exit_code, res->duration_ms);

	if (r == 0 && res->signal)
		r = print_signal(out, res->signal);
	if (r == 0)
		r = buf_printf(out, "\",\"timed_out\":%s,\"oom_killed\":%s,\"error\":",
			       bool_text(res->reason == EXEC_TIMED_OUT),
			       bool_text(res->oom_killed));
	if (r == 0)
		r = json_put_string(out, error, strlen(error));
	if (r == 0)
		r = print_usage(&res->usage, out);
	rfc3339(started, &res->started_at);
	rfc3339(finished, &res->finished_at);
	if (r == 0)
		r = buf_printf(out,
			       ",\"reason\":\"%s\",\"pid\":%d,\"started_at\":\"%s\","
			       "\"finished_at\":\"%s\",\"stdout_bytes\":%" PRIu64
			       ",\"stderr_bytes\":%" PRIu64
			       ",\"truncated\":%s,\"streams_open\":%s}",
			       reason_name[res->reason], (int)res->pid, started, finished,
			       res->stream_bytes[EXEC_STDOUT], res->stream_bytes[EXEC_STDERR],
			       bool_text(res->truncated), bool_text(res->streams_open));
	return r;
}

/* --- and back --- */

static bool flag(const cJSON *obj, const char *key)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(obj, key));
}

static const char *string(const cJSON *obj, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(obj, key));

	return text ? text : "";
}

static void parse_usage(struct exec_usage *ret, const cJSON *obj)
{
	ret->collected = cJSON_IsObject(obj);
	for (size_t i = 0; ret->collected && i < ARRAY_SIZE(usage_key); i++) {
		int64_t known = json_int(obj, usage_key[i].key, 0, JSON_INT_MAX, -1);
		uint64_t n = known < 0 ? USAGE_UNKNOWN : (uint64_t)known;

		memcpy((char *)ret + usage_key[i].offset, &n, sizeof(n));
	}
}

int exec_result_parse(struct exec_result *ret, const cJSON *obj, struct err *err)
{
	struct exec_result res = {
		.exit_code = (int)json_int(obj, "exit_code", 0, 255, -1),
		.duration_ms = json_int(obj, "duration_ms", 0, JSON_INT_MAX, 0),
		.oom_killed = flag(obj, "oom_killed"),
		.truncated = flag(obj, "truncated"),
		.streams_open = flag(obj, "streams_open"),
		.pid = (pid_t)json_int(obj, "pid", 0, INT32_MAX, 0),
	};
	const char *reason = string(obj, "reason"), *error = string(obj, "error");
	int sig = signal_number(string(obj, "signal"));

	for (enum exec_reason i = EXEC_EXITED; i < EXEC_REASON_COUNT; i++)
		if (strcmp(reason, reason_name[i]) == 0)
			res.reason = i;
	if (!res.reason)
		return err_say(err, EINVAL, "a result without a reason");
	if (sig > 0)
		res.signal = sig;
	res.stream_bytes[EXEC_STDOUT] = (uint64_t)json_int(obj, "stdout_bytes", 0, JSON_INT_MAX, 0);
	res.stream_bytes[EXEC_STDERR] = (uint64_t)json_int(obj, "stderr_bytes", 0, JSON_INT_MAX, 0);
	(void)rfc3339_parse(string(obj, "started_at"), &res.started_at);
	(void)rfc3339_parse(string(obj, "finished_at"), &res.finished_at);
	parse_usage(&res.usage, cJSON_GetObjectItemCaseSensitive(obj, "usage"));
	if (*error && !(res.error = strdup(error)))
		return err_set(err, ENOMEM, "read a result");
	*ret = res;
	return 0;
}

void exec_result_done(struct exec_result *res)
{
	free(res->error);
	*res = (struct exec_result){ 0 };
}
