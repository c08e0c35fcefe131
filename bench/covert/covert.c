/* Runs covert channels as root of a machine that has no other work. Each line of output is a word and its text: the channel, the slot,
 * the bits, the values, what was refused. `label` gives the files of a root for SELinux their labels. */
#include "covert.h"
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>

enum { LOW_USER = 1000, HIGH_USER = 1001, BITS_MAX = 4096, START_NS = 20000000 };

/* The systems, and their contexts: the program, the receiver and the sender, their folders, and the folders above. */
struct labels {
    const char *program, *low, *high, *low_files, *high_files, *tmp, *others;
};
static const struct labels SKERRY = {
    "system_u:object_r:shell_exec_t:s0", "user_u:user_r:user_t:s0", "user_u:user_r:user_t:s1",
    "system_u:object_r:home_t:s0", "system_u:object_r:home_t:s1", "system_u:object_r:tmp_root_t:s0",
    "system_u:object_r:root_t:s0",
};
static const struct labels SELINUX = {
    "system_u:object_r:bin_t:s0", "staff_u:staff_r:staff_t:s0", "staff_u:staff_r:staff_t:s1",
    "staff_u:object_r:user_home_t:s0", "staff_u:object_r:user_home_t:s1", "system_u:object_r:tmp_t:s0-s15:c0.c1023",
    "system_u:object_r:root_t:s0",
};
static const struct labels *labels;
static const struct channel *const LISTS[] = {NUMBERS, TOTALS, LIMITS, OBJECTS, TIMES};

long slot_ns;
pid_t sender;

static pid_t children[16];
static int children_count;

void need(int is_good, const char *what)
{
    if (!is_good) {
        dprintf(2, "covert: %s: %s\n", what, strerror(errno));
        _exit(1);
    }
}

int open_made(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    need(file >= 0, path);
    return file;
}

long result(long returned)
{
    return returned < 0 ? -errno : returned;
}

int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

long start_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    if (child < 0)
        return -errno;
    children[children_count++] = child;
    return 0;
}

