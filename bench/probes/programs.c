/* Servers of Debian over loopback: nginx, redis and iperf3, with their clients. A row's instructions are those of both ends. The
 * clients of nginx and redis are in this file; that of iperf3 is iperf3. The loader of the programs' own libc starts them, with
 * their libraries in one folder. */
#include "harness.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define FOLDER "/bench/programs/"
enum { NGINX_PORT = 8080, REDIS_PORT = 6379, IPERF_PORT = 5201, CLIENTS = 50, TRIES = 1000, TRY_US = 10000 };
#define GET "GET /1k HTTP/1.1\r\nHost: bench\r\n"
#define GET_AND_CLOSE GET "Connection: close\r\n\r\n"
#define GET_AND_KEEP GET "\r\n"
#define REDIS_SET "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$3\r\nxxx\r\n"
#define REDIS_GET "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n"
#define REDIS_OK "+OK\r\n"
#define REDIS_VALUE "$3\r\nxxx\r\n"

static char answer[4096];
static pid_t server;
static int kept, poller;
static int clients[CLIENTS];

/* A program that says nothing, in a process group of its own, with its children. */
static pid_t start(const char *const words[])
{
    const char *all[16] = {FOLDER "ld-linux-x86-64.so.2", "--library-path", FOLDER};
    for (int at = 0; words[at]; at++)
        all[3 + at] = words[at];
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        int nothing = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(nothing, fd);
        setpgid(0, 0);
        execv(all[0], (char *const *)all);
        _exit(127);
    }
    return child;
}

static int try_to_connect(int port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(fd >= 0, "socket");
    if (connect(fd, (struct sockaddr *)&name, sizeof name) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_to(int port)
{
    int fd = try_to_connect(port), on = 1;
    need(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "connect");
    return fd;
}

/* Starts a server and waits until it listens. */
static void serve(const char *const words[], int port)
{
    raise_loopback();
    server = start(words);
    for (int tries = 0; tries < TRIES; tries++) {
        int fd = try_to_connect(port);
        if (fd >= 0) {
            close(fd);
            return;
        }
        need(waitpid(server, NULL, WNOHANG) == 0, words[0]);
        usleep(TRY_US);
    }
    need(0, "waiting for a server");
}

static void end_server(void)
{
    kill(-server, SIGKILL);
    waitpid(server, NULL, 0);
}

static void start_nginx(void)
{
    serve((const char *[]){FOLDER "nginx", "-c", FOLDER "nginx.conf", "-p", IN_MEMORY, NULL}, NGINX_PORT);
}

static void ask(int fd, const char *request)
{
    ssize_t length = strlen(request);
    need(write(fd, request, length) == length, "write");
}

/* Reads an answer of HTTP: to its length, or to the end of a connection that is closed behind it. */
static void take_page(int fd, int is_last)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n";
    size_t have = 0, whole = sizeof answer - 1;
    while (have < whole) {
        ssize_t more = read(fd, answer + have, whole - have);
        need(more >= 0, "read");
        if (more == 0)
            break;
        have += more;
        answer[have] = 0;
        char *body = strstr(answer, "\r\n\r\n");
        if (body && !is_last)
            whole = body + 4 - answer + 1024;
    }
    need(have > 1024 && memcmp(answer, head, sizeof head - 1) == 0, "an answer of nginx");
}

static void pages_by_connection(long count)
{
    while (count--) {
        int fd = connect_to(NGINX_PORT);
        ask(fd, GET_AND_CLOSE);
        take_page(fd, 1);
        close(fd);
    }
}

static void start_nginx_and_connect(void)
{
    start_nginx();
    kept = connect_to(NGINX_PORT);
}

static void pages(long count)
{
    while (count--) {
        ask(kept, GET_AND_KEEP);
        take_page(kept, 0);
    }
}

static void take_reply(int fd, const char *expected)
{
    ssize_t length = strlen(expected);
    need(read(fd, answer, sizeof answer) == length && memcmp(answer, expected, length) == 0, "an answer of redis");
}

/* As redis-benchmark: each client has one request under way. */
static void start_redis(void)
{
    serve((const char *[]){FOLDER "redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--dir", IN_MEMORY, NULL},
        REDIS_PORT);
    poller = epoll_create1(0);
    for (int at = 0; at < CLIENTS; at++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = connect_to(REDIS_PORT)};
        clients[at] = event.data.fd;
        need(epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event) == 0, "epoll_ctl");
    }
    ask(clients[0], REDIS_SET);
    take_reply(clients[0], REDIS_OK);
}

static void gets(long count)
{
    struct epoll_event events[CLIENTS];
    long asked = 0, answered = 0;
    for (; asked < CLIENTS && asked < count; asked++)
        ask(clients[asked], REDIS_GET);
    while (answered < count) {
        int ready = epoll_wait(poller, events, CLIENTS, -1);
        need(ready > 0, "epoll_wait");
        for (int at = 0; at < ready; at++) {
            take_reply(events[at].data.fd, REDIS_VALUE);
            answered++;
            if (asked < count) {
                ask(events[at].data.fd, REDIS_GET);
                asked++;
            }
        }
    }
}

static void start_iperf(void)
{
    serve((const char *[]){FOLDER "iperf3", "-s", "-B", "127.0.0.1", NULL}, IPERF_PORT);
}

/* The server of iperf3 closes its listening socket after each connection and opens another, also after the one by which `serve`
 * finds it. A client that comes between the two is refused, and tries again. */
static void stream(long count)
{
    char size[32];
    snprintf(size, sizeof size, "%ldM", count);
    for (int tries = 0; tries < TRIES; tries++) {
        int status = -1;
        pid_t client = start((const char *[]){FOLDER "iperf3", "-c", "127.0.0.1", "-n", size, NULL});
        need(waitpid(client, &status, 0) == client, "iperf3");
        if (status == 0)
            return;
        usleep(TRY_US);
    }
    need(0, "iperf3: no client was served");
}

static const struct probe list[] = {
    {.name = "nginx 1 KB by new connections", .step = 80, .set_up = start_nginx, .body = pages_by_connection, .tear_down = end_server},
    {.name = "nginx 1 KB by a kept connection", .step = 150, .set_up = start_nginx_and_connect, .body = pages, .tear_down = end_server},
    {.name = "redis GET by 50 clients", .step = 500, .set_up = start_redis, .body = gets, .tear_down = end_server},
    {.name = "iperf3 1 MiB", .step = 48, .set_up = start_iperf, .body = stream, .tear_down = end_server},
};
SUITE(programs, list);
