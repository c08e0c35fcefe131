/* Limits that all share: the sender takes what there is, and the receiver finds nothing left. */
#include "covert.h"
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>

static int filled;

static void open_filled(void)
{
    filled = open(SMALL "high/filled", O_RDWR | O_CREAT, 0600);
    need(filled >= 0, "open");
}

static long fill(int bit)
{
    static char bytes[SMALL_PAGES * PAGE];
    if (ftruncate(filled, 0) < 0)
        return -errno;
    return bit ? result(pwrite(filled, bytes, sizeof bytes, 0)) : 0;
}

static long write_a_page(void)
{
    static char bytes[PAGE];
    static int file = -1;
    if (file < 0)
        file = open(SMALL "low/own", O_RDWR | O_CREAT, 0600);
    long done = file < 0 ? -1 : pwrite(file, bytes, sizeof bytes, 0);
    done = done < 0 ? -errno : 0;
    if (file >= 0 && ftruncate(file, 0) < 0)
        return -errno;
    return done;
}

static long take_inodes(int bit)
{
    char path[64];
    for (int made = 0; made < SMALL_INODES; made++) {
        snprintf(path, sizeof path, SMALL "high/%d", made);
        int file = bit ? open(path, O_WRONLY | O_CREAT, 0600) : -1;
        if (!bit)
            unlink(path);
        if (file >= 0)
            close(file);
        else if (bit)
            break;
    }
    return 0;
}

static long make_a_file(void)
{
    int file = open(SMALL "low/made", O_WRONLY | O_CREAT, 0600);
    long done = file < 0 ? -errno : 0;
    if (file >= 0)
        close(file);
    unlink(SMALL "low/made");
    return done;
}

/* Finds the least limit under which `works`, and allows one more. */
static void limit(int resource, long (*works)(void))
{
    for (rlim_t most = 1; most < 10000; most++) {
        struct rlimit limits = {most + 1, RLIM_INFINITY};
        getrlimit(resource, &limits);
        limits.rlim_cur = most;
        need(setrlimit(resource, &limits) == 0, "setrlimit");
        if (works() == 0) {
            limits.rlim_cur = most + 2;
            need(setrlimit(resource, &limits) == 0, "setrlimit");
            return;
        }
    }
    need(0, "no limit is found");
}

static long fork_once(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
    return child < 0 ? -errno : 0;
}

static void limit_processes(void)
{
    limit(RLIMIT_NPROC, fork_once);
}

static long take_processes(int bit)
{
    end_children();
    long done = 0;
    for (int made = 0; bit && made < 4 && done == 0; made++)
        done = start_child();
    return done;
}

enum { SIGNALS = 8 };

static void hold_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void take_back(void)
{
    sigset_t set;
    struct timespec none = {0, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    while (sigtimedwait(&set, NULL, &none) > 0) {
    }
}

static long queue_once(void)
{
    union sigval value = {.sival_int = 0};
    long done = result(sigqueue(getpid(), SIGRTMIN, value));
    take_back();
    return done;
}

static void limit_signals(void)
{
    hold_signals();
    limit(RLIMIT_SIGPENDING, queue_once);
}

static long queue_signals(int bit)
{
    union sigval value = {.sival_int = 0};
    take_back();
    for (int queued = 0; bit && queued < SIGNALS; queued++)
        if (sigqueue(getpid(), SIGRTMIN, value) < 0)
            return -errno;
    return 0;
}

static int last = -1;

static void take_all_but_one(void)
{
    int next;
    while ((next = inotify_init1(0)) >= 0)
        last = next;
    need(last >= 0, "inotify_init");
    close(last);
    last = -1;
}

static long take_instance(int bit)
{
    if (last >= 0)
        close(last);
    last = bit ? inotify_init1(0) : -1;
    return bit && last < 0 ? -errno : 0;
}

static long make_instance(void)
{
    int file = inotify_init1(0);
    if (file >= 0)
        close(file);
    return file < 0 ? -errno : 0;
}

static int segments[SHM_IDS + 1];
static int segments_count;

static void take_segments(void)
{
    int id;
    while (segments_count < SHM_IDS && (id = shmget(IPC_PRIVATE, PAGE, 0600)) >= 0)
        segments[segments_count++] = id;
    need(segments_count > 0, "shmget");
    shmctl(segments[--segments_count], IPC_RMID, NULL);
}

static long take_segment(int bit)
{
    static int id = -1;
    if (id >= 0)
        shmctl(id, IPC_RMID, NULL);
    id = bit ? shmget(IPC_PRIVATE, PAGE, 0600) : -1;
    return bit && id < 0 ? -errno : 0;
}

static void give_segments(void)
{
    take_segment(0);
    while (segments_count > 0)
        shmctl(segments[--segments_count], IPC_RMID, NULL);
}

static long make_segment(void)
{
    int id = shmget(IPC_PRIVATE, PAGE, 0600);
    if (id >= 0)
        shmctl(id, IPC_RMID, NULL);
    return id < 0 ? -errno : 0;
}

const struct channel LIMITS[] = {
    {.name = "no space left in tmpfs", .high = open_filled, .send = fill, .sample = write_a_page},
    {.name = "no inodes left in tmpfs", .send = take_inodes, .sample = make_a_file},
    {.name = "processes of a user", .low = limit_processes, .send = take_processes, .sample = fork_once},
    {.name = "signals of a user", .high = hold_signals, .low = limit_signals, .send = queue_signals, .sample = queue_once},
    {.name = "inotify instances of a user", .high = take_all_but_one, .send = take_instance, .sample = make_instance},
    {.name = "number of System V objects", .high = take_segments, .send = take_segment, .sample = make_segment,
     .end = give_segments},
    {.name = NULL},
};
