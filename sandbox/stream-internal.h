/* stream-internal.h - what the engine's files share of a command's streams */
#pragma once

#include "base/buf.h"
#include "sandbox/arrival.h"
#include "sandbox/exec.h"

/* --- stream.c: what exec_start.c needs to set streams up, and exec_end.c to settle them --- */

void stream_init(struct stream *, struct exec *, enum exec_stream);
/* Takes the pipe's reading end. */
int stream_attach(struct stream *, int fd);
/* Begins to move exactly the bytes that are in the pipe now, and notices an end; while
 * `settling` is set it goes on, and exec_on_settled() tells. */
void stream_settle(struct stream *);
/* Finished, from the journal: the spool's size is looked up. */
void stream_restore(struct stream *);
void stream_end(struct stream *);
void stream_done(struct stream *);
void stream_unlink(struct stream *);

/* --- among the stream*.c and retain.c --- */

#define SPOOL_NAME_LEN 64
void stream_spool_name(const struct stream *, char out[SPOOL_NAME_LEN]);
struct disk *stream_disk(const struct stream *);
/* Its pipe is not looked at, or again. */
void stream_pause(struct stream *);
void stream_resume(struct stream *);
void stream_settle_on(struct stream *);
void stream_settled(struct stream *);
void stream_close_idle(struct stream *);
/* 0: it is open to read from; -EAGAIN: the writer opens it; -EIO, -ESTALE: it is gone. */
int stream_want_spool(struct stream *);
/* The writer gets its pipe, if it can; nothing else changes if it cannot. */
void stream_pump_start(struct stream *);
/* There may be room for more. */
void stream_pump_resume(struct stream *);
void stream_pump_settle(struct stream *);
void stream_pump_done(struct stream *);
/* The loop has its pipe again, and goes on with what the pump was at. */
void stream_pump_taken_back(struct stream *);

/* --- retain.c: how much is kept --- */

/* So many more bytes may be kept now; to make room the output of others may go. */
uint64_t retain_room(const struct stream *);
/* Is the room that its own limit leaves there, all of it? */
bool retain_has_all(const struct stream *);
/* Its size, or what is left of it, has changed. */
void retain_count(struct stream *);
/* The file of the order of both streams takes so much. */
void retain_count_index(struct exec *, uint64_t bytes);
/* What comes now is thrown away: it is not full any more, nor will be. */
void retain_lost(struct stream *);
/* It is full, and waits for a reader. */
void retain_stall(struct stream *);
/* A reader has moved on, or has gone. */
void retain_consumed(struct stream *);
/* Those whose turn it is go on: there may be room in their sandbox. */
void retain_resume(struct sandbox *);
/* Called when one of its parts ends: if it is over its output may be given up from now on. */
void retain_over(struct exec *);
/* Its file goes; whoever has it open reads on. */
void retain_forget(struct stream *);
/* What is left of a spool from before. */
void retain_restore(struct stream *, int dirfd, const char *name);

/* --- arrival.c: the order in which the streams were drained --- */

void arrival_init(struct arrival *);
void arrival_done(struct arrival *);
/* So many bytes more of one stream are in its spool. */
void arrival_add(struct exec *, enum exec_stream, uint64_t n);
/* The last ones of one stream are lost: it has its new size. */
void arrival_lost(struct exec *, enum exec_stream);
/* A stream has ended, or the result is there: whoever waits looks again. */
void arrival_ended(struct exec *);
/* DONE, and both streams settled: `frames` ends here. */
void arrival_finish(struct exec *);
/* Lets the next hutchd find the pieces there are, without fail only where the disk takes them: in the
 * journal while they are few; the others only, which are not for the journal. -EAGAIN: the writer has
 * no room, of which `must` takes the part that is kept for what cannot wait. */
int arrival_keep(struct exec *, bool must);
void arrival_keep_long(struct exec *);
bool arrival_is_short(const struct exec *);
/* They have been written to the journal: that text, as arrival_parse() takes it. */
int arrival_print(const struct exec *, struct buf *);
void arrival_kept(struct exec *);
void arrival_parse(struct exec *, const char *text);
/* DONE: is arrival.frames_end to be in the journal? */
bool arrival_tells_end(const struct exec *);
/* A stream has given back more to the disk: what of the order is of no use any more goes too. */
void arrival_given(struct exec *);
/* Finished, from the journal: everything else there is to know, when its result is known. */
void arrival_restore(struct exec *);
void arrival_unlink(struct exec *);
/* With the streams of a command that is over, and has no readers. */
void arrival_give_up(struct exec *);

/* --- stdin.c --- */

/* Takes the descriptor that input is written to: a pipe's writing end, or a terminal's master. */
int stdin_attach(struct exec *, int fd);
/* No more can be written from here on. Twice is harmless. */
void exec_close_stdin(struct exec *);

/* --- pty.c --- */

#define PTY_HOLDS_MAX 65536 /* more than the kernel ever has between a terminal's two ends */
/* Opens the terminal that it asked for, in a sandbox that runs: its streams, and child[0]. Once. */
int pty_open(struct exec *, struct err *);
/* Will it have a terminal that it has not yet? */
bool pty_expected(const struct exec *);
/* Types what ends the input, as exec_end_stdin() says. */
int pty_type_eof(struct exec *, struct err *);
