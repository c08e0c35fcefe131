//! The comparisons: their lists, their packages and their limits.
use super::{Archive, Comparison};
use harness::{debian, guest};

/// The comparison of commands of Debian's busybox.
pub const BUSYBOX: Comparison = Comparison {
    name: "busybox",
    lists: &["busybox"],
    is_sample: false,
    shell: "/bin/sh",
    path: "/bin:/sbin",
    memory: guest::MEMORY_MIB,
    packages: None,
    command_seconds: 120,
    archives: &[],
    has_card: false,
};

/// The comparison of commands of Debian.
pub const DEBIAN: Comparison = Comparison {
    name: "debian",
    lists: &["debian"],
    is_sample: false,
    shell: debian::SHELL,
    path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    memory: debian::MEMORY_MIB,
    packages: Some(&[]),
    command_seconds: 120,
    archives: &[],
    has_card: false,
};

/// The comparison of programs that people work with.
pub const TOOLS: Comparison = Comparison {
    name: "tools",
    lists: &["tools"],
    packages: Some(&PROGRAMS),
    command_seconds: 900,
    archives: &[Archive {
        name: "lua.tar.gz",
        path: "pool/main/l/lua5.4/lua5.4_5.4.4.orig.tar.gz",
        sha256: "164c7849653b80ae67bec4b7473b884bf5cc8d2dca05653475ec2ed27b9ebf61",
    }],
    ..DEBIAN
};

/// The comparison of programs of the network.
pub const NETWORK: Comparison = Comparison {
    name: "network",
    lists: &["network"],
    packages: Some(&NETWORKED),
    command_seconds: 900,
    has_card: true,
    ..DEBIAN
};

/// Services, and the languages that people write programs in.
pub const SERVICES: Comparison = Comparison {
    name: "services",
    lists: &["services"],
    memory: 2048,
    packages: Some(&SERVED),
    command_seconds: 900,
    ..DEBIAN
};

/// The comparison of modules of Python's own tests.
pub const PYTHON: Comparison = Comparison {
    name: "python",
    lists: &["python"],
    memory: 2048,
    packages: Some(&PROGRAMS),
    command_seconds: 1800,
    ..DEBIAN
};

/// Some of each of these four, in a root that is soon made.
pub const SAMPLE: Comparison = Comparison {
    name: "sample",
    lists: &["debian", "tools", "python", "network"],
    is_sample: true,
    packages: Some(&SAMPLED),
    ..DEBIAN
};

/// The comparison of stressors of stress-ng, for which `stress` makes the commands.
pub const STRESS: Comparison = Comparison {
    name: "stress",
    lists: &["stress"],
    packages: Some(&PROGRAMS),
    command_seconds: 180,
    ..DEBIAN
};

/// Packages of `tools` and `python`, and of `stress`.
const PROGRAMS: [&str; 14] = [
    "acl",
    "gcc",
    "git",
    "htop",
    "libc6-dev",
    "libpython3.11-testsuite",
    "make",
    "python3",
    "python3-distutils",
    "redis-server",
    "rt-tests",
    "sqlite3",
    "stress-ng",
    "vim",
];

/// Packages of the comparison `network`.
const NETWORKED: [&str; 32] = [
    "apache2-utils",
    "bind9-dnsutils",
    "busybox",
    "curl",
    "dnsmasq-base",
    "ethtool",
    "fping",
    "inetutils-telnet",
    "iperf3",
    "iproute2",
    "iputils-arping",
    "iputils-ping",
    "iputils-tracepath",
    "isc-dhcp-client",
    "libpython3.11-testsuite",
    "lsof",
    "mtr-tiny",
    "net-tools",
    "netcat-openbsd",
    "nginx-light",
    "openssh-client",
    "openssh-server",
    "openssl",
    "python3",
    "redis-server",
    "redis-tools",
    "rsync",
    "socat",
    "stress-ng",
    "tcpdump",
    "traceroute",
    "wget",
];

/// Packages of the sample.
const SAMPLED: [&str; 13] = [
    "acl",
    "curl",
    "git",
    "inetutils-telnet",
    "iproute2",
    "iputils-ping",
    "libpython3.11-testsuite",
    "net-tools",
    "netcat-openbsd",
    "openssh-client",
    "openssh-server",
    "python3",
    "sqlite3",
];

/// Packages of the comparison `services`.
const SERVED: [&str; 11] = [
    "at",
    "cargo",
    "cron",
    "dbus",
    "default-jdk-headless",
    "fakeroot",
    "fio",
    "golang-go",
    "mariadb-server",
    "nodejs",
    "postgresql-15",
];
