//! The ioctl calls about interfaces, asked about loopback, and its entries under /sys/class/net (netdevice(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, *};
use libc::{EADDRNOTAVAIL, EFAULT, EINVAL, ENODEV, ENOENT, ENOTTY, ENXIO, EPERM};

const SIOCADDRT: u64 = 0x890b;
const SIOCDELRT: u64 = 0x890c;
const SIOCGIFNAME: u64 = 0x8910;
const SIOCGIFCONF: u64 = 0x8912;
const SIOCGIFADDR: u64 = 0x8915;
const SIOCGIFDSTADDR: u64 = 0x8917;
const SIOCGIFBRDADDR: u64 = 0x8919;
const SIOCGIFNETMASK: u64 = 0x891b;
const SIOCGIFMETRIC: u64 = 0x891d;
const SIOCGIFMTU: u64 = 0x8921;
const SIOCSIFMTU: u64 = 0x8922;
const SIOCGIFHWADDR: u64 = 0x8927;
const SIOCGIFINDEX: u64 = 0x8933;
const SIOCGIFTXQLEN: u64 = 0x8942;
const SIOCADDMULTI: u64 = 0x8931;
const SIOCDELMULTI: u64 = 0x8932;
const SIOCDARP: u64 = 0x8953;

/// Asks about an interface. Returns the bytes behind its name.
fn about(fd: i32, call: u64, name: &str) -> Result<[u8; 24], i32> {
    let mut request = interface(name);
    ask(fd, call, &mut request)?;
    Ok(unsafe { (&raw const request).cast::<u8>().add(libc::IFNAMSIZ).cast::<[u8; 24]>().read() })
}

/// Asks for a number.
fn number_about(call: u64, name: &str) -> Result<i32, i32> {
    about(udp(), call, name).map(|bytes| i32::from_ne_bytes(bytes[..4].try_into().unwrap()))
}

/// Asks for an address.
fn address_about(call: u64, name: &str) -> Result<String, i32> {
    about(udp(), call, name)
        .map(|bytes| from_raw(&bytes[..16]).expect("an address of IPv4").ip().to_string())
}

#[test]
fn loopback_is_up_and_running() {
    networked(|| {
        let flags = about(udp(), SIOCGIFFLAGS, "lo").unwrap();
        let flags = i32::from(i16::from_ne_bytes([flags[0], flags[1]]));
        assert_eq!(flags, libc::IFF_UP | libc::IFF_LOOPBACK | libc::IFF_RUNNING);
    });
}

#[test]
fn loopback_has_its_addresses() {
    networked(|| {
        assert_eq!(address_about(SIOCGIFADDR, "lo"), Ok("127.0.0.1".to_owned()));
        assert_eq!(address_about(SIOCGIFNETMASK, "lo"), Ok("255.0.0.0".to_owned()));
        assert_eq!(address_about(SIOCGIFDSTADDR, "lo"), Ok("127.0.0.1".to_owned()));
        assert_eq!(address_about(SIOCGIFBRDADDR, "lo"), Ok("0.0.0.0".to_owned()));
    });
}

#[test]
fn loopback_has_number_one_and_a_large_mtu() {
    networked(|| {
        assert_eq!(number_about(SIOCGIFINDEX, "lo"), Ok(1));
        assert_eq!(number_about(SIOCGIFMTU, "lo"), Ok(65_536));
        assert_eq!(number_about(SIOCGIFMETRIC, "lo"), Ok(0));
        assert_eq!(number_about(SIOCGIFTXQLEN, "lo"), Ok(1000));
        assert_eq!(unsafe { libc::if_nametoindex(c"lo".as_ptr()) }, 1);
    });
}

#[test]
fn an_interface_is_found_by_its_number() {
    networked(|| {
        let mut request = interface("");
        request.ifr_ifru.ifru_ifindex = 1;
        assert_eq!(ask(udp(), SIOCGIFNAME, &mut request), Ok(0));
        assert_eq!(request.ifr_name[..3], interface("lo").ifr_name[..3]);
        for number in [0, 4000, -1] {
            request.ifr_ifru.ifru_ifindex = number;
            assert_eq!(ask(udp(), SIOCGIFNAME, &mut request), Err(ENODEV));
        }
    });
}

#[test]
fn loopback_has_no_hardware_address() {
    networked(|| {
        let bytes = about(udp(), SIOCGIFHWADDR, "lo").unwrap();
        assert_eq!(bytes[..2], 772u16.to_ne_bytes(), "ARPHRD_LOOPBACK");
        assert_eq!(bytes[2..8], [0; 6]);
    });
}

