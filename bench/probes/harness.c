/* probes ROUNDS FILTER SUITE...: runs the probes whose name holds one of FILTER's parts (`a|b`; `-`: all) and says what it measured,
 * a line a probe, a measurement; with no rounds, each is run once and not measured:
 *
 *     clock TICKS                  the time stamp counter now; whoever reads this knows the time
 *     probe NAME AGREED_NS
 *     point COUNT TICKS
 *     overhead COUNT TICKS         to be taken off
 *     figure TICKS                 one number of many calls
 *     failed WHY
 *
 * probes names FILTER SUITE...: their names alone, one a line
 */
#include "harness.h"
#include <stdarg.h>
#include <sys/personality.h>

enum { ROUNDS_MAX = 20 };
/* Figures a round. */
enum { FIGURES = 5 };
/* Mixed, so that what drifts is no slope. */
static const long order[COUNTS] = {3, 1, 5, 2, 4};

const long *arg;
const char *text;
const struct probe *running;

/* One write a line: what a killed probe said is whole. */
static void say(const char *format, ...)
{
    char line[160];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (write(STDOUT_FILENO, line, length) != length)
        _exit(1);
}

void need(int is_so, const char *what)
{
    if (is_so)
        return;
    say("failed %s: %s\n", what, strerror(errno));
    _exit(1);
}

void reap(pid_t child)
{
    int status = -1;
    need(child > 0, "making a process");
    need(waitpid(child, &status, 0) == child && status == 0, "a child");
}

void make_file(const char *path, size_t bytes)
{
    static const char block[64 << 10] = {'x'};
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    need(fd >= 0, path);
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < sizeof block ? bytes - done : sizeof block;
        need(write(fd, block, part) == (ssize_t)part, path);
        done += part;
    }
    close(fd);
}

void drop_caches(void)
{
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
    need(fd >= 0 && write(fd, "3", 1) == 1, "drop_caches");
    close(fd);
}

static int is_call(const long *words)
{
    return (words[0] | words[1]) != 0;
}

static long make_call(const long *words)
{
    return syscall(words[0], words[1], words[2], words[3], words[4], words[5], words[6]);
}

void make_calls(long count)
{
    long last = 0;
    while (count--) {
        for (int at = 0; at < CALLS_MAX && is_call(running->calls[at]); at++) {
            need(last >= 0, running->name);
            last = make_call(running->calls[at]);
        }
        need(running->refused ? last == -1 && errno == running->refused : last >= 0, running->name);
        last = 0;
    }
}

void make_calls_and_close(long count)
{
    while (count--) {
        long made = make_call(running->calls[0]);
        need(made >= 0 && close(made) == 0, running->name);
    }
}

void put_at(int made, int number, const char *what)
{
    need(made >= 0 && dup2(made, number) == number, what);
    if (made != number)
        close(made);
}

static uint64_t measure(const struct probe *probe, void (*body)(long), long count)
{
    if (probe->prepare)
        probe->prepare(count);
    MARK(1);
    uint64_t start = ticks();
    body(count);
    uint64_t end = ticks();
    MARK(2);
    if (probe->finish)
        probe->finish(count);
    return end - start;
}

/* Said at the end: printing is no part of what is measured. */
static void series(const struct probe *probe, void (*body)(long), long rounds, const char *word)
{
    uint64_t taken[ROUNDS_MAX * COUNTS];
    for (long at = 0; at < rounds * COUNTS; at++)
        taken[at] = measure(probe, body, order[at % COUNTS] * probe->step);
    for (long at = 0; at < rounds * COUNTS; at++)
        say("%s %ld %llu\n", word, order[at % COUNTS] * probe->step, (unsigned long long)taken[at]);
}

