//! `/sys/class/net` and `/sys/devices/virtual/net`: the interfaces of the network stack.
use super::{
    Family, NodeKind, SysfsNode,
    tree::{Builder, up},
};
use alloc::{
    borrow::ToOwned,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use interfaces::{
    file_system::FileType,
    sockets::{LinkChange, LinkRecord, NetworkAdministration, NetworkChange, TunnelRecord},
};
use netadmin::{colons, route::CHANGEABLE};
use objects::socket::{internet, netlink::ioctl_number};
use vfs::Errno;

/// A property of an interface as text, without a newline.
type Property = fn(&LinkRecord) -> String;
/// The same of an interface whose other end is a program.
type TunnelProperty = fn(&TunnelRecord) -> String;
/// A count of an interface.
type Count = fn(&LinkRecord) -> u64;

const PROPERTIES: &[(&str, Property)] = &[
    ("addr_assign_type", |link| link.mac_origin.to_string()),
    ("addr_len", |link| link.address_length().to_string()),
    ("address", |link| link_address(link, link.mac)),
    ("broadcast", |link| link_address(link, link.broadcast)),
    ("carrier_changes", |link| link.carrier_changes.to_string()),
    ("carrier_down_count", |link| (link.carrier_changes / 2).to_string()),
    ("carrier_up_count", |link| link.carrier_changes.div_ceil(2).to_string()),
    ("dev_id", |_| "0x0".to_owned()),
    ("dev_port", |_| "0".to_owned()),
    ("dormant", |_| "0".to_owned()),
    ("duplex", |link| {
        let name = if link.speed_mbit.is_some() { "full" } else { "unknown" };
        name.to_owned()
    }),
    ("ifalias", |link| link.alias.clone()),
    ("ifindex", |link| link.index.to_string()),
    ("iflink", |link| link.index.to_string()),
    ("link_mode", |_| "0".to_owned()),
    ("name_assign_type", |_| "1".to_owned()),
    ("netdev_group", |_| "0".to_owned()),
    ("operstate", |link| {
        let name = match link.operational {
            2 => "down",
            6 => "up",
            _ => "unknown",
        };
        name.to_owned()
    }),
    ("proto_down", |_| "0".to_owned()),
    ("speed", |link| link.speed_mbit.map_or_else(|| "-1".to_owned(), |speed| speed.to_string())),
    ("type", |link| link.hardware.to_string()),
    ("uevent", |link| format!("INTERFACE={}\nIFINDEX={}", link.name, link.index)),
];

/// Returns an address on the link; nothing for an interface without one.
fn link_address(link: &LinkRecord, address: [u8; 6]) -> String {
    if link.address_length() == 0 { String::new() } else { colons(address) }
}

/// Counts in `statistics`, which are the fields of `struct rtnl_link_stats64`.
const COUNTS: &[(&str, Count)] = &[
    ("collisions", |_| 0),
    ("multicast", |link| link.counts.multicast),
    ("rx_bytes", |link| link.counts.rx_bytes),
    ("rx_compressed", |_| 0),
    ("rx_crc_errors", |_| 0),
    ("rx_dropped", |link| link.counts.rx_dropped),
    ("rx_errors", |link| link.counts.rx_errors),
    ("rx_fifo_errors", |_| 0),
    ("rx_frame_errors", |link| link.counts.rx_frame_errors),
    ("rx_length_errors", |_| 0),
    ("rx_missed_errors", |_| 0),
    ("rx_nohandler", |link| link.counts.rx_nohandler),
    ("rx_over_errors", |_| 0),
    ("rx_packets", |link| link.counts.rx_packets),
    ("tx_aborted_errors", |_| 0),
    ("tx_bytes", |link| link.counts.tx_bytes),
    ("tx_carrier_errors", |_| 0),
    ("tx_compressed", |_| 0),
    ("tx_dropped", |link| link.counts.tx_dropped),
    ("tx_errors", |link| link.counts.tx_errors),
    ("tx_fifo_errors", |_| 0),
    ("tx_heartbeat_errors", |_| 0),
    ("tx_packets", |link| link.counts.tx_packets),
    ("tx_window_errors", |_| 0),
];

/// Returns a property of the interface `index`; empty if it is gone.
fn show(
    network: &Arc<dyn NetworkAdministration>,
    index: u32,
    property: impl Fn(&LinkRecord) -> String,
) -> String {
    let links = network.links();
    let link = links.iter().find(|link| link.index == index);
    link.map_or_else(String::new, |link| format!("{}\n", property(link)))
}

/// Parses a number in decimal, or in hexadecimal with its prefix.
fn number(data: &[u8]) -> Result<u32, Errno> {
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?.trim();
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| Errno::EINVAL)
}

