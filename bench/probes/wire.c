/* A network card, and a peer at the other end of its wire (../../xtask/bench/src/measure/peer.rs). The kernel's parameter
 * skerry.wire=OURS,PEER,PORT names both addresses, and the port at which the peer takes orders. Suites of two wires: QEMU's own
 * network without offloads, and an interface of the host with them. */
#include "harness.h"
#include <arpa/inet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { CHUNK = 64 << 10, TEXT = 4096 };
#define PARAMETER "skerry.wire="

static char chunk[CHUNK];
static int peer;

static void set_address(int fd, const char *interface, unsigned long request, in_addr_t address)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = address};
    struct ifreq words = {0};
    snprintf(words.ifr_name, IFNAMSIZ, "%s", interface);
    memcpy(&words.ifr_addr, &name, sizeof name);
    need(ioctl(fd, request, &words) == 0, "an address of an interface");
}

/* Gives an interface its address, in a network of 256. */
static void raise_interface(const char *interface, in_addr_t address)
{
    struct ifreq words = {0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    need(fd >= 0, "socket");
    set_address(fd, interface, SIOCSIFADDR, address);
    set_address(fd, interface, SIOCSIFNETMASK, htonl(0xffffff00));
    snprintf(words.ifr_name, IFNAMSIZ, "%s", interface);
    need(ioctl(fd, SIOCGIFFLAGS, &words) == 0, "flags of an interface");
    words.ifr_flags |= IFF_UP;
    need(ioctl(fd, SIOCSIFFLAGS, &words) == 0, "flags of an interface");
    close(fd);
}

static void connect_to_peer(void)
{
    char text[TEXT] = "", ours[32], its[32];
    int fd = open("/proc/cmdline", O_RDONLY), port = 0, on = 1;
    need(fd >= 0 && read(fd, text, sizeof text - 1) > 0, "/proc/cmdline");
    close(fd);
    char *words = strstr(text, PARAMETER);
    need(words && sscanf(words + strlen(PARAMETER), "%31[^,],%31[^,],%d", ours, its, &port) == 3, PARAMETER);
    raise_interface("eth0", inet_addr(ours));
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = inet_addr(its)};
    peer = socket(AF_INET, SOCK_STREAM, 0);
    need(peer >= 0 && connect(peer, (struct sockaddr *)&name, sizeof name) == 0, "connecting to the peer");
    need(setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
}

static void order(char word, uint64_t count)
{
    char line[9] = {word};
    memcpy(line + 1, &count, sizeof count);
    need(write(peer, line, sizeof line) == sizeof line, "an order");
}

/* The peer says that it has carried out its order. */
static void take_answer(void)
{
    char byte = 0;
    need(read(peer, &byte, 1) == 1 && byte == '.', "the peer's answer");
}

static void round_trips(long count)
{
    char token = 1;
    order('e', count);
    while (count--)
        need(write(peer, &token, 1) == 1 && read(peer, &token, 1) == 1, "a round trip");
}

static void send_chunks(long count)
{
    order('t', (uint64_t)count * CHUNK);
    while (count--)
        need(write(peer, chunk, CHUNK) == CHUNK, "write");
    take_answer();
}

static void receive_chunks(long count)
{
    uint64_t left = (uint64_t)count * CHUNK;
    order('g', left);
    while (left > 0) {
        ssize_t part = read(peer, chunk, CHUNK);
        need(part > 0, "read");
        left -= part;
    }
}

/* The stack alone answers. */
static void answer_pings(long count)
{
    order('p', count);
    take_answer();
}

/* A packet that a program gives to a tunnel, as if it had come by a wire, and the socket that it is for. */
enum { DATAGRAM = 1024, OUR_PORT = 5000, ITS_PORT = 6000 };
#define OUR_ADDRESS "10.77.0.1"
#define ITS_ADDRESS "10.77.0.2"
static struct {
    struct iphdr ip;
    struct udphdr udp;
    uint16_t data[DATAGRAM / 2];
} packet;
static int tunnel, receiver;

static uint32_t add(uint32_t sum, const void *words, size_t bytes)
{
    const uint16_t *next = words;
    for (; bytes > 0; bytes -= 2)
        sum += *next++;
    return sum;
}

static uint16_t fold(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

static void make_packet(void)
{
    memset(packet.data, 'x', DATAGRAM);
    packet.ip = (struct iphdr){.version = 4, .ihl = 5, .tot_len = htons(sizeof packet), .ttl = 64, .protocol = IPPROTO_UDP,
        .saddr = inet_addr(ITS_ADDRESS), .daddr = inet_addr(OUR_ADDRESS)};
    packet.ip.check = fold(add(0, &packet.ip, sizeof packet.ip));
    packet.udp = (struct udphdr){.source = htons(ITS_PORT), .dest = htons(OUR_PORT), .len = htons(sizeof packet - sizeof packet.ip)};
    uint32_t sum = add(0, &packet.ip.saddr, 8) + htons(IPPROTO_UDP) + packet.udp.len;
    packet.udp.check = fold(add(sum, &packet.udp, sizeof packet - sizeof packet.ip));
}

static void open_tunnel(void)
{
    struct ifreq words = {.ifr_name = "bench0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(OUR_PORT), .sin_addr.s_addr = inet_addr(OUR_ADDRESS)};
    tunnel = open("/dev/net/tun", O_RDWR);
    need(tunnel >= 0 && ioctl(tunnel, TUNSETIFF, &words) == 0, "/dev/net/tun");
    raise_interface("bench0", name.sin_addr.s_addr);
    receiver = socket(AF_INET, SOCK_DGRAM, 0);
    need(receiver >= 0 && bind(receiver, (struct sockaddr *)&name, sizeof name) == 0, "bind");
    make_packet();
}

static void receive_datagrams(long count, long bytes)
{
    while (count--) {
        need(write(tunnel, &packet, sizeof packet) == sizeof packet, "write");
        need(recv(receiver, chunk, bytes, MSG_DONTWAIT) == bytes, "recv");
    }
}

static void datagrams(long count)
{
    receive_datagrams(count, DATAGRAM);
}

static void datagrams_without_sum(long count)
{
    uint16_t sum = packet.udp.check;
    packet.udp.check = 0;
    receive_datagrams(count, DATAGRAM);
    packet.udp.check = sum;
}

/* Of each datagram the program takes one byte. */
static void bytes_without_sum(long count)
{
    uint16_t sum = packet.udp.check;
    packet.udp.check = 0;
    receive_datagrams(count, 1);
    packet.udp.check = sum;
}

static const struct probe of_user[] = {
    {.name = "user network: sent 64 KB", .step = 40, .set_up = connect_to_peer, .body = send_chunks},
    {.name = "user network: received 64 KB", .step = 40, .set_up = connect_to_peer, .body = receive_chunks},
    {.name = "UDP 1 KB from a tunnel", .step = 1000, .set_up = open_tunnel, .body = datagrams},
    {.name = "UDP 1 KB: its checksum", .step = 1000, .set_up = open_tunnel, .body = datagrams, .overhead = datagrams_without_sum},
    {.name = "UDP 1 KB: its copy", .step = 1000, .set_up = open_tunnel, .body = datagrams_without_sum, .overhead = bytes_without_sum},
};
SUITE(user_wire, of_user);

static const struct probe of_tap[] = {
    {.name = "tap: round trip", .step = 100, .set_up = connect_to_peer, .body = round_trips},
    {.name = "tap: sent 64 KB", .step = 200, .set_up = connect_to_peer, .body = send_chunks},
    {.name = "tap: received 64 KB", .step = 200, .set_up = connect_to_peer, .body = receive_chunks},
    {.name = "tap: echo", .step = 100, .set_up = connect_to_peer, .body = answer_pings},
};
SUITE(tap_wire, of_tap);
