/* tree_change.c - what mkdir, rmdir and chmod do, and what the tree does not let anybody do */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "fs/tree.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

int tree_check_name(struct tree *tree, const char *name, struct err *err)
{
	const char *fault = name_fault(name);

	if (strlen(name) > 255)
		return err_set(err, ENAMETOOLONG, "name");
	if (node_reserved(name) || node_find(NODE_ROOT, name) != NODE_NONE)
		return err_say(err, EEXIST, "'%s' is a name of the tree itself", name);
	if (fault)
		return err_say(err, EINVAL, "name '%s': %s", name, fault);
	if (sandbox_find(tree->engine, name))
		return err_say(err, EEXIST, "there is a sandbox '%s' already", name);
	return 0;
}

static int mkdir_sandbox(struct tree *tree, const char *name, const struct caller *who,
			 struct node_ref *ret, struct err *err)
{
	struct spec spec = { 0 };
	struct sandbox *box;
	int r = tree_check_name(tree, name, err);

	if (r < 0)
		return r;
	/* An empty spec takes the defaults, as an empty line written to `new` does. */
	r = spec_parse(&spec, "", 0, err);
	if (r < 0)
		return r;
	memcpy(spec.id, name, strlen(name) + 1);
	r = sandbox_create(tree->engine, &spec, who->uid, who->gid, &box, err);
	spec_done(&spec);
	if (r < 0)
		return r;
	*ret = (struct node_ref){ .id = NODE_SANDBOX, .sandbox = box };
	return 0;
}

static int mkdir_exec(const struct node_ref *dir, const char *name, const struct caller *who,
		      struct node_ref *ret, struct err *err)
{
	struct exec *x;
	int r;

	if (node_find(NODE_EXECS, name) != NODE_NONE)
		return err_say(err, EEXIST, "'%s' is a name of the tree itself", name);
	if (strlen(name) > 255)
		return err_set(err, ENAMETOOLONG, "name");
	r = exec_mkdir(dir->sandbox, name, who->uid, &x, err);
	if (r == 0)
		*ret = (struct node_ref){ NODE_EXEC, dir->sandbox, x };
	return r;
}

/* The gate counts also for whoever is in already: a working directory is no handle. */
static int check_change_dir(struct tree *tree, const struct node_ref *dir, const struct caller *who,
			    struct err *err)
{
	struct stat st;

	if (!tree_may_enter(tree, dir, who))
		return err_say(err, EACCES, "user %u has no right to it", (unsigned)who->uid);
	tree_attr(tree, dir, who, &st);
	return access_change_dir(&st, who, err);
}

int tree_mkdir(struct tree *tree, const struct node_ref *dir, const char *name,
	       const struct caller *who, struct node_ref *ret, struct err *err)
{
	int r = check_change_dir(tree, dir, who, err);

	if (r == 0)
		r = tree_check_change(dir, err);
	if (r < 0)
		return r;
	if (dir->id == NODE_ROOT)
		return mkdir_sandbox(tree, name, who, ret, err);
	if (dir->id == NODE_EXECS)
		return mkdir_exec(dir, name, who, ret, err);
	return err_say(err, EPERM,
		       "a directory made at the root is a sandbox, one made in exec/ a command; "
		       "there are no others");
}

int tree_mkdir_result(struct sandbox *box, struct err *err)
{
	if (box->state == SANDBOX_CREATING && !box->removed)
		return -EAGAIN;
	if (box->state != SANDBOX_FAILED)
		return 0;
	if (err)
		*err = box->why;
	/* Nobody wants a directory from a mkdir that failed. */
	sandbox_remove(box);
	return box->why.code ? -box->why.code : -EIO;
}

