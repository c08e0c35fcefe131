/* Totals that the system shows: the sender uses something, and the receiver reads how much is in use. */
#include "covert.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>

/* Returns number `field` (from 0) after `key` in the first line of a file that has it. */
static long number_in(const char *path, const char *key, int field)
{
    static char text[64 << 10];
    int file = open(path, O_RDONLY);
    if (file < 0)
        return -errno;
    size_t size = 0;
    for (ssize_t got; size < sizeof text - 1 && (got = read(file, text + size, sizeof text - 1 - size)) > 0;)
        size += got;
    close(file);
    text[size] = 0;
    char *found = strstr(text, key);
    if (!found)
        return -ENODATA;
    found += strlen(key);
    long number = 0;
    for (int at = 0; at <= field; at++) {
        found += strcspn(found, "0123456789");
        number = strtol(found, &found, 10);
    }
    return number;
}

static long lines_of(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return -errno;
    long lines = 0;
    for (int got; (got = getc(file)) != EOF;)
        lines += got == '\n';
    fclose(file);
    return lines;
}

static long processes(int bit)
{
    end_children();
    long done = 0;
    for (int made = 0; bit && made < 3 && done == 0; made++)
        done = start_child();
    return done;
}

static long threads(void)
{
    return number_in("/proc/loadavg", "/", 0);
}

static char *memory;

/* As much as half of a slot allows: Linux keeps some thousand free pages for each processor, which it counts as used. */
static long use_memory(int bit)
{
    size_t pages = slot_ns / 6400 < 8192 ? slot_ns / 6400 : 8192, bytes = pages * PAGE;
    if (memory)
        munmap(memory, bytes);
    memory = NULL;
    if (!bit)
        return 0;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE) < 0)
        return -errno;
    for (size_t at = 0; at < bytes; at += PAGE)
        memory[at] = 1;
    return 0;
}

static long free_memory(void)
{
    struct sysinfo info;
    return sysinfo(&info) < 0 ? -errno : (long)info.freeram;
}

enum { FILES = 128 };
static int files[FILES];
static int files_count;

static void close_files(void)
{
    while (files_count > 0)
        close(files[--files_count]);
}

static long open_files(int bit)
{
    close_files();
    while (bit && files_count < FILES) {
        int file = open(MEMORY "high/file", O_RDWR | O_CREAT, 0600);
        if (file < 0)
            return -errno;
        files[files_count++] = file;
    }
    return 0;
}

static long open_files_shown(void)
{
    return number_in("/proc/sys/fs/file-nr", "", 0);
}

static long forks(int bit)
{
    for (int made = 0; bit && made < 3; made++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0)
            return -errno;
        waitpid(child, NULL, 0);
    }
    return 0;
}

static long forks_shown(void)
{
    return number_in("/proc/stat", "processes", 0);
}

static long work(int bit)
{
    for (int64_t end = now() + slot_ns / 2; bit && now() < end;) {
    }
    return 0;
}

/* The second number: hundredths of the time in which the processors were idle. */
static long idle_shown(void)
{
    return number_in("/proc/uptime", "", 2) * 100 + number_in("/proc/uptime", "", 3);
}

static long faults(int bit)
{
    for (int made = 0; bit && made < 32; made++) {
        char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return -errno;
        *page = 1;
        munmap(page, PAGE);
    }
    return 0;
}

static long faults_shown(void)
{
    return number_in("/proc/vmstat", "pgfault", 0);
}

static int own;
static struct sockaddr_in own_address = {.sin_family = AF_INET};

static void bind_own(void)
{
    socklen_t size = sizeof own_address;
    own_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own = socket(AF_INET, SOCK_DGRAM, 0);
    need(own >= 0 && bind(own, (struct sockaddr *)&own_address, size) == 0, "bind");
    need(getsockname(own, (struct sockaddr *)&own_address, &size) == 0, "getsockname");
}

static long send_packets(int bit)
{
    char byte = 0;
    for (int sent = 0; bit && sent < 3; sent++) {
        if (sendto(own, &byte, 1, 0, (struct sockaddr *)&own_address, sizeof own_address) < 0)
            return -errno;
        if (recv(own, &byte, 1, MSG_DONTWAIT) < 0)
            return -errno;
    }
    return 0;
}

static long packets_shown(void)
{
    return number_in("/proc/net/dev", "lo:", 1);
}

