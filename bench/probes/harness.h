/*
 * The harness of the probes, after L4bench (L8): a probe is a set-up, a body that does its work `count` times, a tear-down,
 * and a least count. The body is run with several counts; the cost of one is the slope over them, which `./x bench` fits:
 * what a call of the body costs besides falls out. A probe of latencies has a figure in place of a body: it measures its own
 * calls and gives one number of them, such as the worst.
 *
 * Each measurement lies between two marks for QEMU's plugin (../plugin/instructions.c) and two readings of the
 * processor's time stamp counter, which no guest's kernel has a hand in.
 */
#ifndef HARNESS_H
#define HARNESS_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* A body is measured with 1 to COUNTS times its least count. */
enum { COUNTS = 5 };

/* The most calls that a row makes in a round, and words of one: its number and arguments. */
enum { CALLS_MAX = 3, CALL_WORDS = 7 };

struct probe {
    const char *name;
    /* The least count; the others are multiples of it. */
    long step;
    /* Once, before all measurements. */
    void (*set_up)(void);
    /* Before and after each measurement, not measured. */
    void (*prepare)(long count);
    void (*body)(long count);
    /* In place of a body: what is measured, in ticks. */
    uint64_t (*figure)(void);
    /* The part of the body's work that is not the row's subject: it is measured in the same way, and taken off. */
    void (*overhead)(long count);
    void (*finish)(long count);
    /* Once, after all measurements. */
    void (*tear_down)(void);
    /* The argument of the functions: sizes, numbers of descriptors, folders. */
    long arg[3];
    const char *text;
    /* Nanoseconds that one takes by agreement: they are no cost. */
    long agreed_ns;
    /* What `make_calls` calls, one after another, until one of zeros. */
    long calls[CALLS_MAX][CALL_WORDS];
    /* The error that the last of them is to end with, if any. */
    int refused;
};

struct suite {
    const char *name;
    const struct probe *probes;
    size_t count;
};

extern const struct suite calls, waits, threads, memory, process, files, ksos, disk, mach, objects, paths, kinds, audit, net, programs,
    user_wire, tap_wire;
/* Those of the probe that runs. */
extern const long *arg;
extern const char *text;
extern const struct probe *running;

#define SUITE(name, list) const struct suite name = {#name, list, sizeof(list) / sizeof((list)[0])}

/* Ends the probe with a message unless `is_so`. */
void need(int is_so, const char *what);
/* Before and after what is measured: 1 and 2. */
#define MARK(number) __asm__ volatile("nopl 0x534b000" #number "(%%rax)" ::: "memory")
/* The time stamp counter. */
static inline uint64_t ticks(void)
{
    uint32_t low, high;
    __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}
/* Reaps `child`, which must have exited with 0. */
void reap(pid_t child);
/* Makes the loopback interface work; Linux starts with it down. */
void raise_loopback(void);
/* The two ends of a TCP connection over loopback, which send at once (TCP_NODELAY). */
void make_connection(int both[2]);
/* A new file of `bytes`. */
void make_file(const char *path, size_t bytes);
/* Drops the clean parts of the caches of files and names. */
void drop_caches(void);
/* Bodies that make the probe's calls; the second closes the descriptor that the first of them gave. */
void make_calls(long count);
void make_calls_and_close(long count);
/* The descriptor `number` becomes what `made` was. */
void put_at(int made, int number, const char *what);
/* A static program that does nothing. */
#define NOTHING "/bench/nothing"
/* Where files are made: on the root disk, and in memory. */
#define ON_DISK "/home/bench"
#define IN_MEMORY "/tmp/bench"

#endif
