/* The first program: says that it runs, on its output, or on the device it is told, for which it mounts the devices as Linux's
 * initial program must. */
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

int main(int count, char **words)
{
    int to = STDOUT_FILENO;
    if (count > 1) {
        mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
        to = open(words[1], O_WRONLY);
    }
    if (write(to, "first\n", 6) != 6)
        return 1;
    for (;;)
        pause();
}
