/* exec_restore.c - the commands of a former hutchd, as its journal tells of them
 *
 * A line says that a command was accepted, another that it is over.  So one is made
 * as over already, and lost; what it has written is looked at when all lines are read.
 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

void exec_restore_written(struct exec *ex)
{
	struct sandbox *sb = ex->sandbox;

	ex->unwritten = false;
	ex->state = EXEC_DONE;
	quota_recount(ex);
	if (ex->request.id) {
		list_add_tail(&sb->ids_list, &ex->by_id);
		sb->ids_count++;
	} else {
		quota_finished(ex, true);
	}
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		ex->stream[i].ended = true;
	exec_last_set(sb, ex->request.by, ex->serial);
}

void exec_restore_streams(struct exec *ex)
{
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_restore(&ex->stream[i]);
	retain_over(ex);
}

int exec_restore(struct sandbox *sb, struct exec_record *rec, struct err *err)
{
	struct exec *ex = exec_new(sb);

	if (!ex)
		return err_set(err, ENOMEM, "bring back command %u", rec->serial);
	ex->serial = rec->serial;
	ex->number = rec->number;
	memcpy(ex->name, rec->name, sizeof(ex->name));
	ex->created_at = rec->created_at;
	ex->request = rec->request;
	ex->result = rec->result;
	rec->request = (struct exec_request){ 0 };
	rec->result = (struct exec_result){ 0 };
	ex->unwritten = rec->unwritten;
	ex->state = rec->unwritten ? EXEC_PENDING : EXEC_DONE;
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		ex->stream[i].changed_at = ex->created_at;
	exec_link(ex);
	if (ex->unwritten)
		quota_recount(ex);
	else
		exec_restore_written(ex);
	return 0;
}
