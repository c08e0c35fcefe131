/* The covert channels that `./x bench covert` measures. A sender at a high level has bits, a receiver at a low one takes a value in each
 * slot of time; `xtask/bench` finds out how much the values say about the bits. */
#ifndef COVERT_H
#define COVERT_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct channel {
    const char *name;
    /* Before the first slot, in the sender and in the receiver. */
    void (*high)(void);
    void (*low)(void);
    /* At the start of a slot, in the sender: 0, or the error with its sign turned. */
    long (*send)(int bit);
    /* Later in the slot, in the receiver: the value, or the error with its sign turned. */
    long (*sample)(void);
    /* After the last slot, in the sender. */
    void (*end)(void);
    /* The part of the slot after which the value is taken, in per cent; 0: 60. */
    int at;
    /* It uses a disk: a clock that leaps while the processor waits would not show the disk's time. */
    int is_real;
};

/* Folders of both levels, each with `low` and `high`: in memory, on the root disk, and in a memory of SMALL_PAGES pages and
 * SMALL_INODES inodes. */
#define MEMORY "/stage/memory/"
#define DISK "/stage/disk/"
#define SMALL "/stage/small/"
enum { PAGE = 4096, SMALL_PAGES = 32, SMALL_INODES = 24, SHM_IDS = 64 };

/* Lists that end with a channel without a name. */
extern const struct channel NUMBERS[], TOTALS[], LIMITS[], OBJECTS[], TIMES[];

/* The length of a slot, and the sender's process. */
extern long slot_ns;
extern pid_t sender;

/* Ends the process with a message, unless `is_good`. */
void need(int is_good, const char *what);
/* Opens a file to read and write, which is made if it is not there. */
int open_made(const char *path);

/* Returns the result of a call, or its error with its sign turned. */
long result(long returned);

/* Returns the monotonic clock in nanoseconds. */
int64_t now(void);

/* Makes a copy of this program that all may execute. */
void copy_program(const char *path);

/* Starts a child that stays until `end_children`. */
long start_child(void);

void end_children(void);
#endif
