/* Objects of the low side and names that both have: the sender uses an object that it may read, or takes a name, and the receiver notices. */
#include "covert.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define LOW_FILE MEMORY "low/file"
#define LOW_PROGRAM MEMORY "low/program"
#define LOW_FIFO MEMORY "low/fifo"
enum { PORT = 4711 };

/* The descriptor of one side. */
static int held = -1;

static void let_go(void)
{
    if (held >= 0)
        close(held);
    held = -1;
}

static void make_low_file(void)
{
    static char bytes[PAGE];
    held = open(LOW_FILE, O_RDWR | O_CREAT, 0644);
    need(held >= 0 && write(held, bytes, sizeof bytes) == PAGE, LOW_FILE);
}

static void open_low_file(void)
{
    held = open(LOW_FILE, O_RDONLY);
}

static long lock(int bit)
{
    return result(flock(held, bit ? LOCK_EX : LOCK_UN));
}

static long is_locked(void)
{
    long done = result(flock(held, LOCK_EX | LOCK_NB));
    flock(held, LOCK_UN);
    return done;
}

static long lock_record(int bit)
{
    struct flock lock = {.l_type = bit ? F_RDLCK : F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};
    return result(fcntl(held, F_SETLK, &lock));
}

static long is_record_locked(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    long done = result(fcntl(held, F_SETLK, &lock));
    lock.l_type = F_UNLCK;
    fcntl(held, F_SETLK, &lock);
    return done;
}

static long read_low_file(int bit)
{
    char byte;
    if (!bit)
        return 0;
    int file = open(LOW_FILE, O_RDONLY);
    long done = file < 0 ? -errno : result(read(file, &byte, 1));
    if (file >= 0)
        close(file);
    return done;
}

static long was_accessed(void)
{
    struct stat status;
    const struct timespec old[2] = {{1000000, 0}, {0, UTIME_OMIT}};
    if (fstat(held, &status) < 0 || futimens(held, old) < 0)
        return -errno;
    return status.st_atim.tv_sec != 1000000;
}

static int notices;

static void watch(void)
{
    make_low_file();
    notices = inotify_init1(IN_NONBLOCK);
    need(notices >= 0 && inotify_add_watch(notices, LOW_FILE, IN_OPEN | IN_ACCESS) >= 0, "watch");
}

static long was_noticed(void)
{
    char events[4096];
    return read(notices, events, sizeof events) > 0;
}

static void make_program(void)
{
    copy_program(LOW_PROGRAM);
}

static pid_t runs;

static long execute(int bit)
{
    int status = 0;
    if (runs > 0) {
        kill(runs, SIGKILL);
        waitpid(runs, NULL, 0);
    }
    runs = bit ? fork() : 0;
    if (bit && runs == 0) {
        execl(LOW_PROGRAM, "covert", "stay", NULL);
        _exit(errno);
    }
    if (runs > 0 && waitpid(runs, &status, WNOHANG) == runs) {
        runs = 0;
        return -WEXITSTATUS(status);
    }
    return 0;
}

static void end_program(void)
{
    execute(0);
}

static long is_executed(void)
{
    int file = open(LOW_PROGRAM, O_WRONLY);
    long done = result(file);
    if (file >= 0)
        close(file);
    return done < 0 ? done : 0;
}

static void make_fifo(void)
{
    need(mkfifo(LOW_FIFO, 0644) == 0, "mkfifo");
}

static long read_fifo(int bit)
{
    let_go();
    held = bit ? open(LOW_FIFO, O_RDONLY | O_NONBLOCK) : -1;
    return bit && held < 0 ? -errno : 0;
}

static long has_reader(void)
{
    int file = open(LOW_FIFO, O_WRONLY | O_NONBLOCK);
    long done = result(file);
    if (file >= 0)
        close(file);
    return done < 0 ? done : 0;
}

/* Binds a new socket of a kind and holds it; an error leaves none. */
static long bind_new(int family, int kind, const void *address, socklen_t size)
{
    held = socket(family, kind, 0);
    long done = held < 0 ? -errno : result(bind(held, address, size));
    if (done < 0)
        let_go();
    return done;
}

static long bind_abstract(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0covert"};
    return bind_new(AF_UNIX, SOCK_DGRAM, &address, offsetof(struct sockaddr_un, sun_path) + 7);
}

static long bind_port(int kind)
{
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    long done = bind_new(AF_INET, kind, &address, sizeof address);
    if (done >= 0)
        setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return done;
}

/* Takes or gives back what `take` takes. */
static long hold(int bit, long (*take)(void))
{
    if (!bit)
        let_go();
    return bit && held < 0 ? take() : 0;
}

static long try(long (*take)(void))
{
    long done = take();
    let_go();
    return done < 0 ? done : 0;
}

static long take_tcp(void)
{
    return bind_port(SOCK_STREAM);
}

static long take_udp(void)
{
    return bind_port(SOCK_DGRAM);
}

static long hold_abstract(int bit)
{
    return hold(bit, bind_abstract);
}

static long try_abstract(void)
{
    return try(bind_abstract);
}

static long hold_tcp(int bit)
{
    return hold(bit, take_tcp);
}