static long open_sockets(int bit)
{
    close_files();
    while (bit && files_count < 16) {
        int file = socket(AF_INET, SOCK_DGRAM, 0);
        if (file < 0)
            return -errno;
        files[files_count++] = file;
    }
    return 0;
}

static long sockets_shown(void)
{
    return number_in("/proc/net/sockstat", "used", 0);
}

static long listen_at(int bit)
{
    close_files();
    if (!bit)
        return 0;
    int file = socket(AF_INET, SOCK_STREAM, 0);
    if (file < 0 || listen(file, 1) < 0)
        return -errno;
    files[files_count++] = file;
    return 0;
}

static long listeners_shown(void)
{
    return lines_of("/proc/net/tcp");
}

static long segment(int bit)
{
    static int id = -1;
    if (id >= 0)
        shmctl(id, IPC_RMID, NULL);
    id = bit ? shmget(IPC_PRIVATE, PAGE, 0600) : -1;
    return bit ? (id < 0 ? -errno : 0) : 0;
}

static void no_segment(void)
{
    segment(0);
}

static long segments_shown(void)
{
    return lines_of("/proc/sysvipc/shm");
}

static int locked;

static void open_locked(void)
{
    locked = open_made(MEMORY "high/locked");
}

static long lock(int bit)
{
    return result(flock(locked, bit ? LOCK_EX : LOCK_UN));
}

static long locks_shown(void)
{
    return lines_of("/proc/locks");
}

static int stored;

static void open_stored(void)
{
    stored = open_made(DISK "high/stored");
}

static void open_in_memory(void)
{
    stored = open_made(MEMORY "high/stored");
}

static long store(int bit)
{
    static char bytes[PAGE];
    bytes[0]++;
    return bit && (pwrite(stored, bytes, sizeof bytes, 0) < 0 || fdatasync(stored) < 0) ? -errno : 0;
}

static long writes_shown(void)
{
    return number_in("/proc/diskstats", "vda ", 4);
}

static long fill(int bit)
{
    return result(ftruncate(stored, 0)) < 0 || (bit && fallocate(stored, 0, 0, 64 << 10) < 0) ? -errno : 0;
}

static long free_blocks(void)
{
    struct statfs status;
    return statfs(DISK "low", &status) < 0 ? -errno : (long)status.f_bfree;
}

static long free_blocks_in_memory(void)
{
    struct statfs status;
    return statfs(MEMORY "low", &status) < 0 ? -errno : (long)status.f_bfree;
}

static long make_file(int bit)
{
    int file = bit ? open(DISK "high/made", O_WRONLY | O_CREAT, 0600) : -1;
    if (!bit)
        unlink(DISK "high/made");
    if (file >= 0)
        close(file);
    return bit && file < 0 ? -errno : 0;
}

static long free_inodes(void)
{
    struct statfs status;
    return statfs(DISK "low", &status) < 0 ? -errno : (long)status.f_ffree;
}

const struct channel TOTALS[] = {
    {.name = "threads in loadavg", .send = processes, .sample = threads},
    {.name = "free memory", .send = use_memory, .sample = free_memory},
    {.name = "descriptors in file-nr", .send = open_files, .sample = open_files_shown},
    {.name = "forks in stat", .send = forks, .sample = forks_shown},
    {.name = "idle time in uptime", .send = work, .sample = idle_shown},
    {.name = "faults in vmstat", .send = faults, .sample = faults_shown},
    {.name = "packets in net/dev", .high = bind_own, .send = send_packets, .sample = packets_shown},
    {.name = "sockets in sockstat", .send = open_sockets, .sample = sockets_shown},
    {.name = "listeners in net/tcp", .send = listen_at, .sample = listeners_shown},
    {.name = "segments in sysvipc", .send = segment, .sample = segments_shown, .end = no_segment},
    {.name = "locks in /proc/locks", .high = open_locked, .send = lock, .sample = locks_shown},
    {.name = "writes in diskstats", .high = open_stored, .send = store, .sample = writes_shown, .is_real = 1},
    {.name = "free blocks of ext4", .high = open_stored, .send = fill, .sample = free_blocks},
    {.name = "free inodes of ext4", .send = make_file, .sample = free_inodes},
    {.name = "free blocks of tmpfs", .high = open_in_memory, .send = fill, .sample = free_blocks_in_memory},
    {.name = NULL},
};
