/* One call of every kind that no other file has: of processes, identities, clocks, timers, signals, memory, futexes, sockets, and of
 * what is moved between descriptors, and System V's and POSIX's objects. */
#include "harness.h"
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>

enum { FD = 20, PEER, OTHER, PAGE = 4096 };
#define PLACE 0x200000000000
static char buffer[64 << 10];
static int both[2];

/* Signals. */
static uint64_t set = 1 << (SIGUSR1 - 1), none;
static pid_t child;

static void nothing(int signal)
{
    (void)signal;
}

static void stay(void)
{
    child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
}

static void end_child(void)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void kill_child(long count)
{
    while (count--)
        need(kill(child, 0) == 0, "kill");
}

static void wait_for_none(long count)
{
    while (count--)
        need(waitpid(-1, NULL, WNOHANG) == 0, "waitpid");
}

static void handle(void)
{
    struct sigaction action = {.sa_handler = nothing};
    need(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
}

static void block(void)
{
    handle();
    need(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8) == 0, "sigprocmask");
}

static void deliver_to_thread(long count)
{
    pid_t self = getpid();
    while (count--)
        need(syscall(SYS_tgkill, self, self, SIGUSR1) == 0, "tgkill");
}

/* A blocked signal is sent and taken: by a suspended mask, or by waiting for it. */
static void suspend(long count)
{
    pid_t self = getpid();
    while (count--)
        need(kill(self, SIGUSR1) == 0 && syscall(SYS_rt_sigsuspend, &none, 8) == -1, "sigsuspend");
}

static void take(long count)
{
    pid_t self = getpid();
    while (count--)
        need(kill(self, SIGUSR1) == 0 && syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 8) == SIGUSR1, "sigtimedwait");
}

static const stack_t stack = {.ss_sp = buffer, .ss_size = sizeof buffer};

/* Clocks and timers. */
static struct timespec now, soon = {.tv_nsec = 1}, never, past = {.tv_sec = 1};
static const struct itimerspec late = {.it_value = {.tv_sec = 1000}};
static const struct itimerval late_too = {.it_value = {.tv_sec = 1000}};
static timer_t timer;

static void make_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
}

static void timers(long count)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    int id;
    while (count--) {
        need(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id) == 0, "timer_create");
        need(syscall(SYS_timer_delete, id) == 0, "timer_delete");
    }
}

static void set_timer(long count)
{
    while (count--)
        need(timer_settime(timer, 0, &late, NULL) == 0, "timer_settime");
}

static void ask_timer(long count)
{
    struct itimerspec left;
    while (count--)
        need(timer_gettime(timer, &left) == 0, "timer_gettime");
}

static void make_timerfd(void)
{
    put_at(timerfd_create(CLOCK_MONOTONIC, 0), FD, "timerfd_create");
}

/* Memory: FD is a file of its size at PLACE. */
enum { PAGES = 64 };