void end_children(void)
{
    while (children_count > 0) {
        pid_t child = children[--children_count];
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

void copy_program(const char *path)
{
    struct stat status;
    int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    need(from >= 0 && to >= 0 && fstat(from, &status) == 0, path);
    need(sendfile(to, from, NULL, status.st_size) == status.st_size, path);
    close(from);
    close(to);
}

static void wait_until(int64_t when)
{
    struct timespec time = {when / 1000000000, when % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {
    }
}

/* The bits: the highest of SplitMix64. */
static int bit_of(uint64_t number)
{
    uint64_t word = (number + 1) * 0x9e3779b97f4a7c15;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return (word ^ word >> 31) >> 63;
}

static const struct channel *find(const char *name)
{
    for (size_t list = 0; list < sizeof LISTS / sizeof *LISTS; list++)
        for (const struct channel *channel = LISTS[list]; channel->name; channel++)
            if (strcmp(channel->name, name) == 0)
                return channel;
    return NULL;
}

/* Waits for the other side, and returns the start of the first slot. */
static int64_t meet(void)
{
    long long start = 0;
    raise(SIGSTOP);
    FILE *file = fopen("/stage/start", "r");
    need(file && fscanf(file, "%lld %d", &start, &sender) == 2, "/stage/start");
    fclose(file);
    return start;
}

static void send_bits(const struct channel *channel, long bits)
{
    long refused = 0;
    if (channel->high)
        channel->high();
    int64_t start = meet();
    for (long slot = 0; slot < bits; slot++) {
        wait_until(start + slot * slot_ns);
        long done = channel->send(bit_of(slot));
        if (done < 0)
            refused = -done;
    }
    if (channel->end)
        channel->end();
    end_children();
    int file = open(MEMORY "high/refused", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    need(file >= 0 && write(file, &refused, sizeof refused) == sizeof refused, "telling");
}

static void receive(const struct channel *channel, long bits)
{
    static long values[BITS_MAX];
    if (channel->low)
        channel->low();
    int64_t start = meet();
    int64_t phase = slot_ns * (channel->at ? channel->at : 60) / 100;
    for (long slot = 0; slot < bits; slot++) {
        wait_until(start + slot * slot_ns + phase);
        values[slot] = channel->sample();
    }
    end_children();
    int file = open(MEMORY "low/values", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    long size = bits * sizeof *values;
    need(file >= 0 && write(file, values, size) == size, "telling");
}

static void label(const char *path, const char *context)
{
    if (labels)
        need(setxattr(path, "security.selinux", context, strlen(context) + 1, 0) == 0, path);
}

static void ask_for(const char *context)
{
    int file = open("/proc/self/attr/exec", O_WRONLY);
    need(file >= 0 && write(file, context, strlen(context)) > 0, context);
    close(file);
}

/* Starts a role and returns when it is ready. */
static pid_t start(const char *role, const struct channel *channel, long bits)
{
    int is_high = strcmp(role, "send") == 0;
    char slot[24], count[24];
    snprintf(slot, sizeof slot, "%ld", slot_ns);
    snprintf(count, sizeof count, "%ld", bits);
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        /* Where there are no levels, different users keep the two apart. */
        uid_t user = is_high && !labels ? HIGH_USER : LOW_USER;
        setsid();
        need(setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "user");
        if (labels)
            ask_for(is_high ? labels->high : labels->low);
        execl("/stage/program", "covert", role, channel->name, slot, count, NULL);
        need(0, "/stage/program");
    }
    int status;
    need(waitpid(child, &status, WUNTRACED) == child, "waiting");
    return WIFSTOPPED(status) ? child : 0;
}

static pid_t watched[2];

static void stop_watched(int signal)
{
    (void)signal;
    for (int at = 0; at < 2; at++)
        if (watched[at] > 0)
            kill(-watched[at], SIGKILL);
}

static int ends_well(pid_t child)
{
    int status;
    pid_t found;
    while ((found = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
    }
    return found == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Reads the long numbers of a file and returns their count. */
static long read_numbers(const char *path, long *numbers, long most)
{
    int file = open(path, O_RDONLY);
    long got = file < 0 ? -1 : read(file, numbers, most * sizeof *numbers);
    if (file >= 0)
        close(file);
    return got < 0 ? 0 : got / (long)sizeof *numbers;
}

/* Empties the folders that hold what one channel made. */
static void clean(void)
{
    static const char *const FOLDERS[] = {MEMORY "low", MEMORY "high", DISK "low", DISK "high", SMALL "low", SMALL "high"};
    for (size_t at = 0; at < sizeof FOLDERS / sizeof *FOLDERS; at++) {
        char command[PATH_MAX];
        snprintf(command, sizeof command, "rm -rf %s", FOLDERS[at]);
        need(system(command) == 0, command);
        int is_high = strstr(FOLDERS[at], "high") != NULL;
        uid_t user = is_high && !labels ? HIGH_USER : LOW_USER;
        need(mkdir(FOLDERS[at], 0755) == 0 && chown(FOLDERS[at], user, user) == 0, FOLDERS[at]);
        if (labels)
            label(FOLDERS[at], is_high ? labels->high_files : labels->low_files);
    }
}

static void measure(const struct channel *channel, long bits)
{
    static long values[BITS_MAX];
    long refused = 0;
    clean();
    watched[0] = start("receive", channel, bits);
    watched[1] = start("send", channel, bits);
    int is_ready = watched[0] > 0 && watched[1] > 0;
    if (is_ready) {
        FILE *file = fopen("/stage/start", "w");
        need(file && fprintf(file, "%lld %d\n", (long long)now() + START_NS, watched[1]) > 0, "/stage/start");
        fclose(file);
    }
    alarm(20 + 5 * (slot_ns * bits / 1000000000));
    for (int at = 0; at < 2; at++)
        if (watched[at] > 0)
            kill(watched[at], is_ready ? SIGCONT : SIGKILL);
    int is_good = is_ready;
    for (int at = 0; at < 2; at++)
        is_good &= watched[at] > 0 && ends_well(watched[at]);
    alarm(0);
    stop_watched(0);
    long count = read_numbers(MEMORY "low/values", values, bits);
    printf("slot %ld\nbits ", slot_ns);
    for (long slot = 0; slot < bits; slot++)
        putchar('0' + bit_of(slot));
    printf("\nvalues");
    for (long slot = 0; is_good && slot < count; slot++)
        printf(" %ld", values[slot]);
    if (read_numbers(MEMORY "high/refused", &refused, 1) == 1 && refused)
        printf("\nrefused %s", strerrorname_np(refused));
    printf("\n");
    fflush(stdout);
}

static void set(const char *path, long value)
{
    FILE *file = fopen(path, "w");
    need(file && fprintf(file, "%ld\n", value) > 0 && fclose(file) == 0, path);
}

static int label_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)kind;
    (void)place;
    int is_program = S_ISREG(status->st_mode) && (status->st_mode & 0111);
    if (!S_ISLNK(status->st_mode))
        label(path, is_program ? labels->program : labels->others);
    return 0;
}

/* Labels the root and the devices as Debian's policy does, as far as these programs use them. */
static int label_root(void)
{
    labels = &SELINUX;
    need(nftw("/", label_one, 16, FTW_MOUNT | FTW_PHYS) == 0, "labelling");
    label("/tmp", labels->tmp);
    label("/dev", "system_u:object_r:device_t:s0");
    label("/dev/null", "system_u:object_r:null_device_t:s0");
    label("/dev/ptmx", "system_u:object_r:ptmx_t:s0-s15:c0.c1023");
    return 0;
}

static void set_up(void)
{
    char context[100] = "";
    int file = open("/proc/self/attr/current", O_RDONLY);
    /* Other security modules have no colons. */
    if (file >= 0 && read(file, context, sizeof context - 1) > 0 && strchr(context, ':'))
        labels = access("/proc/skerry", F_OK) == 0 ? &SKERRY : &SELINUX;
    if (file >= 0)
        close(file);
    char small[64];
    snprintf(small, sizeof small, "mode=755,size=%dk,nr_inodes=%d", SMALL_PAGES * PAGE / 1024, SMALL_INODES);
    mkdir("/stage", 0755);
    mkdir("/stage/memory", 0755);
    mkdir("/stage/disk", 0755);
    mkdir("/stage/small", 0755);
    need(mount("memory", "/stage/memory", "tmpfs", 0, "mode=755,size=64m") == 0, "memory");
    need(mount("small", "/stage/small", "tmpfs", 0, small) == 0, "small");
    copy_program("/stage/program");
    set("/stage/start", 0);
    if (!labels)
        return;
    static const char *const ABOVE[] = {"/", "/stage", "/stage/memory", "/stage/disk", "/stage/small", "/stage/start"};
    for (size_t at = 0; at < sizeof ABOVE / sizeof *ABOVE; at++)
        label(ABOVE[at], labels->others);
    label("/tmp", labels->tmp);
    label("/stage/program", labels->program);
}

static int run(int count, char **arguments)
{
    set_up();
    set("/proc/sys/kernel/shmmni", SHM_IDS);
    signal(SIGALRM, stop_watched);
    int is_real = strcmp(arguments[0], "real") == 0;
    for (size_t list = 0; list < sizeof LISTS / sizeof *LISTS; list++)
        for (const struct channel *channel = LISTS[list]; channel->name; channel++) {
            int is_meant = strcmp(arguments[1], "-") == 0 || strstr(channel->name, arguments[1]);
            if (!is_meant || channel->is_real != is_real)
                continue;
            printf("channel %s\n", channel->name);
            for (int at = 2; at < count; at++) {
                long microseconds, bits;
                need(sscanf(arguments[at], "%ld,%ld", &microseconds, &bits) == 2 && bits <= BITS_MAX, "SLOT_US,BITS");
                slot_ns = microseconds * 1000;
                measure(channel, bits);
            }
        }
    printf("done\n");
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "names") == 0) {
        for (size_t list = 0; list < sizeof LISTS / sizeof *LISTS; list++)
            for (const struct channel *channel = LISTS[list]; channel->name; channel++)
                puts(channel->name);
        return 0;
    }
    if (count == 2 && strcmp(arguments[1], "label") == 0)
        return label_root();
    if (count == 2 && strcmp(arguments[1], "stay") == 0) {
        for (;;)
            pause();
    }
    const struct channel *channel = count == 5 ? find(arguments[2]) : NULL;
    if (channel) {
        slot_ns = atol(arguments[3]);
        (strcmp(arguments[1], "send") == 0 ? send_bits : receive)(channel, atol(arguments[4]));
        return 0;
    }
    if (count < 5 || strcmp(arguments[1], "run") != 0) {
        fprintf(stderr, "usage: covert names | label | run virtual|real FILTER|- SLOT_US,BITS...\n");
        return 2;
    }
    return run(count - 2, arguments + 2);
}
