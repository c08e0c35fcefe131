/* The calls whose cost depends on what a descriptor is of, on every class of descriptor. */
#include "harness.h"
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

/* The object's descriptor, its other end's, and that of an epoll. */
enum { FD = 20, PEER, WATCHER };
enum { BYTES = 64 << 10, PAGE = 4096 };
/* Where it is mapped: nothing else is there. */
#define PLACE 0x200000000000

static char buffer[32 << 10];
static const uint64_t one = 1;
static const struct iovec pieces[2] = {{&buffer[0], 1}, {&buffer[1], 1}};
static struct pollfd polled = {.fd = FD, .events = POLLIN};
static struct epoll_event event = {.events = EPOLLIN};

static void make_epoll(void)
{
    put_at(epoll_create1(0), WATCHER, "epoll_create1");
}

static void open_text(void)
{
    make_epoll();
    if (access(text, F_OK) != 0)
        make_file(text, BYTES);
    /* Folders and much of /proc are not to be written. */
    int made = open(text, O_RDWR);
    put_at(made >= 0 ? made : open(text, O_RDONLY), FD, text);
}

static void make_pipe(void)
{
    int both[2];
    make_epoll();
    need(pipe2(both, O_NONBLOCK) == 0, "pipe");
    put_at(both[0], FD, "pipe");
    put_at(both[1], PEER, "pipe");
}

/* Both ends of a named pipe. */
static void make_fifo(void)
{
    make_epoll();
    need(mkfifo(IN_MEMORY "/fifo", 0600) == 0 || errno == EEXIST, "mkfifo");
    put_at(open(IN_MEMORY "/fifo", O_RDWR | O_NONBLOCK), FD, "a named pipe");
    put_at(dup(FD), PEER, "dup");
}

static void make_pair(void)
{
    int both[2];
    make_epoll();
    need(socketpair(AF_UNIX, arg[0] | SOCK_NONBLOCK, 0, both) == 0, "socketpair");
    put_at(both[0], FD, "socketpair");
    put_at(both[1], PEER, "socketpair");
}

/* What is written to the master is read from the terminal at once. */
static void make_terminal(void)
{
    struct termios raw;
    int master, terminal;
    make_epoll();
    cfmakeraw(&raw);
    raw.c_cflag |= CREAD | CS8 | B38400;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    need(openpty(&master, &terminal, NULL, &raw, NULL) == 0, "openpty");
    put_at(terminal, FD, "openpty");
    put_at(master, PEER, "openpty");
    need(fcntl(FD, F_SETFL, O_RDWR | O_NONBLOCK) == 0, "fcntl");
}

static void make_event(void)
{
    make_epoll();
    put_at(eventfd(0, EFD_NONBLOCK), FD, "eventfd");
    put_at(dup(FD), PEER, "dup");
}

static void make_timer(void)
{
    make_epoll();
    put_at(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), FD, "timerfd_create");
}

static void make_signals(void)
{
    sigset_t set;
    make_epoll();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    put_at(signalfd(-1, &set, SFD_NONBLOCK), FD, "signalfd");
}

static void make_inotify(void)
{
    make_epoll();
    put_at(inotify_init1(IN_NONBLOCK), FD, "inotify_init1");
}

static void make_watcher(void)
{
    make_epoll();
    put_at(epoll_create1(0), FD, "epoll_create1");
}

static void make_memory(void)
{
    make_epoll();
    put_at(memfd_create("bench", 0), FD, "memfd_create");
    need(ftruncate(FD, BYTES) == 0 && write(FD, buffer, sizeof buffer) == sizeof buffer && lseek(FD, 0, SEEK_SET) == 0, "a memory file");
}

static void make_pidfd(void)
{
    make_epoll();
    put_at(syscall(SYS_pidfd_open, getpid(), 0), FD, "pidfd_open");
}

#define STEP .step = 400
#define OBJECT(object, row, make, ...) {.name = object ": " row, STEP, .set_up = make, .body = make_calls, __VA_ARGS__}
#define CALLS(...) .calls = {__VA_ARGS__}
/* What all can do, and what those that one can wait for can do. */
#define COMMON(object, make, ...) \
    OBJECT(object, "fstat", make, CALLS({SYS_fstat, FD, (long)buffer}), __VA_ARGS__), \
    {.name = object ": dup+close", STEP, .set_up = make, .body = make_calls_and_close, CALLS({SYS_dup, FD}), __VA_ARGS__}, \
    OBJECT(object, "F_GETFL", make, CALLS({SYS_fcntl, FD, F_GETFL}), __VA_ARGS__), \
    OBJECT(object, "poll", make, CALLS({SYS_poll, (long)&polled, 1, 0}), __VA_ARGS__)
#define WAITED(object, make, ...) \
    COMMON(object, make, __VA_ARGS__), \
    OBJECT(object, "epoll add+del", make, \
        CALLS({SYS_epoll_ctl, WATCHER, EPOLL_CTL_ADD, FD, (long)&event}, {SYS_epoll_ctl, WATCHER, EPOLL_CTL_DEL, FD}), \
        __VA_ARGS__)
#define NOTHING_TO_READ(object, make, ...) \
    OBJECT(object, "read nothing", make, CALLS({SYS_read, FD, (long)buffer, 8}), .refused = EAGAIN, __VA_ARGS__)
#define BOTH_WAYS(object, make, bytes, ...) \
    WAITED(object, make, __VA_ARGS__), NOTHING_TO_READ(object, make, __VA_ARGS__), \
    OBJECT(object, "write+read", make, CALLS({SYS_write, PEER, (long)&one, bytes}, {SYS_read, FD, (long)buffer, bytes}), __VA_ARGS__)
