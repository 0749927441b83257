/* ctl_file.h - verbs that are written to a ctl, and take a while */
#pragma once

struct tree;

/* Forgets the verbs that are still waiting for their turn. Every handle has been closed. */
void ctl_done(struct tree *);