/// A property that can be set: its name, its text, and the change that a number makes.
type SettableProperty = (&'static str, Property, fn(u32, u32) -> LinkChange);

const SETTABLE: &[SettableProperty] = &[
    (
        "carrier",
        |link| u8::from(link.has_carrier).to_string(),
        |index, value| LinkChange { index, has_carrier: Some(value != 0), ..LinkChange::default() },
    ),
    (
        "flags",
        |link| format!("0x{:x}", link.flags & 0xffff),
        |index, flags| LinkChange {
            index,
            flags: Some((flags, CHANGEABLE)),
            ..LinkChange::default()
        },
    ),
    (
        "mtu",
        |link| link.mtu.to_string(),
        |index, mtu| LinkChange { index, mtu: Some(mtu), ..LinkChange::default() },
    ),
    (
        "tx_queue_len",
        |link| link.transmit_queue.to_string(),
        |index, length| LinkChange { index, transmit_queue: Some(length), ..LinkChange::default() },
    ),
];

/// Properties of an interface whose other end is a program.
const OF_TUNNELS: &[(&str, TunnelProperty)] = &[
    ("group", |tunnel| identity(tunnel.group)),
    ("owner", |tunnel| identity(tunnel.owner)),
    ("tun_flags", |tunnel| format!("0x{:x}", tunnel.flags)),
];

fn identity(id: Option<u32>) -> String {
    id.map_or_else(|| "-1".to_owned(), |id| id.to_string())
}

/// Inodes of interfaces: those of one follow each other.
const FIRST_INODE: u64 = 1 << 32;
const INODES: u64 = 256;

fn inode_of(index: u32) -> u64 {
    FIRST_INODE.saturating_add(u64::from(index) * INODES)
}

/// Adds the interfaces.
pub(super) fn interfaces(builder: &mut Builder) {
    builder.family("devices/virtual/net", InterfaceDirectories);
    builder.family("class/net", InterfaceLinks);
}

fn links() -> Vec<LinkRecord> {
    internet::administration().map(|network| network.links()).unwrap_or_default()
}

fn link_named(name: &str) -> Option<LinkRecord> {
    links().into_iter().find(|link| link.name == name)
}

/// The directories of interfaces.
struct InterfaceDirectories;

impl Family for InterfaceDirectories {
    fn members(&self) -> Vec<(String, u64)> {
        links().into_iter().map(|link| (link.name, inode_of(link.index) + INODES - 1)).collect()
    }
    fn file_type(&self) -> FileType {
        FileType::Directory
    }
    fn node(&self, name: &str) -> Option<Arc<SysfsNode>> {
        let network = internet::administration()?;
        let link = link_named(name)?;
        let mut builder = Builder::beside(inode_of(link.index));
        describe(&mut builder, &network, &link);
        let node = builder.into_node();
        let inode = inode_of(link.index) + INODES - 1;
        Some(Arc::new(SysfsNode { inode, kind: Arc::into_inner(node)?.kind }))
    }
}

/// The links to interfaces in their class.
struct InterfaceLinks;

impl Family for InterfaceLinks {
    fn members(&self) -> Vec<(String, u64)> {
        links().into_iter().map(|link| (link.name, inode_of(link.index))).collect()
    }
    fn file_type(&self) -> FileType {
        FileType::Symlink
    }
    fn node(&self, name: &str) -> Option<Arc<SysfsNode>> {
        let link = link_named(name)?;
        let kind = NodeKind::Link(format!("../../devices/virtual/net/{name}"));
        Some(Arc::new(SysfsNode { inode: inode_of(link.index), kind }))
    }
}

/// Adds the files of an interface.
fn describe(builder: &mut Builder, network: &Arc<dyn NetworkAdministration>, link: &LinkRecord) {
    let index = link.index;
    for (name, property) in PROPERTIES {
        let network = network.clone();
        builder.live(name, move || show(&network, index, property));
    }
    if link.tunnel.is_some() {
        for (name, property) in OF_TUNNELS {
            let network = network.clone();
            let text =
                move |link: &LinkRecord| link.tunnel.as_ref().map_or_else(String::new, property);
            builder.live(name, move || show(&network, index, text));
        }
    }
    for (name, count) in COUNTS {
        let network = network.clone();
        let text = move || show(&network, index, |link| count(link).to_string());
        // The packets of all levels are counted together.
        builder.of_all(&format!("statistics/{name}"), text);
    }
    for (name, property, change) in SETTABLE {
        let (shown, changed) = (network.clone(), network.clone());
        builder.setting(
            name,
            move || show(&shown, index, property),
            move |data| {
                let change = NetworkChange::Link(change(index, number(data)?));
                changed.change(&change).map_err(|error| ioctl_number(error.into()))
            },
        );
    }
    let place = format!("devices/virtual/net/{}", link.name);
    builder.link("subsystem", up(&place, "class/net"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_both_forms() {
        assert_eq!((number(b"0x1003\n"), number(b"1500\n")), (Ok(0x1003), Ok(1500)));
        assert_eq!(number(b"many"), Err(Errno::EINVAL));
        assert_eq!(colons([0, 1, 2, 0xaa, 0xbb, 0xff]), "00:01:02:aa:bb:ff");
    }
}
