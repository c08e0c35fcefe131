/* The five programs of the KSOS-32 paper (K7), from what its section 3.1 says of them; its appendix was not printed with it.
 * A unit is one round of the program's loop. */
#include "harness.h"

enum { SIEVE = 8192, FILE_BYTES = 64 << 10, BLOCK = 512 };
static char block[BLOCK];

/* The sieve of flags, again and again: no system call, no memory beyond the flags. */
static void prime(long count)
{
    static char is_composite[SIEVE];
    volatile long primes = 0;
    while (count--) {
        memset(is_composite, 0, sizeof is_composite);
        for (long at = 2; at < SIEVE; at++) {
            if (is_composite[at])
                continue;
            primes++;
            for (long multiple = at + at; multiple < SIEVE; multiple += at)
                is_composite[multiple] = 1;
        }
    }
}

static void openit(long count)
{
    while (count--) {
        int fd = creat(ON_DISK "/openit", 0644);
        need(fd >= 0, "creat");
        close(fd);
    }
}

static void fill(const char *path)
{
    int fd = creat(path, 0644);
    need(fd >= 0, "creat");
    for (long done = 0; done < FILE_BYTES; done += BLOCK)
        need(write(fd, block, BLOCK) == BLOCK, "write");
    close(fd);
}

static void rw(long count)
{
    while (count--) {
        fill(ON_DISK "/rw");
        int fd = open(ON_DISK "/rw", O_RDONLY);
        need(fd >= 0, "open");
        for (long done = 0; done < FILE_BYTES; done += BLOCK)
            need(read(fd, block, BLOCK) == BLOCK, "read");
        close(fd);
    }
}

static void make_source(void)
{
    fill(ON_DISK "/source");
}

static void copy(long count)
{
    while (count--) {
        int from = open(ON_DISK "/source", O_RDONLY), to = creat(ON_DISK "/target", 0644);
        need(from >= 0 && to >= 0, "open");
        while (read(from, block, BLOCK) == BLOCK)
            need(write(to, block, BLOCK) == BLOCK, "write");
        close(from);
        close(to);
    }
}

static void forkit(long count)
{
    while (count--) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        reap(child);
    }
}

static const struct probe list[] = {
    {.name = "prime", .step = 100, .body = prime},
    {.name = "openit", .step = 200, .body = openit},
    {.name = "rw", .step = 10, .body = rw},
    {.name = "copy", .step = 10, .set_up = make_source, .body = copy},
    {.name = "forkit", .step = 40, .body = forkit},
};
SUITE(ksos, list);
