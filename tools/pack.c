/* pack.c - files become a tar stream: see pack.h
 *
 * fts(3) walks, changing into each directory, so that no path is too long; the
 * process's working directory is another one meanwhile.
 */
#include "tools/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

#define MODE_SENT 0777 /* the owner is another inside, so setuid would mean something else */
#define PIECE     (256 * 1024)

DEFINE_AUTO(FTS *, fts_close);

struct state {
	struct pack *p;
	const char *name;
	size_t path_len; /* of the path that was given: `name` stands in its place */
	struct buf shown;
	char *piece;
};

static void fail(struct state *s, int code, const char *what, const char *path)
{
	struct err err = { 0 };

	if (code == EOPNOTSUPP)
		(void)err_say(&err, code, "'%s' is neither a file, a directory nor a link", path);
	else
		(void)err_set(&err, code, "%s '%s'", what, path);
	s->p->failed++;
	if (s->p->complain)
		s->p->complain(s->p->arg, &err);
}

/* Exactly `size` bytes, whatever the file has by now. */
static int send_data(struct state *s, int fd, uint64_t size, const char *path, struct err *err)
{
	uint64_t left = size;
	bool short_of = false;
	int r = 0;

	while (r == 0 && left > 0) {
		size_t want = left < PIECE ? (size_t)left : PIECE;
		ssize_t n = short_of ? 0 : read(fd, s->piece, want);

		if (n <= 0) {
			if (!short_of)
				fail(s, n < 0 ? errno : ENODATA, "read", path);
			short_of = true;
			memset(s->piece, 0, want);
			n = (ssize_t)want;
		}
		r = s->p->out.write(s->p->out.arg, s->piece, (size_t)n, err);
		left -= (uint64_t)n;
		s->p->bytes += (uint64_t)n;
		if (s->p->tick)
			s->p->tick(s->p->arg, s->p->bytes, s->shown.data);
	}
	return r == 0 ? tar_put_padding(&s->p->out, size, err) : r;
}

static int send_file(struct state *s, const FTSENT *f, struct tar_entry *e, struct err *err)
{
	/* O_NONBLOCK: it may have become a fifo. */
	auto_close int fd =
		open(f->fts_accpath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0) {
		fail(s, errno, "read", f->fts_path);
		return 0;
	}
	if (!S_ISREG(st.st_mode)) {
		fail(s, EOPNOTSUPP, "copy", f->fts_path);
		return 0;
	}
	e->type = TAR_FILE;
	e->size = (uint64_t)st.st_size;
	r = tar_put_entry(&s->p->out, e, err);
	return r == 0 ? send_data(s, fd, e->size, f->fts_path, err) : r;
}

static int send_link(struct state *s, const FTSENT *f, struct tar_entry *e, struct err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlink(f->fts_accpath, target, sizeof(target) - 1);

	if (n <= 0) {
		fail(s, n < 0 ? errno : EINVAL, "read the link", f->fts_path);
		return 0;
	}
	target[n] = '\0';
	e->type = TAR_SYMLINK;
	e->link = target;
	return tar_put_entry(&s->p->out, e, err);
}

static int send_entry(struct state *s, const FTSENT *f, struct err *err)
{
	struct tar_entry e = { .type = TAR_DIR };

	switch (f->fts_info) {
	case FTS_DP:
		return 0;
	case FTS_DNR: /* its entry has been sent */
	case FTS_ERR:
	case FTS_NS:
		fail(s, f->fts_errno, "read", f->fts_path);
		return 0;
	case FTS_DC:
		fail(s, ELOOP, "read", f->fts_path);
		return 0;
	default:
		break;
	}
	s->shown.len = 0;
	if (buf_printf(&s->shown, "%s%s", s->name, f->fts_path + s->path_len) < 0)
		return err_set(err, ENOMEM, "'%s'", f->fts_path);
	e.name = s->shown.data;
	e.mode = f->fts_statp->st_mode & MODE_SENT;
	e.mtime = f->fts_statp->st_mtim;
	if (s->p->tick)
		s->p->tick(s->p->arg, s->p->bytes, e.name);
	if (f->fts_info == FTS_D)
		return tar_put_entry(&s->p->out, &e, err);
	if (f->fts_info == FTS_F)
		return send_file(s, f, &e, err);
	if (f->fts_info == FTS_SL || f->fts_info == FTS_SLNONE)
		return send_link(s, f, &e, err);
	fail(s, EOPNOTSUPP, "copy", f->fts_path);
	return 0;
}

int pack_run(struct pack *p, const char *path, const char *name, struct err *err)
{
	struct state s = { .p = p, .name = name, .path_len = strlen(path) };
	auto_free char *copy = strdup(path);
	char *const paths[] = { copy, NULL };
	AUTO(fts_close) FTS *fts = copy ? fts_open(paths, FTS_PHYSICAL, NULL) : NULL;
	const FTSENT *f;
	int r = 0;

	s.piece = malloc(PIECE);
	if (!fts || !s.piece)
		r = err_set(err, ENOMEM, "'%s'", path);
	while (r == 0 && (errno = 0, f = fts_read(fts)))
		r = send_entry(&s, f, err);
	if (r == 0 && errno)
		r = err_set(err, errno, "'%s'", path);
	if (r == 0)
		r = tar_put_end(&p->out, err);
	buf_done(&s.shown);
	free(s.piece);
	return r;
}
