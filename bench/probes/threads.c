/* Threads of one process: made and joined, and waiting for each other at futexes and mutexes. */
#include "harness.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>

enum { RING_MAX = 9 };
static pthread_t others[RING_MAX];
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER, turns[RING_MAX];
static long number;
static atomic_int is_over;

static void *nothing(void *unused)
{
    return unused;
}

static void creates(long count)
{
    while (count--) {
        pthread_t thread;
        need(pthread_create(&thread, NULL, nothing, NULL) == 0, "pthread_create");
        need(pthread_join(thread, NULL) == 0, "pthread_join");
    }
}

static long futex(atomic_int *word, int operation, int value)
{
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void wakes(long count)
{
    static atomic_int word;
    while (count--)
        need(futex(&word, FUTEX_WAKE, 1) == 0, "futex");
}

/* Two threads that wake each other: the word says whose turn it is. */
static atomic_int turn;

static void await(int wanted)
{
    int found;
    while ((found = atomic_load(&turn)) != wanted)
        futex(&turn, FUTEX_WAIT, found);
}

static void hand(int to)
{
    atomic_store(&turn, to);
    futex(&turn, FUTEX_WAKE, 1);
}

static void *answer(void *unused)
{
    for (;;) {
        await(1);
        if (atomic_load(&is_over))
            return unused;
        hand(0);
    }
}

static void make_answerer(void)
{
    need(pthread_create(&others[0], NULL, answer, NULL) == 0, "pthread_create");
}

static void futexes(long count)
{
    while (count--) {
        hand(1);
        await(0);
    }
}

static void end_answerer(void)
{
    atomic_store(&is_over, 1);
    hand(1);
    pthread_join(others[0], NULL);
}

/* Appendix A of the L4/Darwin paper: arg[0] threads in a ring, each of which waits for its own mutex, counts under a common
 * one and unlocks the next thread's (L6). This thread is the first. */
static void count_and_pass(long at)
{
    pthread_mutex_lock(&counting);
    number++;
    pthread_mutex_unlock(&counting);
    pthread_mutex_unlock(&turns[(at + 1) % arg[0]]);
}

static void *circle(void *at)
{
    for (;;) {
        pthread_mutex_lock(&turns[(long)at]);
        if (atomic_load(&is_over)) {
            pthread_mutex_unlock(&turns[((long)at + 1) % arg[0]]);
            return NULL;
        }
        count_and_pass((long)at);
    }
}

static void make_mutexes(void)
{
    for (long at = 0; at < arg[0]; at++)
        pthread_mutex_init(&turns[at], NULL);
    for (long at = 1; at < arg[0]; at++) {
        pthread_mutex_lock(&turns[at]);
        need(pthread_create(&others[at], NULL, circle, (void *)at) == 0, "pthread_create");
    }
}

/* A unit is one thread's turn; counts are multiples of a round. */
static void mutexes(long count)
{
    for (long rounds = count / arg[0]; rounds--;) {
        pthread_mutex_lock(&turns[0]);
        count_and_pass(0);
    }
    pthread_mutex_lock(&turns[0]);
    pthread_mutex_unlock(&turns[0]);
}

static void end_mutexes(void)
{
    atomic_store(&is_over, 1);
    pthread_mutex_lock(&turns[0]);
    pthread_mutex_unlock(&turns[1]);
    for (long at = 1; at < arg[0]; at++)
        pthread_join(others[at], NULL);
}

#define RING(threads, least) \
    {.name = "mutexes, ring of " #threads " threads", .step = least, .set_up = make_mutexes, .body = mutexes, \
        .tear_down = end_mutexes, .arg = {threads}}

static const struct probe list[] = {
    {.name = "thread create and join", .step = 40, .body = creates},
    {.name = "futex wake of nobody", .step = 400, .body = wakes},
    {.name = "futex round trip", .step = 400, .set_up = make_answerer, .body = futexes, .tear_down = end_answerer},
    RING(2, 400), RING(3, 399), RING(4, 400), RING(5, 400), RING(6, 402), RING(7, 399), RING(8, 400), RING(9, 405),
};
SUITE(threads, list);
