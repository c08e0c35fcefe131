/* The calls that take a path, on paths of every kind; and those that make and remove names. */
#include "harness.h"

#define DISK ON_DISK "/paths"
#define MEMORY IN_MEMORY "/paths"
static char buffer[8 << 10];

/* The same below both folders: a file, one four folders deep, a link to the first, and a folder. */
static void make_tree(const char *folder)
{
    static const char *const folders[] = {"", "/a", "/a/b", "/a/b/c", "/a/b/c/d"};
    char path[128];
    for (size_t at = 0; at < sizeof folders / sizeof folders[0]; at++) {
        snprintf(path, sizeof path, "%s%s", folder, folders[at]);
        need(mkdir(path, 0755) == 0 || errno == EEXIST, path);
    }
    snprintf(path, sizeof path, "%s/a/b/c/d/file", folder);
    make_file(path, 1);
    snprintf(path, sizeof path, "%s/file", folder);
    make_file(path, 1);
    snprintf(path, sizeof path, "%s/link", folder);
    need(symlink("file", path) == 0 || errno == EEXIST, path);
}

static void make(void)
{
    make_tree(DISK);
    make_tree(MEMORY);
    need(chdir(DISK) == 0, DISK);
    put_at(open("/dev/null", O_RDONLY), 20, "/dev/null");
}

#define CALL(row, ...) {.name = row, .step = 400, .set_up = make, .body = make_calls, .calls = {__VA_ARGS__}}
#define OPEN(path, flags) \
    {.name = path ": open+close", .step = 400, .set_up = make, .body = make_calls_and_close, .calls = {{SYS_open, (long)path, flags}}}
#define MISSING(path) \
    {.name = path ": stat of nothing", .step = 400, .set_up = make, .body = make_calls, .calls = {{SYS_stat, (long)path, (long)buffer}}, \
        .refused = ENOENT}
#define STAT(path) CALL(path ": stat", {SYS_stat, (long)path, (long)buffer})
#define ACCESS(path) CALL(path ": access", {SYS_access, (long)path, R_OK})
#define LINK(path) \
    CALL(path ": readlink", {SYS_readlink, (long)path, (long)buffer, sizeof buffer}), \
    CALL(path ": lstat", {SYS_lstat, (long)path, (long)buffer})
/* What exists can be asked for, and opened. */
#define EXISTS(path) STAT(path), ACCESS(path), OPEN(path, O_RDONLY)
#define NAMES(folder) \
    EXISTS(folder "/a/b/c/d/file"), EXISTS(folder), MISSING(folder "/none"), MISSING(folder "/a/b/c/none"), \
    STAT(folder "/link"), LINK(folder "/link"), OPEN(folder "/link", O_RDONLY), \
    CALL(folder ": statx", {SYS_statx, AT_FDCWD, (long)folder "/file", 0, 0x7ff, (long)buffer}), \
    CALL(folder ": statfs", {SYS_statfs, (long)folder, (long)buffer}), \
    CALL(folder ": chmod", {SYS_chmod, (long)folder "/file", 0644}), \
    CALL(folder ": chown", {SYS_chown, (long)folder "/file", 0, 0}), \
    CALL(folder ": utimensat", {SYS_utimensat, AT_FDCWD, (long)folder "/file", 0, 0}), \
    CALL(folder ": truncate", {SYS_truncate, (long)folder "/file", 1}), \
    CALL(folder ": link+unlink", {SYS_link, (long)folder "/file", (long)folder "/new"}, {SYS_unlink, (long)folder "/new"}), \
    CALL(folder ": symlink+unlink", {SYS_symlink, (long)"file", (long)folder "/new"}, {SYS_unlink, (long)folder "/new"}), \
    CALL(folder ": mkdir+rmdir", {SYS_mkdir, (long)folder "/new", 0755}, {SYS_rmdir, (long)folder "/new"}), \
    CALL(folder ": mknod+unlink", {SYS_mknod, (long)folder "/new", S_IFIFO | 0644, 0}, {SYS_unlink, (long)folder "/new"}), \
    CALL(folder ": rename", {SYS_rename, (long)folder "/link", (long)folder "/new"}, {SYS_rename, (long)folder "/new", (long)folder "/link"})

static const struct probe list[] = {
    NAMES(DISK),
    NAMES(MEMORY),
    STAT("file"), OPEN("file", O_RDONLY), STAT("../paths/./file"),
    EXISTS("/proc/self/stat"), EXISTS("/proc/1/stat"), EXISTS("/proc/self/fd"), EXISTS("/proc/self/fd/20"), EXISTS("/proc/self/maps"),
    EXISTS("/proc/sys/kernel/pid_max"), EXISTS("/proc/meminfo"), EXISTS("/proc/self/exe"), EXISTS("/proc/self/cwd"),
    EXISTS("/dev/null"), EXISTS("/dev/fd/20"), EXISTS("/sys/kernel"), OPEN("/dev/ptmx", O_RDWR | O_NOCTTY),
    LINK("/proc/self"), LINK("/proc/self/exe"), LINK("/proc/self/cwd"), LINK("/proc/self/fd/20"),
    MISSING("/proc/none"), MISSING("/proc/self/none"), MISSING("/proc/999999"), MISSING("/dev/none"),
    CALL("chdir", {SYS_chdir, (long)MEMORY}),
    CALL("getcwd", {SYS_getcwd, (long)buffer, sizeof buffer}),
};
SUITE(paths, list);
