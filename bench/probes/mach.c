/* Several tasks at once, as the tests of section 3.3.1 of "Parallelizing ... Mach" (M7) are described there; the benchmark itself
 * is not public. A row is a test by a number of tasks, each with a working file of its own, and the count how often each task
 * does its part: the slope is the time in which all of them have done it once. Tasks are made before it is measured. */
#include "harness.h"

enum { TASKS_MAX = 20, BLOCK = 512, FILE_BYTES = 2 << 20, NUMBERS = 256, MESSAGE_MAX = 16 << 10 };

struct test {
    void (*part)(int fd, long number);
    /* The working files are read from the disk. */
    int is_cold;
    /* A task writes to a process of its own over TCP, and has no working file. */
    int is_stream;
};

static pid_t tasks[TASKS_MAX];
static int gate[2], ready[2];
static char block[BLOCK], message[MESSAGE_MAX];
static pid_t reader;

static const char *file_of(long task)
{
    static char path[48];
    snprintf(path, sizeof path, ON_DISK "/task%ld", task);
    return path;
}

/* A block of the working file: each once, in no order, before any again. */
static void seek(int fd, long number)
{
    enum { STRIDE = 2531, BLOCKS = FILE_BYTES / BLOCK };
    off_t at = (off_t)(number * STRIDE % BLOCKS) * BLOCK;
    need(lseek(fd, at, SEEK_SET) == at, "lseek");
}

static void read_block(int fd)
{
    need(read(fd, block, BLOCK) == BLOCK, "read");
}

static void write_block(int fd)
{
    need(write(fd, block, BLOCK) == BLOCK, "write");
}