#define READ(object, make, ...) OBJECT(object, "read", make, CALLS({SYS_read, FD, (long)buffer, 1}), __VA_ARGS__)
#define WRITE(object, make, ...) OBJECT(object, "write", make, CALLS({SYS_write, FD, (long)buffer, 1}), __VA_ARGS__)
#define SEEK(object, make, ...) OBJECT(object, "lseek", make, CALLS({SYS_lseek, FD, 0, SEEK_SET}), __VA_ARGS__)
#define MAP(object, make, ...) \
    OBJECT(object, "mmap+munmap", make, \
        CALLS({SYS_mmap, PLACE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, FD, 0}, {SYS_munmap, PLACE, PAGE}), __VA_ARGS__)
/* Contents at any position. */
#define CONTENTS(object, make, ...) \
    COMMON(object, make, __VA_ARGS__), SEEK(object, make, __VA_ARGS__), MAP(object, make, __VA_ARGS__), \
    OBJECT(object, "pread", make, CALLS({SYS_pread64, FD, (long)buffer, 1, 0}), __VA_ARGS__), \
    OBJECT(object, "pwrite", make, CALLS({SYS_pwrite64, FD, (long)buffer, 1, 0}), __VA_ARGS__), \
    READ(object, make, __VA_ARGS__), WRITE(object, make, __VA_ARGS__), \
    OBJECT(object, "readv", make, CALLS({SYS_preadv, FD, (long)pieces, 2, 0}), __VA_ARGS__), \
    OBJECT(object, "ftruncate", make, CALLS({SYS_ftruncate, FD, BYTES}), __VA_ARGS__), \
    OBJECT(object, "SEEK_DATA", make, CALLS({SYS_lseek, FD, 0, SEEK_DATA}), __VA_ARGS__)
/* The texts of /proc, made anew by each call, and what else of it costs. */
#define GENERATED(path) \
    {.name = path ": pread", .step = 100, .set_up = open_text, .body = make_calls, \
        CALLS({SYS_pread64, FD, (long)buffer, sizeof buffer, 0}), .text = path}
/* The names of a folder. */
#define NAMES(path) \
    {.name = path ": getdents", .step = 50, .set_up = open_text, .body = make_calls, \
        CALLS({SYS_lseek, FD, 0, SEEK_SET}, {SYS_getdents64, FD, (long)buffer, sizeof buffer}), .text = path}

static const struct probe list[] = {
    CONTENTS("ext4", open_text, .text = ON_DISK "/object"),
    CONTENTS("tmpfs", open_text, .text = IN_MEMORY "/object"),
    CONTENTS("memfd", make_memory),
    COMMON("/proc", open_text, .text = "/proc/self/stat"), SEEK("/proc", open_text, .text = "/proc/self/stat"),
    GENERATED("/proc/self/stat"), GENERATED("/proc/self/status"), GENERATED("/proc/self/maps"), GENERATED("/proc/self/cmdline"),
    GENERATED("/proc/self/mountinfo"), GENERATED("/proc/sys/kernel/pid_max"), GENERATED("/proc/meminfo"), GENERATED("/proc/uptime"),
    GENERATED("/proc/loadavg"), GENERATED("/proc/stat"), GENERATED("/proc/cpuinfo"),
    COMMON("folder", open_text, .text = "/bin"), SEEK("folder", open_text, .text = "/bin"),
    NAMES("/bin"), NAMES("/dev"), NAMES("/proc"), NAMES("/proc/self"), NAMES("/proc/self/fd"), NAMES("/proc/self/task"), NAMES("/sys"),
    NAMES(IN_MEMORY),
    COMMON("/dev/null", open_text, .text = "/dev/null"), SEEK("/dev/null", open_text, .text = "/dev/null"),
    READ("/dev/zero", open_text, .text = "/dev/zero"), MAP("/dev/zero", open_text, .text = "/dev/zero"),
    COMMON("/dev/urandom", open_text, .text = "/dev/urandom"), READ("/dev/urandom", open_text, .text = "/dev/urandom"),
    BOTH_WAYS("terminal", make_terminal, 1),
    OBJECT("terminal", "TCGETS", make_terminal, CALLS({SYS_ioctl, FD, TCGETS, (long)buffer})),
    OBJECT("terminal", "TIOCGWINSZ", make_terminal, CALLS({SYS_ioctl, FD, TIOCGWINSZ, (long)buffer})),
    BOTH_WAYS("pipe", make_pipe, 1), OBJECT("pipe", "FIONREAD", make_pipe, CALLS({SYS_ioctl, FD, FIONREAD, (long)buffer})),
    BOTH_WAYS("fifo", make_fifo, 1),
    BOTH_WAYS("stream", make_pair, 1, .arg = {SOCK_STREAM}),
    BOTH_WAYS("datagram", make_pair, 1, .arg = {SOCK_DGRAM}),
    BOTH_WAYS("eventfd", make_event, 8),
    WAITED("timerfd", make_timer), NOTHING_TO_READ("timerfd", make_timer),
    WAITED("signalfd", make_signals),
    {.name = "signalfd: read nothing", STEP, .set_up = make_signals, .body = make_calls,
        CALLS({SYS_read, FD, (long)buffer, sizeof(struct signalfd_siginfo)}), .refused = EAGAIN},
    WAITED("inotify", make_inotify),
    {.name = "inotify: read nothing", STEP, .set_up = make_inotify, .body = make_calls,
        CALLS({SYS_read, FD, (long)buffer, sizeof buffer}), .refused = EAGAIN},
    WAITED("epoll", make_watcher),
    OBJECT("epoll", "epoll_wait of nothing", make_watcher, CALLS({SYS_epoll_wait, FD, (long)buffer, 1, 0})),
    WAITED("pidfd", make_pidfd),
};
SUITE(objects, list);
