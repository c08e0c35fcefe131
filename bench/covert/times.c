/* Caches and times: the sender brings pages into memory, or works, and the receiver sees them there, or waits. */
#include "covert.h"

#define LOW_FILE DISK "low/file"

static int file;
static char bytes[PAGE];

static void make_stored(void)
{
    file = open(LOW_FILE, O_RDWR | O_CREAT, 0644);
    need(file >= 0 && write(file, bytes, sizeof bytes) == PAGE && fsync(file) == 0, LOW_FILE);
}

static void *mapped;

static void drop(void)
{
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

static void map_stored(void)
{
    make_stored();
    mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    need(mapped != MAP_FAILED, "mmap");
    drop();
}

static void drop_stored(void)
{
    make_stored();
    drop();
}

static long load(int bit)
{
    int low = bit ? open(LOW_FILE, O_RDONLY) : -1;
    long done = !bit ? 0 : low < 0 ? -errno : result(pread(low, bytes, PAGE, 0));
    if (low >= 0)
        close(low);
    return done < 0 ? done : 0;
}

static long is_cached(void)
{
    unsigned char in_core = 0;
    long done = mincore(mapped, PAGE, &in_core) < 0 ? -errno : in_core & 1;
    drop();
    return done;
}

static long read_time(void)
{
    int64_t start = now();
    if (pread(file, bytes, PAGE, 0) < 0)
        return -errno;
    long taken = now() - start;
    drop();
    return taken;
}

static long work(int bit)
{
    for (int64_t end = now() + slot_ns * 8 / 10; bit && now() < end;) {
    }
    return 0;
}

/* Counts what it can do in most of the slot. */
static long done_meanwhile(void)
{
    long done = 0;
    for (int64_t end = now() + slot_ns * 7 / 10; now() < end;)
        done++;
    return done;
}

static void open_high(void)
{
    file = open_made(DISK "high/stored");
}

static void open_low(void)
{
    file = open_made(DISK "low/stored");
}

static long store(int bit)
{
    for (int64_t end = now() + slot_ns * 6 / 10; bit && now() < end;) {
        bytes[0]++;
        if (pwrite(file, bytes, PAGE, 0) < 0 || fdatasync(file) < 0)
            return -errno;
    }
    return 0;
}

static long store_time(void)
{
    int64_t start = now();
    bytes[0]++;
    if (pwrite(file, bytes, PAGE, 0) < 0 || fdatasync(file) < 0)
        return -errno;
    return now() - start;
}

const struct channel TIMES[] = {
    {.name = "page cache (mincore)", .low = map_stored, .send = load, .sample = is_cached, .is_real = 1},
    {.name = "page cache (time of a read)", .low = drop_stored, .send = load, .sample = read_time, .is_real = 1},
    {.name = "processor time", .send = work, .sample = done_meanwhile, .at = 5},
    {.name = "disk time", .high = open_high, .low = open_low, .send = store, .sample = store_time, .at = 30, .is_real = 1},
    {.name = NULL},
};
