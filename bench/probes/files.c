/* Names and cached contents: on the root disk, and in a tmpfs. */
#include "harness.h"
#include <dirent.h>

/* A folder holds FOLDER_NAMES names at most: what its length costs is a row of its own. */
enum { NAMES = 10000, FOLDER_NAMES = 200, CACHED = 4 << 20, BLOCK = 64 << 10 };
static char block[BLOCK];
static int fd;

/* Made before they are needed: printing is no part of what is measured. */
static char names[NAMES][24];

/* Among folders of arg[1] names, or in this one. */
static void make_name(long number)
{
    char *name = names[number];
    int length = arg[1] ? snprintf(name, sizeof names[0], "%ld/", number / arg[1]) : 0;
    snprintf(name + length, sizeof names[0] - length, "file%ld", number);
}

/* In the folder `text`, for a probe. */
static void enter(void)
{
    char path[64];
    for (long at = 0; at < NAMES; at++)
        make_name(at);
    snprintf(path, sizeof path, "%s/names", text);
    need(mkdir(path, 0755) == 0 || errno == EEXIST, path);
    need(chdir(path) == 0, path);
}

static void leave(void)
{
    need(chdir("..") == 0 && rmdir("names") == 0, "rmdir");
}

/* Files of arg[0] bytes. */
static void create(long count)
{
    for (long at = 0; at < count; at++) {
        int made = open(names[at], O_CREAT | O_EXCL | O_WRONLY, 0644);
        need(made >= 0, "open");
        need(arg[0] == 0 || write(made, block, arg[0]) == arg[0], "write");
        close(made);
    }
}

static void delete(long count)
{
    for (long at = 0; at < count; at++)
        need(unlink(names[at]) == 0, "unlink");
}

/* The folders have been as full as they will be: no block and no inode is used for the first time. */
static void make_folders(void)
{
    char folder[16];
    enter();
    for (long at = 0; at < COUNTS; at++) {
        snprintf(folder, sizeof folder, "%ld", at);
        need(mkdir(folder, 0755) == 0, folder);
    }
    create(COUNTS * arg[1]);
    delete(COUNTS * arg[1]);
}

static void remove_folders(void)
{
    char folder[16];
    for (long at = 0; at < COUNTS; at++) {
        snprintf(folder, sizeof folder, "%ld", at);
        need(rmdir(folder) == 0, folder);
    }
    leave();
}

/* Ends the journal's transaction, so that each measurement begins with an empty one. */
static void settle(long count)
{
    (void)count;
    sync();
}

static void create_and_settle(long count)
{
    create(count);
    settle(count);
}

static void folders(long count)
{
    while (count--)
        need(mkdir("folder", 0755) == 0 && rmdir("folder") == 0, "mkdir, rmdir");
}

static void make_one(long count)
{
    (void)count;
    create(1);
}

static void delete_one(long count)
{
    (void)count;
    delete(1);
}

static void renames(long count)
{
    while (count-- > 0) {
        need(rename("file0", "other") == 0, "rename");
        need(rename("other", "file0") == 0, "rename");
    }
}

/* A file below arg[0] - 1 folders. */
static char deep[64];

static void make_path(void)
{
    enter();
    deep[0] = 0;
    for (long at = 1; at < arg[0]; at++) {
        strcat(deep, "d");
        need(mkdir(deep, 0755) == 0, deep);
        strcat(deep, "/");
    }
    strcat(deep, "f");
    make_file(deep, 1);
}

static void remove_path(void)
{
    need(unlink(deep) == 0, deep);
    for (char *slash; (slash = strrchr(deep, '/'));) {
        *slash = 0;
        need(rmdir(deep) == 0, deep);
    }
    leave();
}

static void look_up(long count)
{
    struct stat found;
    while (count--)
        need(stat(deep, &found) == 0, "stat");
}

static void make_names(void)
{
    enter();
    create(NAMES);
}

static void delete_names(void)
{
    delete(NAMES);
    leave();
}

static void list_names(long count)
{
    while (count--) {
        DIR *folder = opendir(".");
        need(folder != NULL, "opendir");
        long seen = 0;
        while (readdir(folder))
            seen++;
        closedir(folder);
        need(seen == NAMES + 2, "readdir");
    }
}

static void make_cached(void)
{
    make_file(ON_DISK "/cached", CACHED);
    fd = open(ON_DISK "/cached", O_RDONLY);
    need(fd >= 0, "open");
}

/* A unit is 1 MiB. */
static void read_cached(long count)
{
    for (long done = 0; done < count << 20; done += BLOCK)
        need(pread(fd, block, BLOCK, done % CACHED) == BLOCK, "pread");
}

static void map_cached(long count)
{
    uint64_t sum = 0;
    while (count--) {
        uint64_t *words = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 0);
        need(words != MAP_FAILED, "mmap");
        for (size_t at = 0; at < (1 << 20) / 8; at += 8)
            sum += ((volatile uint64_t *)words)[at];
        munmap(words, 1 << 20);
    }
    need(sum != 1, "the sum");
}

#define WORK .set_up = enter, .tear_down = leave
#define FOLDERS(bytes, folder) \
    .step = FOLDER_NAMES, .set_up = make_folders, .tear_down = remove_folders, .arg = {bytes, FOLDER_NAMES}, .text = folder
#define CREATE(words, bytes, where, folder) \
    {.name = "create " words " " where, FOLDERS(bytes, folder), .prepare = settle, .body = create, .finish = delete}, \
    {.name = "delete " words " " where, FOLDERS(bytes, folder), .prepare = create_and_settle, .body = delete}
#define CREATES(where, folder) \
    CREATE("0 KB", 0, where, folder), CREATE("1 KB", 1024, where, folder), CREATE("10 KB", 10240, where, folder)

static const struct probe list[] = {
    CREATES("ext4", ON_DISK), CREATES("tmpfs", IN_MEMORY),
    {.name = "mkdir+rmdir", .step = 100, WORK, .prepare = settle, .body = folders, .text = ON_DISK},
    {.name = "rename there and back", .step = 100, WORK, .prepare = make_one, .body = renames, .finish = delete_one, .text = ON_DISK},
    {.name = "look up 1 name", .step = 4000, .set_up = make_path, .body = look_up, .tear_down = remove_path, .arg = {1}, .text = ON_DISK},
    {.name = "look up 10 names", .step = 2000, .set_up = make_path, .body = look_up, .tear_down = remove_path, .arg = {10}, .text = ON_DISK},
    {.name = "readdir of 10,000", .step = 1, .set_up = make_names, .body = list_names, .tear_down = delete_names, .text = ON_DISK},
    {.name = "read cached, 1 MB", .step = 20, .set_up = make_cached, .body = read_cached},
    {.name = "mmap cached, 1 MB", .step = 20, .set_up = make_cached, .body = map_cached},
};
SUITE(files, list);
