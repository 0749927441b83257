/* jobs.h - what the engine has its writer do beside writing (disk.h) */
#pragma once

#include "sandbox/disk.h"
#include "sandbox/launch.h"

enum job {
	JOB_NOTHING, /* its answer says that what was put before it is done */
	JOB_GROUND,  /* struct job_ground: the answer is its layer, an O_PATH descriptor */
	JOB_PUNCH,   /* struct job_punch */
	JOB_COUNT,
};

/* The directory of a sandbox. */
struct job_ground {
	uint32_t serial;
	bool make; /* it may be missing, or half made */
	struct id_range ids;
};

/* A part of a file is given back to the disk, and reads as zeroes. */
struct job_punch {
	uint64_t from, to; /* whole blocks */
	char name[DISK_NAME_MAX];
};

/* By enum job; their argument is the struct image. */
extern disk_job *const engine_jobs[JOB_COUNT];
/* `done`: who gets the answer. */
int job_ground_ask(struct disk *, const struct job_ground *, struct disk_done *, struct err *);
/* Nobody is told whether it could be done. */
int job_punch_ask(struct disk *, const struct job_punch *);
