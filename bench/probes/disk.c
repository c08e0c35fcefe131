/* Files on the root disk: read and written one after the other and at random, cold and cached, with and without fsync, by one
 * process and by several with a file each; and what people do with trees of files, by busybox. */
#include "harness.h"
#include <spawn.h>

enum { PROCESSES = 16, BLOCK = 1 << 20 };
/* A file: FILE_MIB for one process, SHARE_MIB for each of several. */
enum { FILE_MIB = 10, SHARE_MIB = 2 };

/* arg[0] bytes at a time, by arg[1] processes; after each arg[2] calls follows fsync, none with 0. */
#define BYTES arg[0]
#define WORKERS arg[1]
#define SYNC_EVERY arg[2]

static char block[BLOCK];

static const char *path_of(long worker)
{
    static char path[48];
    snprintf(path, sizeof path, ON_DISK "/work%ld", worker);
    return path;
}

static size_t file_bytes(void)
{
    return (size_t)(WORKERS == 1 ? FILE_MIB : SHARE_MIB) << 20;
}

static void make_files(void)
{
    memset(block, 'x', sizeof block);
    for (long at = 0; at < WORKERS; at++)
        make_file(path_of(at), file_bytes());
    sync();
}

static void remove_files(void)
{
    for (long at = 0; at < WORKERS; at++)
        need(unlink(path_of(at)) == 0, path_of(at));
    sync();
}

static void chill(long count)
{
    (void)count;
    sync();
    drop_caches();
}

/* Reads every byte once. */
static void warm(long count)
{
    (void)count;
    for (long at = 0; at < WORKERS; at++) {
        int fd = open(path_of(at), O_RDONLY);
        while (read(fd, block, sizeof block) > 0)
            ;
        close(fd);
    }
}

static void settle(long count)
{
    (void)count;
    sync();
}

static void cut(long count)
{
    for (long at = 0; at < WORKERS; at++)
        need(truncate(path_of(at), 0) == 0, "truncate");
    settle(count);
}

/* Has each worker do its part of `count`; making them is no part of the slope. */
static void share(long count, void (*part)(int fd, long count))
{
    pid_t made[PROCESSES];
    if (WORKERS == 1) {
        int fd = open(path_of(0), O_RDWR);
        need(fd >= 0, "open");
        part(fd, count);
        close(fd);
        return;
    }
    for (long at = 0; at < WORKERS; at++) {
        made[at] = fork();
        if (made[at] == 0) {
            int fd = open(path_of(at), O_RDWR);
            need(fd >= 0, "open");
            part(fd, count / WORKERS);
            _exit(0);
        }
    }
    for (long at = 0; at < WORKERS; at++)
        reap(made[at]);
}

static void read_on(int fd, long count)
{
    while (count--)
        need(read(fd, block, BYTES) == BYTES, "read");
}

static void sync_at(int fd, long done)
{
    need(!SYNC_EVERY || done % SYNC_EVERY || fsync(fd) == 0, "fsync");
}

static void write_on(int fd, long count)
{
    for (long done = 1; done <= count; done++) {
        need(write(fd, block, BYTES) == BYTES, "write");
        sync_at(fd, done);
    }
}

/* The start of the file again and again. */
static void write_again(int fd, long count)
{
    enum { REWRITTEN_BYTES = 2 << 20 };
    for (long at = 0; at < count; at++)
        need(pwrite(fd, block, BYTES, at * BYTES % REWRITTEN_BYTES) == BYTES, "pwrite");
}

/* Where number `at` of a walk over the whole file is: each place once, in no order, for no prime of STRIDE divides the number
 * of places. */
static off_t place(long at)
{
    enum { STRIDE = 1000003 };
    return at * STRIDE % (long)(file_bytes() / BYTES) * BYTES;
}

static void read_about(int fd, long count)
{
    for (long at = 0; at < count; at++)
        need(pread(fd, block, BYTES, place(at)) == BYTES, "pread");
}

static void write_about(int fd, long count)
{
    for (long at = 0; at < count; at++) {
        need(pwrite(fd, block, BYTES, place(at)) == BYTES, "pwrite");
        sync_at(fd, at + 1);
    }
}

static void reads(long count)
{
    share(count, read_on);
}

static void writes(long count)
{
    share(count, write_on);
}

static void random_reads(long count)
{
    share(count, read_about);
}

static void rewrites(long count)
{
    share(count, write_again);
}

static void random_writes(long count)
{
    share(count, write_about);
}

