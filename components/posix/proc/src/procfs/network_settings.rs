//! `/proc/sys/net/ipv4` and `ipv6`: the parameters that the network stack has, and those of sockets.
//!
//! ```text
//! ipv4, ipv6      a file a parameter, conf, neigh
//!   conf, neigh   a folder an interface
//!     eth0        a file a parameter of the interface
//! ```
use super::items::PERMISSIONS;
use crate::listing;
use alloc::{string::String, sync::Arc, vec, vec::Vec};
use interfaces::{
    file_system::{Attributes, FileType, TakeEntry},
    sockets::{NetworkAdministration, NetworkParameter, ParameterScope},
};
use memory::setting::{self, Setting as SocketSetting};
use netadmin::tables::{
    CONF4, CONF6, CORE4, CORE6, CoreSetting, InterfaceSetting, NEIGHBOURS4, NEIGHBOURS6,
    congestion_controls, format_values, parse_name,
};
use objects::socket::{
    internet::{
        self, BIND_VERSION6_ONLY, MODERATES_RECEIVE, PING_GROUP_FIRST, PING_GROUP_LAST,
        RECEIVE_SPACE, SEND_SPACE, UNPRIVILEGED_PORT_START,
    },
    netlink::ioctl_number,
};
use vfs::{
    Errno, Principal,
    file::{POSITION_MAX, Places},
    generated::{Child, GENERATED_END, Node, Viewer, attributes},
};

/// Inodes of these nodes are between those of the tables, which are small, and those of processes, from 2^32 on. The factor is a
/// prime above the number of names in a folder, so that near folders do not share inodes.
const FIRST_INODE: u64 = 1 << 31;
const SPREAD: u64 = 131;
const FILE_PERMISSIONS: u16 = 0o644;
const TEXT_PERMISSIONS: u16 = 0o444;
const ROOT_USER: (u32, u32) = (0, 0);

/// A folder of a family: its files, and the folders with those of interfaces.
struct FamilyFolder {
    files: &'static [CoreSetting],
    texts: &'static [TextSetting],
    conf: &'static [InterfaceSetting],
    neighbours: &'static [InterfaceSetting],
}

static FAMILIES: [FamilyFolder; 2] = [
    FamilyFolder { files: CORE4, texts: TEXTS4, conf: CONF4, neighbours: NEIGHBOURS4 },
    FamilyFolder { files: CORE6, texts: &[], conf: CONF6, neighbours: NEIGHBOURS6 },
];

