/* System calls that wait for nothing, signals and clocks. */
#include "harness.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <time.h>

#define FILE_PATH ON_DISK "/file"
static int fd;
static char byte;

static void getppids(long count)
{
    while (count--)
        syscall(SYS_getppid);
}

/* arg[0] tests on the way of every call: of its number, whose outcome can be known ahead, or of its argument arg[1]. */
static void filter(void)
{
    enum { TESTS_MAX = 200 };
    struct sock_filter program[TESTS_MAX + 3];
    struct sock_fprog whole = {.filter = program};
    need(arg[0] <= TESTS_MAX, "so many tests");
    size_t tested = offsetof(struct seccomp_data, nr);
    if (arg[1])
        tested = offsetof(struct seccomp_data, args) + (arg[1] - 1) * sizeof(uint64_t);
    program[whole.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, tested);
    for (long at = 0; at < arg[0]; at++)
        program[whole.len++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x5eed000 + at, arg[0] - at, 0);
    program[whole.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[whole.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
    need(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole) == 0, "seccomp");
}

static void open_text(void)
{
    fd = open(text, O_RDWR);
    need(fd >= 0, text);
}

static void reads(long count)
{
    while (count--)
        need(read(fd, &byte, 1) == 1, "read");
}

static void writes(long count)
{
    while (count--)
        need(write(fd, &byte, 1) == 1, "write");
}

static void make(void)
{
    make_file(FILE_PATH, 1);
    fd = open(FILE_PATH, O_RDONLY);
    need(fd >= 0, FILE_PATH);
}

static void stats(long count)
{
    struct stat found;
    while (count--)
        need(stat(FILE_PATH, &found) == 0, "stat");
}

static void fstats(long count)
{
    struct stat found;
    while (count--)
        need(fstat(fd, &found) == 0, "fstat");
}

static void opens(long count)
{
    while (count--) {
        int opened = open(FILE_PATH, O_RDONLY);
        need(opened >= 0, "open");
        close(opened);
    }
}

/* Descriptors waited for: arg[0] pipes, of which the last has a byte. */
enum { PIPES_MAX = 200 };
static int ends[PIPES_MAX];

static void make_pipes(void)
{
    for (long at = 0; at < arg[0]; at++) {
        int both[2];
        need(pipe(both) == 0, "pipe");
        ends[at] = both[0];
        if (at == arg[0] - 1)
            need(write(both[1], "x", 1) == 1, "write");
    }
}

/* The same of files, all of which are ready. */
static void make_files(void)
{
    make_file(FILE_PATH, 1);
    for (long at = 0; at < arg[0]; at++) {
        ends[at] = open(FILE_PATH, O_RDONLY);
        need(ends[at] >= 0, FILE_PATH);
    }
}

static long ready(void)
{
    return arg[1] ? arg[1] : 1;
}

static void selects(long count)
{
    int last = ends[arg[0] - 1], found = ready();
    fd_set all;
    FD_ZERO(&all);
    for (long at = 0; at < arg[0]; at++)
        FD_SET(ends[at], &all);
    while (count--) {
        fd_set set = all;
        need(select(last + 1, &set, NULL, NULL, NULL) == found, "select");
    }
}

static void polls(long count)
{
    struct pollfd all[PIPES_MAX];
    int found = ready();
    for (long at = 0; at < arg[0]; at++)
        all[at] = (struct pollfd){.fd = ends[at], .events = POLLIN};
    while (count--)
        need(poll(all, arg[0], -1) == found, "poll");
}

static void make_epoll(void)
{
    make_pipes();
    fd = epoll_create1(0);
    need(fd >= 0, "epoll_create1");
    for (long at = 0; at < arg[0]; at++) {
        struct epoll_event event = {.events = EPOLLIN};
        need(epoll_ctl(fd, EPOLL_CTL_ADD, ends[at], &event) == 0, "epoll_ctl");
    }
}

static void epolls(long count)
{
    struct epoll_event events[16];
    while (count--)
        need(epoll_wait(fd, events, 16, -1) == 1, "epoll_wait");
}

static void handler(int signal)
{
    (void)signal;
}

static void installs(long count)
{
    struct sigaction action = {.sa_handler = handler};
    while (count--)
        need(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
}

/* As signal(), which gives the old action back, does it: by turns a handler and none. */
static void exchanges(long count)
{
    while (count--)
        need(signal(SIGUSR1, count & 1 ? handler : SIG_DFL) != SIG_ERR, "signal");
}

static void install(void)
{
    installs(1);
}

static void delivers(long count)
{
    pid_t self = getpid();
    while (count--)
        need(kill(self, SIGUSR1) == 0, "kill");
}

static char *page;
static volatile long faults;
static sigjmp_buf over;

static void faulted(int signal)
{
    (void)signal;
    if (--faults == 0)
        siglongjmp(over, 1);
}

static void protect(void)
{
    struct sigaction action = {.sa_handler = faulted};
    need(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED, "mmap");
    byte = *page;
}

static void violates(long count)
{
    faults = count;
    if (sigsetjmp(over, 1) == 0)
        *(volatile char *)page = 1;
}

static void clocks(long count)
{
    struct timespec now;
    while (count--)
        clock_gettime(CLOCK_MONOTONIC, &now);
}

static void naps(long count)
{
    struct timespec one = {.tv_nsec = 1000000};
    while (count--)
        nanosleep(&one, NULL);
}

static const struct probe list[] = {
    {.name = "getppid", .step = 40000, .body = getppids},
    {.name = "getppid, filter of 100 numbers", .step = 40000, .set_up = filter, .body = getppids, .arg = {100}},
    {.name = "getppid, filter of 10 values", .step = 20000, .set_up = filter, .body = getppids, .arg = {10, 1}},
    {.name = "getppid, filter of 100 values", .step = 10000, .set_up = filter, .body = getppids, .arg = {100, 1}},
    {.name = "read /dev/zero", .step = 10000, .set_up = open_text, .body = reads, .text = "/dev/zero"},
    {.name = "write /dev/null", .step = 10000, .set_up = open_text, .body = writes, .text = "/dev/null"},
    {.name = "stat", .step = 4000, .set_up = make, .body = stats},
    {.name = "fstat", .step = 6000, .set_up = make, .body = fstats},
    {.name = "open+close", .step = 2000, .set_up = make, .body = opens},
    {.name = "select 10", .step = 2000, .set_up = make_pipes, .body = selects, .arg = {10}},
    {.name = "select 200", .step = 200, .set_up = make_pipes, .body = selects, .arg = {200}},
    {.name = "poll 10", .step = 2000, .set_up = make_pipes, .body = polls, .arg = {10}},
    {.name = "poll 200", .step = 200, .set_up = make_pipes, .body = polls, .arg = {200}},
    {.name = "files: select 10", .step = 2000, .set_up = make_files, .body = selects, .arg = {10, 10}},
    {.name = "files: select 100", .step = 400, .set_up = make_files, .body = selects, .arg = {100, 100}},
    {.name = "files: poll 10", .step = 2000, .set_up = make_files, .body = polls, .arg = {10, 10}},
    {.name = "files: poll 100", .step = 400, .set_up = make_files, .body = polls, .arg = {100, 100}},
    {.name = "epoll 10", .step = 4000, .set_up = make_epoll, .body = epolls, .arg = {10}},
    {.name = "epoll 200", .step = 4000, .set_up = make_epoll, .body = epolls, .arg = {200}},
    {.name = "signal install", .step = 8000, .body = installs},
    {.name = "signal exchange", .step = 8000, .body = exchanges},
    {.name = "signal deliver", .step = 2000, .set_up = install, .body = delivers},
    {.name = "protection fault", .step = 1000, .set_up = protect, .body = violates},
    {.name = "clock_gettime", .step = 100000, .body = clocks},
    {.name = "nanosleep overshoot", .step = 8, .body = naps, .agreed_ns = 1000000},
};
SUITE(calls, list);
