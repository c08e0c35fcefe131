/* Processes made, programs started. */
#include "harness.h"
#include <spawn.h>

static char *const nothing[] = {NOTHING, NULL};
static char *const sh[] = {"/bin/sh", "-c", NOTHING, NULL};
static char *const none[] = {NULL};

static void forks(long count)
{
    while (count--) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        reap(child);
    }
}

/* arg[0] MiB, written. */
static void grow(void)
{
    size_t bytes = (size_t)arg[0] << 20;
    char *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(region != MAP_FAILED, "mmap");
    for (size_t at = 0; at < bytes; at += 4096)
        ((volatile char *)region)[at] = 1;
}

static void start(char *const *words)
{
    execve(words[0], words, none);
    _exit(127);
}

static void vforks(long count)
{
    while (count--) {
        pid_t child = vfork();
        if (child == 0)
            start(nothing);
        reap(child);
    }
}

static void fork_and_start(long count, char *const *words)
{
    while (count--) {
        pid_t child = fork();
        if (child == 0)
            start(words);
        reap(child);
    }
}

static void fork_execs(long count)
{
    fork_and_start(count, nothing);
}

static void shells(long count)
{
    fork_and_start(count, sh);
}

static void spawns(long count)
{
    while (count--) {
        pid_t child = -1;
        need(posix_spawn(&child, NOTHING, NULL, NULL, nothing, none) == 0, "posix_spawn");
        reap(child);
    }
}

static const struct probe list[] = {
    {.name = "fork+exit", .step = 40, .body = forks},
    {.name = "fork+exit of 100 MB", .step = 4, .set_up = grow, .body = forks, .arg = {100}},
    {.name = "vfork+exec", .step = 20, .body = vforks},
    {.name = "posix_spawn", .step = 20, .body = spawns},
    {.name = "fork+exec", .step = 20, .body = fork_execs},
    {.name = "sh -c", .step = 10, .body = shells},
};
SUITE(process, list);
