/* Numbers that objects get: the sender makes objects, and the receiver sees from the number of its own how many were made, or that one
 * is taken. */
#include "covert.h"
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>

/* Objects that a sender makes for a bit: some systems give numbers to processors in batches. */
enum { MADE = 3 };

static long own_process(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
    return result(child);
}

static long processes(int bit)
{
    long done = 0;
    for (int made = 0; bit && made < MADE && done >= 0; made++)
        done = own_process();
    return done < 0 ? done : 0;
}

static long inode_of(int file)
{
    struct stat status;
    long inode = file < 0 || fstat(file, &status) < 0 ? -errno : (long)status.st_ino;
    if (file >= 0)
        close(file);
    return inode;
}

static long own_pipe(void)
{
    int ends[2];
    if (pipe(ends) < 0)
        return -errno;
    close(ends[1]);
    return inode_of(ends[0]);
}

static long pipes(int bit)
{
    long done = 0;
    for (int made = 0; bit && made < MADE && done >= 0; made++)
        done = own_pipe();
    return done < 0 ? done : 0;
}

static long own_socket(void)
{
    return inode_of(socket(AF_UNIX, SOCK_STREAM, 0));
}

static long sockets(int bit)
{
    long done = 0;
    for (int made = 0; bit && made < MADE && done >= 0; made++)
        done = own_socket();
    return done < 0 ? done : 0;
}

static long own_file(const char *path)
{
    long inode = inode_of(open(path, O_WRONLY | O_CREAT, 0600));
    unlink(path);
    return inode;
}

static long own_memory_file(void)
{
    return own_file(MEMORY "low/number");
}

static long memory_files(int bit)
{
    long done = 0;
    for (int made = 0; bit && made < MADE && done >= 0; made++)
        done = own_file(MEMORY "high/number");
    return done < 0 ? done : 0;
}

static long own_disk_file(void)
{
    return own_file(DISK "low/number");
}

/* They stay: a file system may use the least free number, or the next one. */
static long disk_files(int bit)
{
    static int made;
    char path[64];
    if (!bit)
        return 0;
    snprintf(path, sizeof path, DISK "high/number%d", made++);
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    if (file >= 0)
        close(file);
    return file < 0 ? -errno : 0;
}

static int terminal = -1;

static long open_terminal(int bit)
{
    if (bit && terminal < 0)
        terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (!bit && terminal >= 0) {
        close(terminal);
        terminal = -1;
    }
    return bit && terminal < 0 ? -errno : 0;
}

static long own_terminal(void)
{
    unsigned number = 0;
    int file = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (file < 0)
        return -errno;
    long done = ioctl(file, TIOCGPTN, &number) < 0 ? -errno : (long)number;
    close(file);
    return done;
}

static long own_segment(void)
{
    int id = shmget(IPC_PRIVATE, PAGE, 0600);
    if (id >= 0)
        shmctl(id, IPC_RMID, NULL);
    return result(id);
}

static long segments(int bit)
{
    long done = 0;
    for (int made = 0; bit && made < MADE && done >= 0; made++)
        done = own_segment();
    return done < 0 ? done : 0;
}

const struct channel NUMBERS[] = {
    {.name = "numbers of processes", .send = processes, .sample = own_process},
    {.name = "inodes of pipes", .send = pipes, .sample = own_pipe},
    {.name = "inodes of sockets", .send = sockets, .sample = own_socket},
    {.name = "inodes of tmpfs", .send = memory_files, .sample = own_memory_file},
    {.name = "inodes of ext4", .send = disk_files, .sample = own_disk_file},
    {.name = "numbers of terminals", .send = open_terminal, .sample = own_terminal},
    {.name = "numbers of System V objects", .send = segments, .sample = own_segment},
    {.name = NULL},
};