static long try_tcp(void)
{
    return try(take_tcp);
}

static long hold_udp(int bit)
{
    return hold(bit, take_udp);
}

static long try_udp(void)
{
    return try(take_udp);
}

static long take_name(void)
{
    return result(held = open("/tmp/covert", O_WRONLY | O_CREAT | O_EXCL, 0600));
}

static long name_file(int bit)
{
    if (!bit && held >= 0)
        unlink("/tmp/covert");
    return hold(bit, take_name);
}

static void unname_file(void)
{
    name_file(0);
}

static long try_name(void)
{
    long done = result(held = open("/tmp/covert", O_WRONLY | O_CREAT | O_EXCL, 0600));
    if (done >= 0)
        unlink("/tmp/covert");
    let_go();
    return done < 0 ? done : 0;
}

static long take_queue(void)
{
    return result(held = mq_open("/covert", O_RDWR | O_CREAT | O_EXCL, 0600, NULL));
}

static long name_queue(int bit)
{
    if (!bit && held >= 0)
        mq_unlink("/covert");
    return hold(bit, take_queue);
}

static void unname_queue(void)
{
    name_queue(0);
}

static long try_queue(void)
{
    long done = take_queue();
    if (done >= 0)
        mq_unlink("/covert");
    let_go();
    return done < 0 ? done : 0;
}

static long have_child(int bit)
{
    end_children();
    return bit ? start_child() : 0;
}

/* Counts the processes among the last numbers: the sender's child has one of them. */
static long signal_recent(void)
{
    long found = 0;
    pid_t own = fork();
    if (own == 0)
        _exit(0);
    if (own < 0)
        return -errno;
    waitpid(own, NULL, 0);
    for (pid_t id = own - 1; id > own - 6 && id > 0; id--)
        found += kill(id, 0) == 0 || errno != ESRCH;
    return found;
}

static long list_processes(void)
{
    DIR *folder = opendir("/proc");
    if (!folder)
        return -errno;
    long found = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        found += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
    closedir(folder);
    return found;
}

static long set_scheduling(int bit)
{
    struct sched_param none = {.sched_priority = 0};
    return result(sched_setscheduler(0, bit ? SCHED_BATCH : SCHED_OTHER, &none));
}

static long scheduling(void)
{
    return result(sched_getscheduler(sender));
}

static long map(int bit)
{
    static void *mapped;
    if (mapped)
        munmap(mapped, 64 * PAGE);
    mapped = bit ? mmap(NULL, 64 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
    return mapped == MAP_FAILED ? -errno : 0;
}

static long mapped_pages(void)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", sender);
    FILE *file = fopen(path, "r");
    if (!file)
        return -errno;
    long done = fscanf(file, "%ld", &pages) == 1 ? pages : -errno;
    fclose(file);
    return done;
}

static int *word;

static void map_low_file(void)
{
    open_low_file();
    word = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, held, 0);
    need(word != MAP_FAILED, "mmap");
}

static void map_own_file(void)
{
    make_low_file();
    word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, held, 0);
    need(word != MAP_FAILED, "mmap");
}

static long wait_at_word(int bit)
{
    struct timespec most = {0, slot_ns * 9 / 10};
    if (!bit || syscall(SYS_futex, word, FUTEX_WAIT, 0, &most, NULL, 0) == 0 || errno == ETIMEDOUT)
        return 0;
    return -errno;
}

static long wake_at_word(void)
{
    return result(syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0));
}

const struct channel OBJECTS[] = {
    {.name = "lock of a low file (flock)", .low = make_low_file, .high = open_low_file, .send = lock, .sample = is_locked},
    {.name = "lock of a low file (fcntl)", .low = make_low_file, .high = open_low_file, .send = lock_record,
     .sample = is_record_locked},
    {.name = "access time of a low file", .low = make_low_file, .send = read_low_file, .sample = was_accessed},
    {.name = "inotify on a low file", .low = watch, .send = read_low_file, .sample = was_noticed},
    {.name = "low program in use (ETXTBSY)", .low = make_program, .send = execute, .sample = is_executed, .end = end_program},
    {.name = "reader of a low FIFO", .low = make_fifo, .send = read_fifo, .sample = has_reader},
    {.name = "futex in a low file", .low = map_own_file, .high = map_low_file, .send = wait_at_word, .sample = wake_at_word},
    {.name = "abstract socket names", .send = hold_abstract, .sample = try_abstract},
    {.name = "ports of TCP", .send = hold_tcp, .sample = try_tcp},
    {.name = "ports of UDP", .send = hold_udp, .sample = try_udp},
    {.name = "names in /tmp", .send = name_file, .sample = try_name, .end = unname_file},
    {.name = "names of message queues", .send = name_queue, .sample = try_queue, .end = unname_queue},
    {.name = "processes that exist (kill)", .send = have_child, .sample = signal_recent},
    {.name = "processes in /proc", .send = have_child, .sample = list_processes},
    {.name = "scheduling of a process", .send = set_scheduling, .sample = scheduling},
    {.name = "memory of a process (statm)", .send = map, .sample = mapped_pages},
    {.name = NULL},
};