static void map(void)
{
    char *at = mmap((void *)PLACE, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    need(at != MAP_FAILED, "mmap");
    memset(at, 1, PAGES * PAGE);
}

static void discard(long count)
{
    while (count--) {
        *(volatile char *)PLACE = 1;
        need(madvise((void *)PLACE, PAGE, MADV_DONTNEED) == 0, "madvise");
    }
}

static void grow(long count)
{
    char *end = sbrk(0);
    while (count--)
        need(brk(end + PAGE) == 0 && brk(end) == 0, "brk");
}

/* Futexes. */
static int word, other;
static const struct timespec at_once = {.tv_sec = 0};

/* Sockets. */
static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0bench"};
enum { ADDRESS = sizeof(sa_family_t) + 6 };
static socklen_t length;
static int value;

static void make_pair(void)
{
    need(socketpair(AF_UNIX, arg[0] ? arg[0] : SOCK_STREAM, 0, both) == 0, "socketpair");
    put_at(both[0], FD, "socketpair");
    put_at(both[1], PEER, "socketpair");
}

static void listen_there(void)
{
    put_at(socket(AF_UNIX, SOCK_STREAM, 0), FD, "socket");
    need(bind(FD, (void *)&address, ADDRESS) == 0 && listen(FD, 16) == 0, "listen");
}

static void connects(long count)
{
    while (count--) {
        int made = socket(AF_UNIX, SOCK_STREAM, 0);
        need(connect(made, (void *)&address, ADDRESS) == 0, "connect");
        int taken = accept(FD, NULL, NULL);
        need(taken >= 0, "accept");
        close(made);
        close(taken);
    }
}

/* A message of a byte, with as many descriptors as arg[1] says. */
static void messages(long count)
{
    union {
        struct cmsghdr first;
        char room[CMSG_SPACE(4 * sizeof(int))];
    } control;
    int sent[4] = {FD, FD, FD, FD}, came[4];
    struct iovec piece = {buffer, 1};
    size_t bytes = arg[1] * sizeof(int);
    while (count--) {
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
        if (bytes) {
            message.msg_control = &control;
            message.msg_controllen = CMSG_SPACE(bytes);
            control.first = (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
            memcpy(CMSG_DATA(&control.first), sent, bytes);
        }
        need(sendmsg(FD, &message, 0) == 1 && recvmsg(PEER, &message, 0) == 1, "a message");
        memcpy(came, CMSG_DATA(&control.first), bytes);
        for (long at = 0; at < arg[1]; at++)
            close(came[at]);
    }
}

static void pairs(long count)
{
    while (count--) {
        need(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0, "socketpair");
        close(both[0]);
        close(both[1]);
    }
}

static void pipes(long count)
{
    while (count--) {
        need(pipe(both) == 0, "pipe");
        close(both[0]);
        close(both[1]);
    }
}

/* What is moved: FD is a file of 64 KB on disk or in memory, OTHER one as large, and `both` a pipe. */
static void make_files(void)
{
    make_file(text, sizeof buffer);
    make_file(ON_DISK "/other", sizeof buffer);
    put_at(open(text, O_RDWR), FD, text);
    put_at(open(ON_DISK "/other", O_RDWR), OTHER, "the other");
    need(pipe(both) == 0, "pipe");
    put_at(both[0], 30, "pipe");
    put_at(both[1], 31, "pipe");
    put_at(open("/dev/null", O_WRONLY), 32, "/dev/null");
}
static loff_t start;
enum { OUT = 30, IN, SINK, MOVED = 4096 };

static void sends(long count)
{
    while (count--) {
        start = 0;
        need(syscall(SYS_sendfile, SINK, FD, &start, MOVED) == MOVED, "sendfile");
    }
}

static void splices(long count)
{
    while (count--) {
        start = 0;
        need(splice(FD, &start, IN, NULL, MOVED, 0) == MOVED && splice(OUT, NULL, SINK, NULL, MOVED, 0) == MOVED, "splice");
    }
}

static void tees(long count)
{
    int more[2];
    need(pipe(more) == 0 && write(IN, buffer, MOVED) == MOVED, "pipe");
    while (count--)
        need(tee(OUT, more[1], MOVED, 0) == MOVED && splice(more[0], NULL, SINK, NULL, MOVED, 0) == MOVED, "tee");
    need(read(OUT, buffer, MOVED) == MOVED, "read");
}

static void copies(long count)
{
    while (count--) {
        loff_t from = 0, to = 0;
        need(copy_file_range(FD, &from, OTHER, &to, MOVED, 0) == MOVED, "copy_file_range");
    }
}

/* System V's and POSIX's objects. */
static int id;
static struct sembuf up = {.sem_op = 1}, down = {.sem_op = -1};
static struct {
    long type;
    char text[8];
} message = {.type = 1};

static void make_semaphore(void)
{
    id = semget(IPC_PRIVATE, 1, 0600);
    need(id >= 0, "semget");
}

static void semaphores(long count)
{
    while (count--)
        need(semop(id, &up, 1) == 0 && semop(id, &down, 1) == 0, "semop");
}

static void remove_semaphore(void)
{
    semctl(id, 0, IPC_RMID);
}

static void make_messages(void)
{
    id = msgget(IPC_PRIVATE, 0600);
    need(id >= 0, "msgget");
}

static void queued(long count)
{
    while (count--)
        need(msgsnd(id, &message, 8, 0) == 0 && msgrcv(id, &message, 8, 0, 0) == 8, "a message");
}

static void remove_messages(void)
{
    msgctl(id, IPC_RMID, NULL);
}

static void make_shared(void)
{
    id = shmget(IPC_PRIVATE, PAGE, 0600);
    need(id >= 0, "shmget");
}

static void attach(long count)
{
    while (count--) {
        void *at = shmat(id, NULL, 0);
        need(at != (void *)-1 && shmdt(at) == 0, "shmat");
    }
}

static void remove_shared(void)
{
    shmctl(id, IPC_RMID, NULL);
}

static void shared(long count)
{
    while (count--) {
        int made = shmget(IPC_PRIVATE, PAGE, 0600);
        need(made >= 0 && shmctl(made, IPC_RMID, NULL) == 0, "shmget");
    }
}

static void make_queue(void)
{
    struct mq_attr shape = {.mq_maxmsg = 4, .mq_msgsize = 64};
    id = mq_open("/bench", O_CREAT | O_RDWR, 0600, &shape);
    need(id >= 0, "mq_open");
}

static void posted(long count)
{
    while (count--)
        need(mq_send(id, buffer, 8, 0) == 0 && mq_receive(id, buffer, 64, NULL) == 8, "a message");
}

static void remove_queue(void)
{
    mq_unlink("/bench");
}

static void watch(void)
{
    make_file(IN_MEMORY "/watched", 1);
    put_at(inotify_init1(0), FD, "inotify_init1");
}

static void watches(long count)
{
    while (count--) {
        int made = inotify_add_watch(FD, IN_MEMORY "/watched", IN_MODIFY);
        need(made >= 0 && inotify_rm_watch(FD, made) == 0, "inotify_add_watch");
    }
}

static const cpu_set_t first = {{1}};
static const struct sched_param priority;
static const struct flock lock = {.l_type = F_WRLCK, .l_len = 1}, unlock = {.l_type = F_UNLCK, .l_len = 1};

#define STEP .step = 400
#define CALL(row, ...) {.name = row, STEP, .body = make_calls, .calls = {__VA_ARGS__}}
#define MAKES(row, ...) {.name = row "+close", STEP, .body = make_calls_and_close, .calls = {__VA_ARGS__}}
#define WITH(make, row, ...) {.name = row, STEP, .set_up = make, .body = make_calls, .calls = {__VA_ARGS__}}
#define REFUSED(why, row, ...) {.name = row, STEP, .body = make_calls, .calls = {__VA_ARGS__}, .refused = why}
#define BODY(row, make, what, ...) {.name = row, STEP, .set_up = make, .body = what, __VA_ARGS__}

static const struct probe list[] = {
    CALL("getpid", {SYS_getpid}), CALL("gettid", {SYS_gettid}), CALL("getuid", {SYS_getuid}),
    CALL("getresuid", {SYS_getresuid, (long)buffer, (long)buffer + 4, (long)buffer + 8}), CALL("setuid", {SYS_setuid, 0}),
    CALL("getgroups", {SYS_getgroups, 8, (long)buffer}), CALL("setgroups", {SYS_setgroups, 1, (long)&word}),
    CALL("capget", {SYS_capget, (long)(uint32_t[]){0x20080522, 0}, (long)buffer}),
    CALL("getpgid", {SYS_getpgid, 0}), CALL("getsid", {SYS_getsid, 0}), CALL("setpgid", {SYS_setpgid, 0, 0}),
    CALL("umask", {SYS_umask, 022}), CALL("uname", {SYS_uname, (long)buffer}), CALL("sysinfo", {SYS_sysinfo, (long)buffer}),
    CALL("getrusage", {SYS_getrusage, RUSAGE_SELF, (long)buffer}), CALL("getrusage of children", {SYS_getrusage, RUSAGE_CHILDREN, (long)buffer}),
    CALL("getrusage of a thread", {SYS_getrusage, RUSAGE_THREAD, (long)buffer}), CALL("times", {SYS_times, (long)buffer}),
    CALL("getrlimit", {SYS_getrlimit, RLIMIT_NOFILE, (long)buffer}), CALL("prlimit", {SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)buffer}),
    CALL("getpriority", {SYS_getpriority, PRIO_PROCESS, 0}), CALL("setpriority", {SYS_setpriority, PRIO_PROCESS, 0, 0}),
    CALL("sched_getaffinity", {SYS_sched_getaffinity, 0, sizeof first, (long)buffer}),
    CALL("sched_setaffinity", {SYS_sched_setaffinity, 0, sizeof first, (long)&first}),
    CALL("sched_getscheduler", {SYS_sched_getscheduler, 0}), CALL("sched_setscheduler", {SYS_sched_setscheduler, 0, 0, (long)&priority}),
    CALL("sched_getparam", {SYS_sched_getparam, 0, (long)buffer}), CALL("sched_getattr", {SYS_sched_getattr, 0, (long)buffer, 48, 0}),
    CALL("sched_yield alone", {SYS_sched_yield}), CALL("getcpu", {SYS_getcpu, (long)buffer, (long)buffer, 0}),
    CALL("PR_GET_NAME", {SYS_prctl, PR_GET_NAME, (long)buffer}), CALL("PR_SET_NAME", {SYS_prctl, PR_SET_NAME, (long)"bench"}),
    CALL("PR_GET_DUMPABLE", {SYS_prctl, PR_GET_DUMPABLE}), CALL("PR_CAPBSET_READ", {SYS_prctl, PR_CAPBSET_READ, 1}),
    CALL("PR_SET_PDEATHSIG", {SYS_prctl, PR_SET_PDEATHSIG, 0}),
    CALL("arch_prctl", {SYS_arch_prctl, 0x1003, (long)buffer}), CALL("personality", {SYS_personality, 0xffffffff}),
    CALL("ioprio_get", {SYS_ioprio_get, 1, 0}), CALL("getrandom 16", {SYS_getrandom, (long)buffer, 16, 0}),
    CALL("membarrier", {SYS_membarrier, 0, 0, 0}), CALL("set_tid_address", {SYS_set_tid_address, (long)&word}),
    CALL("get_robust_list", {SYS_get_robust_list, 0, (long)buffer, (long)buffer + 8}),
    BODY("wait for none", stay, wait_for_none, .tear_down = end_child),
    BODY("kill 0 of another", stay, kill_child, .tear_down = end_child),
    MAKES("pidfd_open", {SYS_pidfd_open, 1, 0}),

    CALL("sigprocmask", {SYS_rt_sigprocmask, SIG_BLOCK, (long)&set, 0, 8}, {SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&set, 0, 8}),
    CALL("sigpending", {SYS_rt_sigpending, (long)buffer, 8}), CALL("sigaltstack", {SYS_sigaltstack, (long)&stack, 0}),
    BODY("tgkill deliver", handle, deliver_to_thread), BODY("kill+sigsuspend", block, suspend), BODY("kill+sigtimedwait", block, take),

    CALL("clock_gettime of a process", {SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, (long)&now}),
    CALL("clock_gettime of a thread", {SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&now}),
    CALL("clock_gettime by call", {SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now}),
    CALL("gettimeofday by call", {SYS_gettimeofday, (long)&now, 0}), CALL("clock_getres", {SYS_clock_getres, CLOCK_MONOTONIC, (long)&now}),
    CALL("nanosleep 1 ns", {SYS_nanosleep, (long)&soon, 0}), CALL("nanosleep 0 ns", {SYS_nanosleep, (long)&never, 0}),
    CALL("clock_nanosleep until before", {SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)&past, 0}),
    CALL("poll for 0 ms", {SYS_poll, 0, 0, 0}), CALL("alarm", {SYS_alarm, 0}),
    CALL("getitimer", {SYS_getitimer, ITIMER_REAL, (long)buffer}), CALL("setitimer", {SYS_setitimer, ITIMER_REAL, (long)&late_too, 0}),
    BODY("timer_create+delete", NULL, timers), BODY("timer_settime", make_timer, set_timer), BODY("timer_gettime", make_timer, ask_timer),
    MAKES("timerfd_create", {SYS_timerfd_create, CLOCK_MONOTONIC, 0}),
    WITH(make_timerfd, "timerfd_settime", {SYS_timerfd_settime, FD, 0, (long)&late, 0}),
    WITH(make_timerfd, "timerfd_gettime", {SYS_timerfd_gettime, FD, (long)buffer}),

    WITH(map, "mprotect", {SYS_mprotect, PLACE, PAGE, PROT_READ}, {SYS_mprotect, PLACE, PAGE, PROT_READ | PROT_WRITE}),
    WITH(map, "mprotect of the same", {SYS_mprotect, PLACE, PAGE, PROT_READ | PROT_WRITE}),
    BODY("fault+MADV_DONTNEED", map, discard), WITH(map, "mincore", {SYS_mincore, PLACE, PAGES * PAGE, (long)buffer}),
    WITH(map, "mremap", {SYS_mremap, PLACE, PAGES * PAGE, 2 * PAGES * PAGE, 0}, {SYS_mremap, PLACE, 2 * PAGES * PAGE, PAGES * PAGE, 0}),
    WITH(map, "mlock+munlock", {SYS_mlock, PLACE, PAGE}, {SYS_munlock, PLACE, PAGE}), WITH(map, "msync", {SYS_msync, PLACE, PAGE, MS_ASYNC}),
    CALL("anonymous: mmap+munmap", {SYS_mmap, PLACE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1}, {SYS_munmap, PLACE, PAGE}),
    BODY("brk", NULL, grow), CALL("brk of nothing", {SYS_brk, 0}),

    REFUSED(EAGAIN, "futex wait of another value", {SYS_futex, (long)&word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, 0}),
    REFUSED(ETIMEDOUT, "futex wait until before", {SYS_futex, (long)&word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, (long)&at_once, 0, ~0}),
    CALL("futex wake of nobody, shared", {SYS_futex, (long)&word, FUTEX_WAKE, 1}),
    CALL("futex requeue of nobody", {SYS_futex, (long)&word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 1, 1, (long)&other}),
    CALL("futex wake_op of nobody", {SYS_futex, (long)&word, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 1, (long)&other}),
    CALL("futex lock_pi+unlock_pi", {SYS_futex, (long)&word, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, 0},
        {SYS_futex, (long)&word, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, 0, 0}),

    MAKES("eventfd", {SYS_eventfd2, 0, 0}), MAKES("epoll_create", {SYS_epoll_create1, 0}), MAKES("inotify_init", {SYS_inotify_init1, 0}),
    MAKES("signalfd", {SYS_signalfd4, -1, (long)&set, 8, 0}), MAKES("memfd_create", {SYS_memfd_create, (long)"bench", 0}),
    MAKES("socket", {SYS_socket, AF_UNIX, SOCK_STREAM, 0}),
    BODY("pipe+close", NULL, pipes), BODY("socketpair+close", NULL, pairs),
    BODY("connect+accept+close", listen_there, connects),
    WITH(make_pair, "getsockopt", {SYS_getsockopt, FD, SOL_SOCKET, SO_TYPE, (long)&value, (long)&(socklen_t){4}}),
    WITH(make_pair, "setsockopt", {SYS_setsockopt, FD, SOL_SOCKET, SO_PASSCRED, (long)&value, 4}),
    WITH(make_pair, "getsockname", {SYS_getsockname, FD, (long)buffer, (long)&length}),
    WITH(make_pair, "getpeername", {SYS_getpeername, FD, (long)buffer, (long)&length}),
    WITH(make_pair, "sendto+recvfrom", {SYS_sendto, FD, (long)buffer, 1, 0}, {SYS_recvfrom, PEER, (long)buffer, 1, 0}),
    BODY("sendmsg+recvmsg", make_pair, messages), BODY("sendmsg+recvmsg of 1 fd", make_pair, messages, .arg = {0, 1}),
    BODY("sendmsg+recvmsg of 4 fds", make_pair, messages, .arg = {0, 4}),
    BODY("sendmsg+recvmsg, datagram", make_pair, messages, .arg = {SOCK_DGRAM}),

    BODY("sendfile 4 KB", make_files, sends, .text = ON_DISK "/moved"), BODY("sendfile 4 KB of tmpfs", make_files, sends, .text = IN_MEMORY "/moved"),
    BODY("splice 4 KB", make_files, splices, .text = ON_DISK "/moved"), BODY("tee 4 KB", make_files, tees, .text = ON_DISK "/moved"),
    BODY("copy_file_range 4 KB", make_files, copies, .text = ON_DISK "/moved"),
    {.name = "flock", STEP, .set_up = make_files, .body = make_calls, .calls = {{SYS_flock, FD, LOCK_EX}, {SYS_flock, FD, LOCK_UN}},
        .text = ON_DISK "/moved"},
    {.name = "F_SETLK", STEP, .set_up = make_files, .body = make_calls,
        .calls = {{SYS_fcntl, FD, F_SETLK, (long)&lock}, {SYS_fcntl, FD, F_SETLK, (long)&unlock}}, .text = ON_DISK "/moved"},
    {.name = "fadvise", STEP, .set_up = make_files, .body = make_calls, .calls = {{SYS_fadvise64, FD, 0, PAGE, 0}}, .text = ON_DISK "/moved"},
    {.name = "fsync, clean", STEP, .set_up = make_files, .body = make_calls, .calls = {{SYS_fdatasync, FD}}, .text = IN_MEMORY "/moved"},
    BODY("inotify add+rm", watch, watches),

    BODY("semop up, down", make_semaphore, semaphores, .tear_down = remove_semaphore),
    BODY("msgsnd+msgrcv", make_messages, queued, .tear_down = remove_messages),
    BODY("shmat+shmdt", make_shared, attach, .tear_down = remove_shared), BODY("shmget+IPC_RMID", NULL, shared),
    BODY("mq_send+mq_receive", make_queue, posted, .tear_down = remove_queue),
};
SUITE(kinds, list);