#[test]
fn an_absent_interface_is_no_device() {
    networked(|| {
        for call in [
            SIOCGIFFLAGS,
            SIOCGIFADDR,
            SIOCGIFNETMASK,
            SIOCGIFMTU,
            SIOCGIFINDEX,
            SIOCGIFHWADDR,
            SIOCGIFTXQLEN,
        ] {
            for name in ["absent", "", "lo0", "a-name-of-15-by"] {
                assert_eq!(about(udp(), call, name), Err(ENODEV), "{call:#x} {name}");
            }
            let nowhere = check(unsafe { libc::ioctl(udp(), call as _, 8) });
            assert_eq!(nowhere, Err(EFAULT), "{call:#x}");
        }
        assert_eq!(unsafe { libc::if_nametoindex(c"absent".as_ptr()) }, 0);
    });
}

#[test]
fn every_kind_of_socket_answers() {
    networked(|| {
        let local = socket(libc::AF_UNIX, SOCK_DGRAM);
        for fd in [tcp(), udp(), socket(AF_INET6, SOCK_DGRAM), local] {
            for call in [SIOCGIFFLAGS, SIOCGIFMTU, SIOCGIFINDEX, SIOCGIFHWADDR] {
                assert!(about(fd, call, "lo").is_ok(), "{call:#x}");
            }
        }
        assert_eq!(about(local, SIOCGIFADDR, "lo"), Err(ENOTTY), "an address is of IPv4");
        let file = open("/dev/null", libc::O_RDWR, 0).unwrap();
        assert_eq!(about(file, SIOCGIFFLAGS, "lo"), Err(ENOTTY));
    });
}

#[test]
fn interfaces_with_an_address_are_listed() {
    networked(|| {
        let each = size_of::<libc::ifreq>();
        let mut entries: [libc::ifreq; 16] = unsafe { zeroed() };
        let mut list: libc::ifconf = unsafe { zeroed() };
        list.ifc_len = size_of_val(&entries) as i32;
        list.ifc_ifcu.ifcu_req = entries.as_mut_ptr();
        assert_eq!(ask(udp(), SIOCGIFCONF, &mut list), Ok(0));
        let length = list.ifc_len as usize;
        assert_eq!(length % each, 0);
        let lo = interface("lo").ifr_name;
        let names: Vec<_> = entries[..length / each].iter().map(|entry| entry.ifr_name).collect();
        assert!(names.iter().any(|name| name[..3] == lo[..3]), "{names:?}");
        // Without a place the length is told.
        list.ifc_ifcu.ifcu_req = std::ptr::null_mut();
        list.ifc_len = 0;
        assert_eq!(ask(udp(), SIOCGIFCONF, &mut list), Ok(0));
        assert_eq!(list.ifc_len as usize, length);
        // Half an entry is none.
        list.ifc_ifcu.ifcu_req = entries.as_mut_ptr();
        list.ifc_len = each as i32 - 1;
        assert_eq!(ask(udp(), SIOCGIFCONF, &mut list), Ok(0));
        assert_eq!(list.ifc_len, 0);
    });
}

#[test]
fn changes_need_a_capability() {
    networked(|| {
        let fd = udp();
        without(CAP_NET_ADMIN, || {
            let mut request = interface("lo");
            for call in [SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFMTU] {
                request.ifr_ifru.ifru_flags = 1;
                assert_eq!(ask(fd, call, &mut request), Err(EPERM), "{call:#x}");
            }
            let mut route: libc::rtentry = unsafe { zeroed() };
            assert_eq!(ask(fd, SIOCADDRT, &mut route), Err(EPERM));
            assert_eq!(number_about(SIOCGIFMTU, "lo"), Ok(65_536), "asking is for all");
        });
        assert_eq!(number_about(SIOCGIFMTU, "lo"), Ok(65_536));
    });
}

#[test]
fn an_address_can_be_added_and_taken_away() {
    networked(|| {
        let fd = udp();
        let label = "lo:7";
        let own = v4([10, 77, 0, 1], 0);
        assert_eq!(address_about(SIOCGIFADDR, label), Err(EADDRNOTAVAIL));
        assert_eq!(bind(tcp(), own), Err(EADDRNOTAVAIL));
        let mut request = interface(label);
        let (raw, _) = to_raw(&own);
        request.ifr_ifru.ifru_addr = unsafe { (&raw const raw).cast::<libc::sockaddr>().read() };
        assert_eq!(ask(fd, SIOCSIFADDR, &mut request), Ok(0));
        assert_eq!(address_about(SIOCGIFADDR, label), Ok("10.77.0.1".to_owned()));
        assert_eq!(address_about(SIOCGIFNETMASK, label), Ok("255.0.0.0".to_owned()), "its class");
        let (client, _server) = tcp_pair_over(own);
        assert_eq!(name(client).unwrap().ip(), own.ip());
        // Switching the label off takes it away.
        let mut request = interface(label);
        request.ifr_ifru.ifru_flags = 0;
        assert_eq!(ask(fd, SIOCSIFFLAGS, &mut request), Ok(0));
        assert_eq!(address_about(SIOCGIFADDR, label), Err(EADDRNOTAVAIL));
        assert_eq!(bind(tcp(), own), Err(EADDRNOTAVAIL));
        assert_eq!(address_about(SIOCGIFADDR, "lo"), Ok("127.0.0.1".to_owned()));
        let mut request = interface("lo");
        request.ifr_ifru.ifru_addr.sa_family = AF_INET6 as u16;
        assert_eq!(ask(fd, SIOCSIFADDR, &mut request), Err(EINVAL));
    });
}

