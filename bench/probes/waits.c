/* Processes that wait for each other: pipes, sockets, event descriptors, rings of processes that pass a token. */
#include "harness.h"
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

enum { RING_MAX = 16, CHUNK = 64 << 10 };
static pid_t children[RING_MAX];
static int child_count;
static int to_first, from_last;
static char chunk[CHUNK];

static void walk(size_t bytes)
{
    static char own[64 << 10];
    for (size_t at = 0; at < bytes; at += 64)
        (void)((volatile char *)own)[at];
}

/* Passes what comes from `from` on to `to`, `bytes` at a time, having walked `walked` bytes of its own; for ever. */
static void pass(int from, int to, size_t bytes, size_t walked)
{
    uint64_t token;
    while (read(from, &token, bytes) == (ssize_t)bytes) {
        walk(walked);
        if (write(to, &token, bytes) != (ssize_t)bytes)
            break;
    }
    _exit(0);
}

static void add(void (*what)(int, int, size_t, size_t), int from, int to, size_t bytes, size_t walked)
{
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        what(from, to, bytes, walked);
        _exit(0);
    }
    children[child_count++] = child;
}

static void end_children(void)
{
    while (child_count > 0) {
        pid_t child = children[--child_count];
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

/* arg[0] processes, this one too, each with arg[1] KiB to walk at its turn. */
static void make_ring(void)
{
    int both[2], last;
    need(pipe(both) == 0, "pipe");
    to_first = both[1];
    last = both[0];
    for (long at = 1; at < arg[0]; at++) {
        need(pipe(both) == 0, "pipe");
        add(pass, last, both[1], 1, arg[1] << 10);
        last = both[0];
    }
    from_last = last;
}

static void round_trips(long count)
{
    char token = 1;
    while (count--) {
        need(write(to_first, &token, 1) == 1, "write");
        need(read(from_last, &token, 1) == 1, "read");
    }
}

/* A unit is a change of process: a whole round is arg[0] of them. */
static void hops(long count)
{
    for (long at = 0; at < count; at += arg[0]) {
        walk(arg[1] << 10);
        round_trips(1);
    }
}

/* As lmbench's lat_ctx: the walks are no part of the change. */
static void walks(long count)
{
    while (count--)
        walk(arg[1] << 10);
}

static void pour(int from, int to, size_t bytes, size_t unused)
{
    (void)from, (void)bytes, (void)unused;
    while (write(to, chunk, CHUNK) > 0)
        ;
}

static void make_stream(void)
{
    int both[2];
    need(pipe(both) == 0, "pipe");
    add(pour, both[0], both[1], 0, 0);
    close(both[1]);
    from_last = both[0];
}

static void drink(long count)
{
    for (ssize_t left = count * CHUNK; left > 0;) {
        ssize_t came = read(from_last, chunk, left < CHUNK ? left : CHUNK);
        need(came > 0, "read");
        left -= came;
    }
}

/* A pair of sockets of kind arg[0], whose other end gives back what comes. */
static void make_pair(void)
{
    int both[2];
    need(socketpair(AF_UNIX, arg[0], 0, both) == 0, "socketpair");
    add(pass, both[1], both[1], 1, 0);
    close(both[1]);
    to_first = from_last = both[0];
}

static void make_socket_stream(void)
{
    int both[2];
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0, "socketpair");
    add(pour, both[0], both[1], 0, 0);
    close(both[1]);
    from_last = both[0];
}

static void make_events(void)
{
    int there = eventfd(0, 0), back = eventfd(0, 0);
    need(there >= 0 && back >= 0, "eventfd");
    add(pass, there, back, 8, 0);
    to_first = there;
    from_last = back;
}

static void events(long count)
{
    uint64_t one = 1;
    while (count--) {
        need(write(to_first, &one, 8) == 8, "write");
        need(read(from_last, &one, 8) == 8, "read");
    }
}

#define RING(processes, kib) \
    {.name = "switch " #processes " of " #kib " KB", .step = 400, .set_up = make_ring, .body = hops, .overhead = walks, \
        .tear_down = end_children, .arg = {processes, kib}}

static const struct probe list[] = {
    {.name = "pipe round trip", .step = 400, .set_up = make_ring, .body = round_trips, .tear_down = end_children, .arg = {2, 0}},
    {.name = "pipe 64 KB", .step = 50, .set_up = make_stream, .body = drink, .tear_down = end_children},
    {.name = "socket round trip", .step = 400, .set_up = make_pair, .body = round_trips, .tear_down = end_children, .arg = {SOCK_STREAM}},
    {.name = "datagram round trip", .step = 400, .set_up = make_pair, .body = round_trips, .tear_down = end_children, .arg = {SOCK_DGRAM}},
    {.name = "socket 64 KB", .step = 50, .set_up = make_socket_stream, .body = drink, .tear_down = end_children},
    {.name = "eventfd round trip", .step = 400, .set_up = make_events, .body = events, .tear_down = end_children},
    RING(2, 0), RING(2, 16), RING(2, 64), RING(8, 0), RING(8, 16), RING(8, 64), RING(16, 0), RING(16, 16), RING(16, 64),
};
SUITE(waits, list);
