/* Sockets of the Internet protocols over loopback. A row's instructions are those of both ends. */
#include "harness.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

enum { CONNECTIONS = 100, CHUNK = 64 << 10, BACKLOG = 128 };
#define SENT_FILE IN_MEMORY "/sent"

static char chunk[CHUNK];
static pid_t child;
/* The end that the row's process writes to, and the one that it reads from. */
static int out, in;
static int many[CONNECTIONS];
static int listener;
static struct sockaddr_in listener_name;

void raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    need(fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0, "the loopback interface");
    request.ifr_flags |= IFF_UP;
    need(ioctl(fd, SIOCSIFFLAGS, &request) == 0, "the loopback interface");
    close(fd);
}

/* A socket of `kind` with a port of 127.0.0.1, whose name is put into `name`. */
static int make_bound(int kind, struct sockaddr_in *name)
{
    socklen_t length = sizeof *name;
    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, kind, 0);
    need(fd >= 0 && bind(fd, (struct sockaddr *)name, length) == 0, "bind");
    need(getsockname(fd, (struct sockaddr *)name, &length) == 0, "getsockname");
    return fd;
}

static void make_listener(void)
{
    raise_loopback();
    listener = make_bound(SOCK_STREAM, &listener_name);
    need(listen(listener, BACKLOG) == 0, "listen");
}

static int connect_to_listener(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(fd >= 0 && connect(fd, (struct sockaddr *)&listener_name, sizeof listener_name) == 0, "connect");
    return fd;
}

static void send_at_once(int fd)
{
    int on = 1;
    need(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
}

void make_connection(int both[2])
{
    make_listener();
    both[0] = connect_to_listener();
    both[1] = accept(listener, NULL, NULL);
    need(both[1] >= 0, "accept");
    send_at_once(both[0]);
    send_at_once(both[1]);
    close(listener);
}

static void make_datagram_pair(int both[2])
{
    struct sockaddr_in names[2];
    raise_loopback();
    for (int end = 0; end < 2; end++)
        both[end] = make_bound(SOCK_DGRAM, &names[end]);
    for (int end = 0; end < 2; end++)
        need(connect(both[end], (struct sockaddr *)&names[1 - end], sizeof names[0]) == 0, "connect");
}

static void make_child(void (*work)(int), int its, int ours)
{
    child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        if (ours >= 0)
            close(ours);
        work(its);
        _exit(0);
    }
    close(its);
}

static void end_child(void)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void echo(int fd)
{
    char token;
    while (read(fd, &token, 1) == 1 && write(fd, &token, 1) == 1)
        ;
}

static void swallow(int fd)
{
    while (read(fd, chunk, CHUNK) > 0)
        ;
}

/* A child that gives back what comes over a connection, or by datagrams of arg[0]. */
static void make_echo(void)
{
    int both[2];
    if (arg[0] == SOCK_STREAM)
        make_connection(both);
    else
        make_datagram_pair(both);
    make_child(echo, both[1], both[0]);
    out = in = both[0];
}

static void make_own_pair(void)
{
    int both[2];
    make_connection(both);
    out = both[0];
    in = both[1];
}

static void round_trips(long count)
{
    char token = 1;
    while (count--) {
        need(write(out, &token, 1) == 1, "write");
        need(read(in, &token, 1) == 1, "read");
    }
}

/* There and back by one process. */
static void own_round_trips(long count)
{
    char token = 1;
    while (count--) {
        need(write(out, &token, 1) == 1 && read(in, &token, 1) == 1, "there");
        need(write(in, &token, 1) == 1 && read(out, &token, 1) == 1, "back");
    }
}

static void connections(long count)
{
    while (count--) {
        int fd = connect_to_listener();
        int accepted = accept(listener, NULL, NULL);
        need(accepted >= 0, "accept");
        close(fd);
        close(accepted);
    }
}

static void serve(int poller)
{
    struct epoll_event events[CONNECTIONS];
    char token;
    for (;;) {
        int count = epoll_wait(poller, events, CONNECTIONS, -1);
        need(count > 0, "epoll_wait");
        for (int at = 0; at < count; at++) {
            int fd = events[at].data.fd;
            if (read(fd, &token, 1) != 1 || write(fd, &token, 1) != 1)
                _exit(0);
        }
    }
}

static void make_server(void)
{
    int poller = epoll_create1(0);
    make_listener();
    for (int at = 0; at < CONNECTIONS; at++) {
        many[at] = connect_to_listener();
        struct epoll_event event = {.events = EPOLLIN, .data.fd = accept(listener, NULL, NULL)};
        need(event.data.fd >= 0 && epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event) == 0, "accept");
        send_at_once(many[at]);
        send_at_once(event.data.fd);
    }
    make_child(serve, poller, -1);
}

/* A request on each of the connections, then their answers. */
static void requests(long count)
{
    char token = 1;
    for (long done = 0; done < count; done += CONNECTIONS) {
        for (int at = 0; at < CONNECTIONS; at++)
            need(write(many[at], &token, 1) == 1, "write");
        for (int at = 0; at < CONNECTIONS; at++)
            need(read(many[at], &token, 1) == 1, "read");
    }
}

/* A child that reads what comes. */
static void make_sink(void)
{
    int both[2];
    make_connection(both);
    make_child(swallow, both[1], both[0]);
    out = both[0];
}

static void writes(long count)
{
    while (count--)
        need(write(out, chunk, arg[0]) == arg[0], "write");
}

static void make_sink_and_file(void)
{
    make_sink();
    make_file(SENT_FILE, CHUNK);
    in = open(SENT_FILE, O_RDONLY);
    need(in >= 0, SENT_FILE);
}

static void send_files(long count)
{
    while (count--) {
        off_t at = 0;
        need(sendfile(out, in, &at, CHUNK) == CHUNK, "sendfile");
    }
}

/* Long writes move several times what the buffers of both ends hold: else a measurement ends with much of its work undone. */
#define WRITE(words, bytes, least) \
    {.name = "TCP write " words, .step = least, .set_up = make_sink, .body = writes, .tear_down = end_child, .arg = {bytes}}

static const struct probe list[] = {
    {.name = "TCP round trip of two processes", .step = 400, .set_up = make_echo, .body = round_trips, .tear_down = end_child, .arg = {SOCK_STREAM}},
    {.name = "TCP round trip of one process", .step = 400, .set_up = make_own_pair, .body = own_round_trips},
    {.name = "UDP round trip", .step = 400, .set_up = make_echo, .body = round_trips, .tear_down = end_child, .arg = {SOCK_DGRAM}},
    {.name = "connect+accept+close", .step = 100, .set_up = make_listener, .body = connections},
    {.name = "epoll 100 connections", .step = 400, .set_up = make_server, .body = requests, .tear_down = end_child},
    WRITE("1 B", 1, 20000),
    WRITE("64 B", 64, 20000),
    WRITE("1000 B", 1000, 10000),
    WRITE("16 KB", 16 << 10, 1000),
    WRITE("64 KB", 64 << 10, 400),
    {.name = "sendfile 64 KB", .step = 400, .set_up = make_sink_and_file, .body = send_files, .tear_down = end_child},
};
SUITE(net, list);