static int order(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* Test 1: calculations with whole numbers and others, and what files are made, written, read and removed for. */
static void average_user(int fd, long number)
{
    int numbers[NUMBERS];
    double sum = 0;
    for (int at = 0; at < NUMBERS; at++)
        numbers[at] = (number + at) * 7919 % 1009;
    qsort(numbers, NUMBERS, sizeof numbers[0], order);
    for (int at = 0; at < NUMBERS; at++)
        sum += numbers[at] / (at + 1.5);
    need(sum > 0, "the sum");
    char path[48];
    struct stat found;
    snprintf(path, sizeof path, ON_DISK "/scratch%d", getpid());
    int scratch = open(path, O_CREAT | O_EXCL | O_RDWR, 0644);
    need(scratch >= 0, path);
    for (int at = 0; at < 4; at++)
        write_block(scratch);
    need(stat(path, &found) == 0 && found.st_size == 4 * BLOCK, path);
    need(lseek(scratch, 0, SEEK_SET) == 0, "lseek");
    for (int at = 0; at < 4; at++)
        read_block(scratch);
    close(scratch);
    need(unlink(path) == 0, path);
    for (int at = 0; at < 4; at++) {
        seek(fd, number * 4 + at);
        read_block(fd);
    }
}

/* Test 3. */
static void disk_io(int fd, long number)
{
    need(lseek(fd, 0, SEEK_SET) == 0, "lseek");
    for (int at = 0; at < 5; at++)
        read_block(fd);
    for (int at = 0; at < 5; at++)
        write_block(fd);
    for (int at = 0; at < 5; at++) {
        seek(fd, number * 5 + at);
        read_block(fd);
    }
}

static void __attribute__((noinline)) nothing(void)
{
    __asm__ volatile("");
}

/* Test 8: a thousand calls a count. */
static void function_calls(int fd, long number)
{
    (void)fd, (void)number;
    for (int at = 0; at < 1000; at++)
        nothing();
}

/* Test 18. */
static void random_reads(int fd, long number)
{
    seek(fd, number);
    read_block(fd);
}

#define TASKS arg[0]
#define TEST tests[arg[1]]
#define MESSAGE arg[2]

/* Streams of messages of one size, after the figures 5 to 8 of the same paper. */
static void write_message(int fd, long number)
{
    (void)number;
    need(write(fd, message, MESSAGE) == MESSAGE, "write");
}

/* Makes the process that reads what the task writes. Returns the task's end. */
static int make_reader(void)
{
    int both[2];
    make_connection(both);
    reader = fork();
    need(reader >= 0, "fork");
    if (reader == 0) {
        close(both[0]);
        while (read(both[1], message, MESSAGE_MAX) > 0)
            ;
        _exit(0);
    }
    close(both[1]);
    return both[0];
}

static const struct test tests[] = {
    {.part = average_user},
    {.part = disk_io},
    {.part = function_calls},
    {.part = random_reads, .is_cold = 1},
    {.part = write_message, .is_stream = 1},
};

static void make_files(void)
{
    for (long task = 0; task < TASKS; task++)
        make_file(file_of(task), FILE_BYTES);
    sync();
}

static void remove_files(void)
{
    for (long task = 0; task < TASKS; task++)
        need(unlink(file_of(task)) == 0, file_of(task));
    sync();
}

/* Does its part once, waits at the gate, does it `count` times more and ends. */
static void work(long task, long count)
{
    char token = 0;
    int fd = TEST.is_stream ? make_reader() : open(file_of(task), O_RDWR);
    need(fd >= 0, file_of(task));
    TEST.part(fd, count);
    need(write(ready[1], &token, 1) == 1 && read(gate[0], &token, 1) == 1, "the gate");
    for (long number = 0; number < count; number++)
        TEST.part(fd, number);
    close(fd);
    if (TEST.is_stream)
        reap(reader);
    _exit(0);
}

static void make_tasks(long count)
{
    char token;
    sync();
    if (TEST.is_cold)
        drop_caches();
    need(pipe(gate) == 0 && pipe(ready) == 0, "pipe");
    for (long task = 0; task < TASKS; task++) {
        tasks[task] = fork();
        if (tasks[task] == 0)
            work(task, count);
    }
    for (long task = 0; task < TASKS; task++)
        need(read(ready[0], &token, 1) == 1, "the gate");
}

static void run_tasks(long count)
{
    (void)count;
    static const char tokens[TASKS_MAX];
    need(write(gate[1], tokens, TASKS) == TASKS, "the gate");
    for (long task = 0; task < TASKS; task++)
        reap(tasks[task]);
}

static void close_pipes(long count)
{
    (void)count;
    for (int end = 0; end < 2; end++) {
        close(gate[end]);
        close(ready[end]);
    }
}

/* The tasks themselves make what they need. */
#define STREAMS_BY(words, least, bytes, count) \
    {.name = "TCP " words " by " #count, .step = least, .prepare = make_tasks, .body = run_tasks, .finish = close_pipes, \
        .arg = {count, 4, bytes}}
#define STREAMS(words, least, bytes) \
    STREAMS_BY(words, least, bytes, 1), STREAMS_BY(words, least, bytes, 2), STREAMS_BY(words, least, bytes, 4), \
        STREAMS_BY(words, least, bytes, 6), STREAMS_BY(words, least, bytes, 8), STREAMS_BY(words, least, bytes, 10)
#define TEST_BY(words, least, number, count) \
    {.name = words " by " #count, .step = least, .set_up = make_files, .prepare = make_tasks, .body = run_tasks, \
        .finish = close_pipes, .tear_down = remove_files, .arg = {count, number}}
#define CURVE(words, least, number) \
    TEST_BY(words, least, number, 1), TEST_BY(words, least, number, 2), TEST_BY(words, least, number, 4), \
        TEST_BY(words, least, number, 8), TEST_BY(words, least, number, 12), TEST_BY(words, least, number, 16), \
        TEST_BY(words, least, number, 20)

static const struct probe list[] = {
    CURVE("average user", 10, 0),
    CURVE("disk I/O", 50, 1),
    CURVE("function calls", 200, 2),
    CURVE("random reads", 20, 3),
    STREAMS("1 B", 1000, 1),
    STREAMS("64 B", 1000, 64),
    STREAMS("1000 B", 500, 1000),
    STREAMS("16 KB", 100, 16 << 10),
};
SUITE(mach, list);