/* Trees: COUNTS of them in the image, 0 and on, and one packed. What is made of them goes to OUT. */
#define TREES "/bench/trees"
#define OUT ON_DISK "/out"

static void applet(char *const *words)
{
    static char *const environment[] = {"PATH=/bin", NULL};
    pid_t child = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    need(posix_spawn(&child, "/bin/busybox", &actions, NULL, words, environment) == 0, "posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    reap(child);
}

static void applet_on_tree(char *const *words, char *name, size_t room, long count)
{
    for (long at = 0; at < count; at++) {
        snprintf(name, room, TREES "/%ld", at);
        applet(words);
    }
}

static void find(long count)
{
    char name[48];
    applet_on_tree((char *[]){"find", name, "-type", "f", "-name", "file7", NULL}, name, sizeof name, count);
}

static void grep(long count)
{
    char name[48];
    applet_on_tree((char *[]){"grep", "-rF", "line 1", name, NULL}, name, sizeof name, count);
}

static void copy_tree(long count)
{
    char name[48];
    applet_on_tree((char *[]){"cp", "-r", name, OUT, NULL}, name, sizeof name, count);
}

static void untar(long count)
{
    char name[48];
    for (long at = 0; at < count; at++) {
        snprintf(name, sizeof name, OUT "/%ld", at);
        need(mkdir(name, 0755) == 0, name);
        applet((char *[]){"tar", "xf", "/bench/tree.tar", "-C", name, NULL});
    }
}

static void empty(long count)
{
    (void)count;
    applet((char *[]){"rm", "-rf", OUT, NULL});
    need(mkdir(OUT, 0755) == 0, OUT);
    sync();
}

static void empty_and_chill(long count)
{
    empty(count);
    chill(count);
}

static void remove_out(void)
{
    applet((char *[]){"rm", "-rf", OUT, NULL});
    sync();
}

/* Changes of names and files, each measured: LATENCIES of them in a fresh directory. */
enum { LATENCIES = 5000, SMALL_BYTES = 1024 };
#define MANY ON_DISK "/many"

static const char *name_of(long at)
{
    static char name[48];
    snprintf(name, sizeof name, MANY "/%ld", at);
    return name;
}

static void make_one(long at)
{
    int fd = open(name_of(at), O_CREAT | O_EXCL | O_WRONLY, 0644);
    need(fd >= 0 && close(fd) == 0, "creat");
}

static void write_one(long at)
{
    int fd = open(name_of(at), O_CREAT | O_EXCL | O_WRONLY, 0644);
    need(fd >= 0 && write(fd, block, SMALL_BYTES) == SMALL_BYTES && close(fd) == 0, "a small file");
}

static void make_and_remove_one(long at)
{
    need(mkdir(name_of(at), 0755) == 0 && rmdir(name_of(at)) == 0, "mkdir, rmdir");
}

static void (*const changes[])(long) = {make_one, write_one, make_and_remove_one};
enum { CREATE, SMALL_WRITE, MKDIR_RMDIR };
/* Of the latencies in ascending order. */
enum { WORST = LATENCIES - 1, PERCENTILE_99 = LATENCIES * 99 / 100 - 1 };
#define CHANGE arg[0]
#define RANK arg[1]

static int by_size(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static uint64_t latency(void)
{
    static uint64_t taken[LATENCIES];
    for (long at = 0; at < LATENCIES; at++) {
        uint64_t start = ticks();
        changes[CHANGE](at);
        taken[at] = ticks() - start;
    }
    qsort(taken, LATENCIES, sizeof taken[0], by_size);
    return taken[RANK];
}

static uint64_t sync_after(void)
{
    for (long at = 0; at < LATENCIES; at++)
        changes[CHANGE](at);
    MARK(1);
    uint64_t start = ticks();
    sync();
    uint64_t taken = ticks() - start;
    MARK(2);
    return taken;
}

static void make_many(long count)
{
    (void)count;
    need(mkdir(MANY, 0755) == 0, MANY);
    sync();
}

static void remove_many(long count)
{
    (void)count;
    applet((char *[]){"rm", "-rf", MANY, NULL});
    sync();
}

enum { KIB = 1024 };
#define LATENCY(words, change, rank) \
    {.name = words, .prepare = make_many, .figure = latency, .finish = remove_many, .arg = {change, rank}}
#define SYNC(words, change) {.name = words, .prepare = make_many, .figure = sync_after, .finish = remove_many, .arg = {change}}
#define FILES(bytes, processes, sync_every) \
    .set_up = make_files, .tear_down = remove_files, .arg = {bytes, processes, sync_every}
#define READ(words, least, how, kib, processes) \
    {.name = "read " words, .step = least, .prepare = how, .body = reads, FILES(kib * KIB, processes, 0)}
#define READ_ANY(words, least, how, kib, processes) \
    {.name = "random read " words, .step = least, .prepare = how, .body = random_reads, FILES(kib * KIB, processes, 0)}
#define WRITE(words, least, how, kib, processes, sync_every) \
    {.name = "write " words, .step = least, .prepare = how, .body = writes, FILES(kib * KIB, processes, sync_every)}
#define WRITE_ANY(words, least, how, kib, processes, sync_every) \
    {.name = "random write " words, .step = least, .prepare = how, .body = random_writes, FILES(kib * KIB, processes, sync_every)}
#define TREE(words, how, what) {.name = words, .step = 1, .prepare = how, .body = what}
#define MAKE(words, how, what) {.name = words, .step = 1, .prepare = how, .body = what, .tear_down = remove_out}

/* A unit is a call, or a tree. */
static const struct probe list[] = {
    READ("4 KB cold", 512, chill, 4, 1),
    READ("64 KB cold", 32, chill, 64, 1),
    READ("1 MB cold", 2, chill, 1024, 1),
    READ("64 KB cold by 4", 16, chill, 64, 4),
    READ("64 KB cold by 16", 64, chill, 64, 16),
    READ("4 KB warm", 512, warm, 4, 1),
    READ("1 MB warm", 2, warm, 1024, 1),
    READ("4 KB warm by 4", 400, warm, 4, 4),
    READ_ANY("4 KB cold", 128, chill, 4, 1),
    READ_ANY("64 KB cold", 16, chill, 64, 1),
    READ_ANY("4 KB cold by 4", 128, chill, 4, 4),
    READ_ANY("4 KB cold by 16", 256, chill, 4, 16),
    READ_ANY("4 KB warm", 512, warm, 4, 1),
    READ_ANY("4 KB warm by 16", 1600, warm, 4, 16),
    WRITE("4 KB", 512, settle, 4, 1, 0),
    WRITE("64 KB", 32, settle, 64, 1, 0),
    WRITE("1 MB", 2, settle, 1024, 1, 0),
    WRITE("64 KB by 4", 16, settle, 64, 4, 0),
    WRITE("64 KB by 16", 64, settle, 64, 16, 0),
    WRITE("64 KB to a new file", 16, cut, 64, 1, 0),
    WRITE("4 KB+fsync", 8, settle, 4, 1, 1),
    WRITE("4 KB+fsync by 4", 16, settle, 4, 4, 1),
    WRITE("4 KB+fsync by 16", 32, settle, 4, 16, 1),
    WRITE("64 KB+fsync", 8, settle, 64, 1, 1),
    WRITE("1 MB+fsync", 2, settle, 1024, 1, 1),
    {.name = "rewrite 2 MB by 1 KB", .step = 2048, .prepare = settle, .body = rewrites, FILES(KIB, 1, 0)},
    WRITE_ANY("4 KB", 512, settle, 4, 1, 0),
    WRITE_ANY("4 KB by 16", 1600, settle, 4, 16, 0),
    WRITE_ANY("4 KB+fsync", 8, settle, 4, 1, 1),
    MAKE("untar", empty, untar),
    MAKE("copy a tree cold", empty_and_chill, copy_tree),
    MAKE("copy a tree warm", empty, copy_tree),
    TREE("find cold", chill, find),
    TREE("find warm", settle, find),
    TREE("grep -rF cold", chill, grep),
    TREE("grep -rF warm", settle, grep),
    LATENCY("worst of 5000 creates", CREATE, WORST),
    LATENCY("99th percentile of 5000 creates", CREATE, PERCENTILE_99),
    SYNC("sync after 5000 creates", CREATE),
    LATENCY("worst of 5000 small writes", SMALL_WRITE, WORST),
    LATENCY("99th percentile of 5000 small writes", SMALL_WRITE, PERCENTILE_99),
    SYNC("sync after 5000 small writes", SMALL_WRITE),
    LATENCY("worst of 5000 mkdir+rmdir", MKDIR_RMDIR, WORST),
    LATENCY("99th percentile of 5000 mkdir+rmdir", MKDIR_RMDIR, PERCENTILE_99),
    SYNC("sync after 5000 mkdir+rmdir", MKDIR_RMDIR),
};
SUITE(disk, list);