static void figures(const struct probe *probe, long rounds)
{
    uint64_t taken[ROUNDS_MAX * FIGURES];
    long count = rounds > 0 ? rounds * FIGURES : 1;
    for (long at = 0; at < count; at++) {
        if (probe->prepare)
            probe->prepare(0);
        taken[at] = probe->figure();
        if (probe->finish)
            probe->finish(0);
    }
    for (long at = 0; at < rounds * FIGURES; at++)
        say("figure %llu\n", (unsigned long long)taken[at]);
}

static void run(const struct probe *probe, long rounds)
{
    arg = probe->arg;
    text = probe->text;
    running = probe;
    if (probe->set_up)
        probe->set_up();
    if (probe->figure) {
        figures(probe, rounds);
        if (probe->tear_down)
            probe->tear_down();
        return;
    }
    if (probe->prepare)
        probe->prepare(probe->step);
    probe->body(probe->step);
    if (probe->finish)
        probe->finish(probe->step);
    series(probe, probe->body, rounds, "point");
    if (probe->overhead)
        series(probe, probe->overhead, rounds, "overhead");
    if (probe->tear_down)
        probe->tear_down();
}

static const struct suite *suites[] = {&calls, &waits, &threads, &memory, &process, &files, &ksos, &disk, &mach,
    &objects, &paths, &kinds, &audit, &net, &programs, &user_wire, &tap_wire};

static int is_meant(const char *name, const char *filter)
{
    char parts[2048], *rest = parts, *part;
    if (strcmp(filter, "-") == 0)
        return 1;
    snprintf(parts, sizeof parts, "%s", filter);
    while ((part = strsep(&rest, "|")))
        if (strstr(name, part))
            return 1;
    return 0;
}

static void name_suite(const struct suite *suite, const char *filter)
{
    for (size_t at = 0; at < suite->count; at++)
        if (is_meant(suite->probes[at].name, filter))
            say("%s\n", suite->probes[at].name);
}

static void run_suite(const struct suite *suite, long rounds, const char *filter)
{
    for (size_t at = 0; at < suite->count; at++) {
        const struct probe *probe = &suite->probes[at];
        if (!is_meant(probe->name, filter))
            continue;
        say("probe %ld %s\n", probe->agreed_ns, probe->name);
        MARK(3);
        pid_t child = fork();
        if (child == 0) {
            run(probe, rounds);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            say("failed by signal %d\n", WTERMSIG(status));
        say("clock %llu\n", (unsigned long long)ticks());
    }
}

/* Starts the program again at places that are not random: what a fork costs depends on them. */
static void fix_places(char **words)
{
    int persona = personality(0xffffffff);
    if (persona & ADDR_NO_RANDOMIZE)
        return;
    need(personality(persona | ADDR_NO_RANDOMIZE) != -1, "personality");
    execv("/proc/self/exe", words);
    need(0, "/proc/self/exe");
}

int main(int count, char **words)
{
    if (count < 4) {
        fprintf(stderr, "probes ROUNDS|names FILTER SUITE...\n");
        return 2;
    }
    fix_places(words);
    if (strcmp(words[1], "names") == 0) {
        for (int at = 3; at < count; at++)
            for (size_t one = 0; one < sizeof suites / sizeof suites[0]; one++)
                if (strcmp(suites[one]->name, words[at]) == 0)
                    name_suite(suites[one], words[2]);
        return 0;
    }
    long rounds = atol(words[1]);
    rounds = rounds < 0 ? 0 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    need(mkdir(ON_DISK, 0755) == 0 || errno == EEXIST, ON_DISK);
    need(mkdir(IN_MEMORY, 0755) == 0 || errno == EEXIST, IN_MEMORY);
    say("clock %llu\n", (unsigned long long)ticks());
    for (int at = 3; at < count; at++)
        for (size_t one = 0; one < sizeof suites / sizeof suites[0]; one++)
            if (strcmp(suites[one]->name, words[at]) == 0)
                run_suite(suites[one], rounds, words[2]);
    say("done\n");
    return 0;
}