#[test]
fn loopback_has_no_groups_of_its_link() {
    networked(|| {
        let fd = udp();
        let request = |family: u16| {
            let mut request = interface("lo");
            let sa_data = [1, 0, 0x5e, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0];
            request.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: family, sa_data };
            request
        };
        for order in [SIOCADDMULTI, SIOCDELMULTI] {
            assert_eq!(ask(fd, order, &mut request(0)), Err(EINVAL));
            assert_eq!(ask(fd, order, &mut request(1)), Err(EINVAL), "a family");
            without(CAP_NET_ADMIN, || {
                assert_eq!(ask(fd, order, &mut request(0)), Err(EPERM));
            });
        }
        let text = std::fs::read_to_string("/proc/net/dev_mcast").unwrap();
        assert!(!text.contains("lo"), "{text}");
    });
}

#[test]
fn a_neighbour_that_is_unknown_cannot_be_deleted() {
    networked(|| {
        let (raw, _) = to_raw(&v4([127, 9, 9, 9], 0));
        let mut request: libc::arpreq = unsafe { zeroed() };
        request.arp_pa = unsafe { (&raw const raw).cast::<libc::sockaddr>().read() };
        request.arp_dev[..2].copy_from_slice(&interface("lo").ifr_name[..2]);
        assert_eq!(ask(udp(), SIOCDARP, &mut request), Err(ENXIO));
        // `arp -d` asks again for one that this host answers for.
        request.arp_flags = libc::ATF_PUBL;
        assert_eq!(ask(udp(), SIOCDARP, &mut request), Err(ENOENT));
    });
}

#[test]
fn a_route_can_be_added_and_deleted() {
    networked(|| {
        let fd = udp();
        let to = v4([198, 51, 100, 0], 0);
        let address = |address| {
            let (raw, _) = to_raw(&address);
            unsafe { (&raw const raw).cast::<libc::sockaddr>().read() }
        };
        let mut device = *b"lo\0";
        let mut route: libc::rtentry = unsafe { zeroed() };
        route.rt_dst = address(to);
        route.rt_genmask = address(v4([255, 255, 255, 0], 0));
        route.rt_flags = libc::RTF_UP;
        route.rt_dev = device.as_mut_ptr().cast();
        let is_there = || {
            let text = std::fs::read_to_string("/proc/net/route").unwrap();
            text.lines().any(|line| line.starts_with("lo\t006433C6\t00000000\t0001\t"))
        };
        assert!(!is_there());
        assert_eq!(ask(fd, SIOCDELRT, &mut route), Err(libc::ESRCH));
        assert_eq!(ask(fd, SIOCADDRT, &mut route), Ok(0));
        assert!(is_there());
        assert_eq!(ask(fd, SIOCADDRT, &mut route), Err(libc::EEXIST));
        let far = v4([198, 51, 100, 9], 9);
        assert_eq!(connect(udp(), far), Ok(0));
        assert_eq!(ask(fd, SIOCDELRT, &mut route), Ok(0));
        assert_eq!(connect(udp(), far), Err(libc::ENETUNREACH));
        assert!(!is_there());
        route.rt_genmask = address(v4([255, 0, 255, 0], 0));
        assert_eq!(ask(fd, SIOCADDRT, &mut route), Err(EINVAL), "a mask with a hole");
        route.rt_genmask = address(v4([255, 255, 0, 0], 0));
        assert_eq!(ask(fd, SIOCADDRT, &mut route), Err(EINVAL), "bits beyond the mask");
    });
}

#[test]
fn loopback_is_in_sys() {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/class/net/lo/{name}")).unwrap();
    for (name, text) in [
        ("ifindex", "1\n"),
        ("mtu", "65536\n"),
        ("type", "772\n"),
        ("addr_len", "6\n"),
        ("address", "00:00:00:00:00:00\n"),
        ("broadcast", "00:00:00:00:00:00\n"),
        ("tx_queue_len", "1000\n"),
    ] {
        assert_eq!(read(name), text, "{name}");
    }
    for name in ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_errors"] {
        let text = read(&format!("statistics/{name}"));
        assert!(text.trim().parse::<u64>().is_ok(), "{name}: {text}");
    }
}