/// A file that cannot be written, and the function that makes its text.
type TextSetting = (&'static str, fn() -> String);

const TEXTS4: &[TextSetting] = &[
    ("tcp_allowed_congestion_control", congestion_controls),
    ("tcp_available_congestion_control", congestion_controls),
];

/// A place in the tree.
#[derive(Clone, Copy)]
enum Place {
    Family(&'static FamilyFolder),
    Interfaces(&'static [InterfaceSetting]),
    Interface(&'static [InterfaceSetting], ParameterScope),
    File(NetworkParameter),
    Text(fn() -> String),
}

struct SettingNode {
    inode: u64,
    place: Place,
}

/// Makes the folder of IPv4.
pub fn version4(inode: u64) -> Child {
    Arc::new(SettingNode { inode, place: Place::Family(&FAMILIES[0]) })
}

/// Makes the folder of IPv6.
pub fn version6(inode: u64) -> Child {
    Arc::new(SettingNode { inode, place: Place::Family(&FAMILIES[1]) })
}

fn network() -> Option<Arc<dyn NetworkAdministration>> {
    internet::administration()
}

/// Returns the settings of a parameter that sockets obey; `None` for one of the stack.
fn of_sockets(parameter: NetworkParameter) -> Option<Vec<&'static SocketSetting>> {
    match parameter {
        NetworkParameter::UnprivilegedPortStart => Some(vec![&UNPRIVILEGED_PORT_START]),
        NetworkParameter::PingGroupRange => Some(vec![&PING_GROUP_FIRST, &PING_GROUP_LAST]),
        NetworkParameter::TcpRmem => Some(RECEIVE_SPACE.iter().collect()),
        NetworkParameter::TcpWmem => Some(SEND_SPACE.iter().collect()),
        NetworkParameter::BindVersion6Only => Some(vec![&BIND_VERSION6_ONLY]),
        NetworkParameter::TcpModerateRcvbuf => Some(vec![&MODERATES_RECEIVE]),
        _ => None,
    }
}

/// Returns the values of a parameter, of sockets or of the stack.
fn values(parameter: NetworkParameter) -> Option<Vec<i64>> {
    match of_sockets(parameter) {
        Some(settings) => Some(settings.iter().map(|setting| setting.get()).collect()),
        None => network()?.parameter(parameter),
    }
}

fn set(parameter: NetworkParameter, data: &[u8]) -> Result<(), Errno> {
    let mut written = setting::numbers(data).peekable();
    if let Some(settings) = of_sockets(parameter) {
        written.peek().ok_or(Errno::EINVAL)?;
        // As in Linux, the first numbers are set until one is invalid.
        return settings.iter().zip(written).try_for_each(|(one, value)| one.set_to(value?));
    }
    let network = network().ok_or(Errno::EINVAL)?;
    let values = match parse_name(parameter, data) {
        Some(value) => vec![value.map_err(ioctl_number)?],
        None => {
            let count = network.parameter(parameter).ok_or(Errno::EINVAL)?.len();
            written.take(count).collect::<Result<Vec<i64>, Errno>>()?
        }
    };
    if values.is_empty() {
        return Err(Errno::EINVAL);
    }
    let done = network.set_parameter(parameter, &values);
    done.map_err(|error| ioctl_number(error.into()))
}

impl SettingNode {
    fn is_folder(&self) -> bool {
        !matches!(self.place, Place::File(_) | Place::Text(_))
    }
    /// Returns the names in the folder, with their places.
    fn names(&self) -> Vec<(Vec<u8>, Place)> {
        let name = |text: &str| text.as_bytes().to_vec();
        match self.place {
            Place::Family(family) => {
                let mut all = vec![(name("conf"), Place::Interfaces(family.conf))];
                all.push((name("neigh"), Place::Interfaces(family.neighbours)));
                let files =
                    family.files.iter().filter(|(_, parameter)| values(*parameter).is_some());
                all.extend(files.map(|(file, parameter)| (name(file), Place::File(*parameter))));
                let texts = family.texts.iter();
                all.extend(texts.map(|(file, text)| (name(file), Place::Text(*text))));
                all
            }
            Place::Interfaces(table) => {
                let links = network().map_or_else(Vec::new, |network| network.links());
                let links = links.iter().map(|link| (name(&link.name), link.index));
                let links = links.map(|(name, index)| (name, ParameterScope::Interface(index)));
                let whole = [
                    (name("all"), ParameterScope::All),
                    (name("default"), ParameterScope::Default),
                ];
                let is_there = |(_, scope): &(Vec<u8>, ParameterScope)| {
                    let parameter = |one| NetworkParameter::Conf(*scope, one);
                    table.iter().any(|(_, one)| values(parameter(*one)).is_some())
                };
                let all = whole.into_iter().chain(links).filter(is_there);
                all.map(|(name, scope)| (name, Place::Interface(table, scope))).collect()
            }
            Place::Interface(table, scope) => {
                let all =
                    table.iter().map(|(file, one)| (*file, NetworkParameter::Conf(scope, *one)));
                let all = all.filter(|(_, parameter)| values(*parameter).is_some());
                all.map(|(file, parameter)| (name(file), Place::File(parameter))).collect()
            }
            Place::File(_) | Place::Text(_) => Vec::new(),
        }
    }
    fn child(&self, index: usize, place: Place) -> SettingNode {
        let mixed = self.inode.wrapping_mul(SPREAD).wrapping_add(index as u64 + 1);
        let inode = mixed % FIRST_INODE + FIRST_INODE;
        SettingNode { inode, place }
    }
    fn file_type(&self) -> FileType {
        if self.is_folder() { FileType::Directory } else { FileType::Regular }
    }
}

impl Node for SettingNode {
    fn attributes(&self) -> Attributes {
        let permissions = match self.place {
            Place::File(_) => FILE_PERMISSIONS,
            Place::Text(_) => TEXT_PERMISSIONS,
            _ => PERMISSIONS,
        };
        let known = attributes(self.inode, self.file_type(), permissions, ROOT_USER);
        // Linux does not count the links of directories of settings.
        Attributes { links: 1, ..known }
    }
    fn places(&self) -> Places {
        Places::UpTo(if self.is_folder() { GENERATED_END } else { POSITION_MAX })
    }
    fn lookup(&self, name: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        if !self.is_folder() {
            return Err(Errno::ENOTDIR);
        }
        let all = self.names();
        let found = all.iter().enumerate().find(|(_, (known, _))| known == name);
        let (index, (_, place)) = found.ok_or(Errno::ENOENT)?;
        Ok(Arc::new(self.child(index, *place)))
    }
    fn entries(
        &self,
        position: u64,
        _: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        if !self.is_folder() {
            return Err(Errno::ENOTDIR);
        }
        let names = self.names();
        let named = names.iter().enumerate().map(|(index, (name, place))| {
            let child = self.child(index, *place);
            (child.inode, child.file_type(), name.as_slice())
        });
        let _ = listing::list(named, position, take);
        Ok(())
    }
    fn generate(&self, _: &dyn Principal) -> Result<Vec<u8>, Errno> {
        let parameter = match self.place {
            Place::File(parameter) => parameter,
            Place::Text(text) => return Ok(text().into_bytes()),
            _ => return Err(Errno::EINVAL),
        };
        let values = values(parameter).ok_or(Errno::ENOENT)?;
        Ok(format_values(parameter, &values).into_bytes())
    }
    fn write(&self, data: &[u8], _: &dyn Principal) -> Result<(), Errno> {
        match self.place {
            Place::File(parameter) => set(parameter, data),
            _ => Err(Errno::EIO),
        }
    }
    /// Data written at an offset after a number's start is ignored, and so is empty data (`sysctl_writes_strict`).
    fn write_at(&self, offset: u64, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
        if offset > 0 || data.is_empty() { Ok(()) } else { self.write(data, writer) }
    }
}