int tree_rmdir(struct tree *tree, const struct node_ref *dir, const char *name,
	       const struct caller *who, struct sandbox **ret_gone, struct err *err)
{
	struct node_ref ref;
	struct stat st;
	int r;

	*ret_gone = NULL;
	r = check_change_dir(tree, dir, who, err);
	if (r < 0)
		return r;
	r = tree_lookup(tree, dir, name, who->uid, &ref);
	if (r < 0)
		return err_set(err, -r, "rmdir");
	if (ref.id == NODE_EXEC) {
		exec_remove(ref.exec);
		return 0;
	}
	if (ref.id != NODE_SANDBOX)
		return S_ISDIR(node_table[ref.id].mode)
			       ? err_say(err, EPERM, "it goes with its sandbox; rmdir that")
			       : err_set(err, ENOTDIR, "rmdir");
	/* In a root that is open to all one removes one's own, as in /tmp. */
	tree_attr(tree, &ref, who, &st);
	if (who->uid != 0 && who->uid != st.st_uid && who->uid != tree->uid)
		return err_say(err, EPERM, "the sandbox belongs to user %u", (unsigned)st.st_uid);
	*ret_gone = sandbox_ref(ref.sandbox);
	sandbox_remove(ref.sandbox);
	return 0;
}

static int set_owner(struct sandbox *box, const struct caller *who, const struct stat *to,
		     unsigned set, struct err *err)
{
	uid_t uid = set & TREE_SET_UID ? to->st_uid : (uid_t)-1;
	gid_t gid = set & TREE_SET_GID ? to->st_gid : (gid_t)-1;

	if (uid == box->uid)
		uid = (uid_t)-1;
	if (gid == box->gid)
		gid = (gid_t)-1;
	if (uid == ACCESS_NOBODY)
		return err_say(err, EPERM, "user %d is nobody's identity", ACCESS_NOBODY);
	if (uid != (uid_t)-1 && who->uid != 0)
		return err_say(err, EPERM, "only root gives a sandbox to another user");
	if (gid != (gid_t)-1 && who->uid != 0 &&
	    (who->uid != box->uid || !access_in_group(who, gid)))
		return err_say(err, EPERM,
			       "the owner gives a sandbox to a group that he belongs to, and "
			       "nobody else does");
	return sandbox_chown(box, uid, gid, err);
}

static int set_sandbox(struct tree *tree, struct sandbox *box, const struct caller *who,
		       const struct stat *to, unsigned set, struct err *err)
{
	int r = 0;

	if (set & (TREE_SET_UID | TREE_SET_GID))
		r = set_owner(box, who, to, set, err);
	if (r == 0 && set & TREE_SET_MODE) {
		if (who->uid != 0 && who->uid != box->uid)
			return err_say(err, EPERM, "the sandbox belongs to user %u",
				       (unsigned)box->uid);
		r = sandbox_chmod(box, to->st_mode & 0777, err);
	}
	if (r == 0 && tree->owner_changed)
		tree->owner_changed(tree, box);
	return r;
}

int tree_setattr(struct tree *tree, const struct node_ref *ref, const struct caller *who,
		 const struct stat *to, unsigned set, struct err *err)
{
	struct stat st;
	int r = tree_check_change(ref, err);

	if (r < 0)
		return r;
	tree_attr(tree, ref, who, &st);
	if (set & (TREE_SET_MODE | TREE_SET_UID | TREE_SET_GID)) {
		if (ref->id == NODE_SANDBOX)
			return set_sandbox(tree, ref->sandbox, who, to, set, err);
		return err_say(err, EPERM,
			       ref->sandbox ? "owner and mode are the sandbox's: change its "
					      "directory, which is the gate to all in it"
					    : "owner and mode of this come from the config");
	}
	if (who->uid == st.st_uid || (st.st_mode & 0222 && access_allowed(&st, who, ACCESS_WRITE)))
		return st.st_mode & 0222 || who->uid == 0
			       ? 0
			       : err_say(err, EPERM, "this file is read, not written to");
	return err_say(err, EACCES, "user %u has no right to it", (unsigned)who->uid);
}

static const char *const refused[TREE_CHANGE_COUNT] = {
	[TREE_CREATE] = "no such file, and none can be made here: a directory made at the "
			"root is a sandbox, a line written to exec/new is a command",
	[TREE_MKNOD] = "no files can be made here: a directory made at the root is a "
		       "sandbox, a line written to exec/new is a command",
	[TREE_SYMLINK] = "no links can be made here",
	[TREE_LINK] = "no links can be made here",
	[TREE_UNLINK] = "files come and go with their directory: rmdir ends and removes a "
			"sandbox, or a command of exec/",
	[TREE_RENAME] = "names are given once: mkdir makes a sandbox, rmdir removes it",
};

int tree_refuse_change(enum tree_change change, struct err *err)
{
	return err_say(err, EPERM, "%s", refused[change]);
}
