/* Page faults and maps. */
#include "harness.h"

enum { PAGE = 4096, FILE_PAGES = 1024 };
static char *region;
static int fd;

static void reserve(long count)
{
    region = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(region != MAP_FAILED, "mmap");
    /* A page a fault: large pages are no part of this row. Without them the call is refused. */
    madvise(region, count * PAGE, MADV_NOHUGEPAGE);
}

static void touch(long count)
{
    for (long at = 0; at < count; at++)
        ((volatile char *)region)[at * PAGE] = 1;
}

static void release(long count)
{
    need(munmap(region, count * PAGE) == 0, "munmap");
}

static void make(void)
{
    make_file(ON_DISK "/pages", FILE_PAGES * PAGE);
    fd = open(ON_DISK "/pages", O_RDONLY);
    need(fd >= 0, "open");
}

/* The file again and again: `count` pages of maps. */
static void map_file(long count)
{
    reserve(count);
    for (long at = 0; at < count; at += FILE_PAGES)
        need(mmap(region + at * PAGE, FILE_PAGES * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED, "mmap");
}

static void look(long count)
{
    for (long at = 0; at < count; at++)
        (void)((volatile char *)region)[at * PAGE];
}

/* arg[0] KiB mapped, written once a page and unmapped. */
static void maps(long count)
{
    long pages = arg[0] / 4;
    while (count--) {
        region = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        need(region != MAP_FAILED, "mmap");
        touch(pages);
        release(pages);
    }
}

#define MAP(words, kib, least) {.name = "mmap " words, .step = least, .body = maps, .arg = {kib}}

static const struct probe list[] = {
    {.name = "anonymous fault", .step = 2000, .prepare = reserve, .body = touch, .finish = release},
    {.name = "file fault", .step = 4 * FILE_PAGES, .set_up = make, .prepare = map_file, .body = look, .finish = release},
    MAP("64 KB", 64, 100), MAP("256 KB", 256, 30), MAP("1 MB", 1024, 10), MAP("4 MB", 4096, 4), MAP("16 MB", 16384, 2),
    MAP("64 MB", 65536, 1),
};
SUITE(memory, list);
