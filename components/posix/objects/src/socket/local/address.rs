//! Names of sockets: [`Address`], and the table of abstract names.
use super::LocalSocket;
use crate::socket::interface::{SocketAddress, SocketKind};
use alloc::{
    collections::BTreeMap,
    format,
    string::String,
    sync::{Arc, Weak},
};
use linux_raw_sys::net;
use rt::{lock_class, sync::Mutex};
use vfs::{
    Credentials, Errno,
    security::{self, Label},
};

lock_class! {
    static ABSTRACT = "socket.abstract";
}

/// Bytes of `sun_family`.
const FAMILY_BYTES: usize = 2;
/// Bytes of the longest `struct sockaddr_un`.
const ADDRESS_MAX: usize = FAMILY_BYTES + 108;
const FAMILY: [u8; FAMILY_BYTES] = (net::AF_UNIX as u16).to_le_bytes();
/// Number of names that bind(2) without a name may give: five hexadecimal digits.
const AUTOMATIC_NAMES: u32 = 1 << 20;

/// The name of a socket (unix(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// The socket has no name.
    #[default]
    None,
    /// The path that was given to bind(2).
    Path(Arc<[u8]>),
    /// A name that is not the name of a file.
    Abstract(Arc<[u8]>),
}

impl Address {
    /// Parses the address in a program's `struct sockaddr`. [`Address::None`] is one with a family
    /// only.
    ///
    /// # Errors
    /// `EINVAL` for a length or a family that AF_UNIX does not have.
    pub fn parse(bytes: &[u8]) -> Result<Address, Errno> {
        let (family, name) = bytes.split_at_checked(FAMILY_BYTES).ok_or(Errno::EINVAL)?;
        if family != FAMILY || bytes.len() > ADDRESS_MAX {
            return Err(Errno::EINVAL);
        }
        Ok(match name.split_first() {
            None => Address::None,
            Some((0, name)) => Address::Abstract(Arc::from(name)),
            Some(_) => {
                let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                Address::Path(Arc::from(name.get(..length).unwrap_or_default()))
            }
        })
    }
    /// Returns the address in a program's format (`struct sockaddr_un`).
    pub fn encode(&self) -> SocketAddress {
        match self {
            Address::None => SocketAddress::of_parts(&[&FAMILY]),
            Address::Path(name) => SocketAddress::of_parts(&[&FAMILY, name, &[0]]),
            Address::Abstract(name) => SocketAddress::of_parts(&[&FAMILY, &[0], name]),
        }
    }
    /// Returns the address as `/proc/net/unix` shows it: abstract names begin with `@`, which also
    /// replaces NULs.
    pub fn describe(&self) -> String {
        match self {
            Address::None => String::new(),
            Address::Path(name) => format!(" {}", String::from_utf8_lossy(name)),
            Address::Abstract(name) => {
                let shown = String::from_utf8_lossy(name).replace('\0', "@");
                format!(" @{shown}")
            }
        }
    }
}

/// A socket with an abstract name.
struct NamedSocket {
    socket: Weak<LocalSocket>,
    label: &'static Label,
}

/// Sockets by abstract name and number: sockets of different levels may have the same name (K1).
type SocketNames = BTreeMap<(Arc<[u8]>, u64), NamedSocket>;

/// The sockets of each kind by abstract name: a name of one kind is free for the others.
static NAMES: [Mutex<SocketNames>; 3] = [const { Mutex::new(&ABSTRACT, BTreeMap::new()) }; 3];

fn names(kind: SocketKind) -> &'static Mutex<SocketNames> {
    let [streams, datagrams, packets] = &NAMES;
    match kind {
        SocketKind::Stream => streams,
        // There are no raw sockets of this family.
        SocketKind::Datagram | SocketKind::Raw => datagrams,
        SocketKind::Packet => packets,
    }
}

/// Returns the socket that has `name` for a subject.
fn named<'n>(
    names: &'n SocketNames,
    name: &Arc<[u8]>,
    who: &Credentials,
) -> Option<&'n NamedSocket> {
    let mut all = names.range((name.clone(), 0)..=(name.clone(), u64::MAX)).map(|(_, named)| named);
    let is_it = |named: &&NamedSocket| {
        named.socket.strong_count() > 0 && security::is_of_own_secrecy(&who.subject, named.label)
    };
    all.find(is_it)
}

/// Returns the socket of `kind` that has the abstract `name`, for a subject.
pub(super) fn find(
    kind: SocketKind,
    name: &Arc<[u8]>,
    who: &Credentials,
) -> Option<Arc<LocalSocket>> {
    named(&names(kind).lock(), name, who)?.socket.upgrade()
}

/// Gives `socket` the abstract `name`.
///
/// # Errors
/// `EADDRINUSE`.
pub(super) fn take(socket: &LocalSocket, name: &Arc<[u8]>, who: &Credentials) -> Result<(), Errno> {
    let mut names = names(socket.common.kind()).lock();
    if named(&names, name, who).is_some() {
        return Err(Errno::EADDRINUSE);
    }
    let (number, label) = (socket.common.number(), socket.label());
    names.insert((name.clone(), number), NamedSocket { socket: socket.this.clone(), label });
    Ok(())
}

/// Gives `socket` an abstract name that is not in use.
///
/// # Errors
/// `ENOSPC` if there is none.
pub(super) fn take_any(socket: &LocalSocket, who: &Credentials) -> Result<Arc<[u8]>, Errno> {
    let mut number = [0; 4];
    rt::entropy::fill(&mut number);
    let first = u32::from_le_bytes(number);
    for step in 0..AUTOMATIC_NAMES {
        let number = first.wrapping_add(step) % AUTOMATIC_NAMES;
        let name: Arc<[u8]> = Arc::from(format!("{number:05x}").as_bytes());
        match take(socket, &name, who) {
            Ok(()) => return Ok(name),
            Err(_) => continue,
        }
    }
    Err(Errno::ENOSPC)
}

/// Frees `name`, if it is the name of `socket`.
pub(super) fn give_back(socket: &LocalSocket, name: &Arc<[u8]>) {
    let mut names = names(socket.common.kind()).lock();
    names.remove(&(name.clone(), socket.common.number()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn bytes(name: &[u8]) -> Vec<u8> {
        [&[1, 0][..], name].concat()
    }

    #[test]
    fn addresses_are_read_and_written_as_linux_does() {
        let path = Address::parse(&bytes(b"/run/it\0rest")).unwrap();
        assert_eq!(path, Address::Path(Arc::from(&b"/run/it"[..])));
        assert_eq!(path.encode().bytes(), bytes(b"/run/it\0"));
        let name = Address::parse(&bytes(b"\0a\0b")).unwrap();
        assert_eq!(name, Address::Abstract(Arc::from(&b"a\0b"[..])));
        assert_eq!(name.encode().bytes(), bytes(b"\0a\0b"));
        assert_eq!(name.describe(), " @a@b");
        assert_eq!(Address::parse(&bytes(b"")), Ok(Address::None));
        assert_eq!(Address::None.encode().bytes().len(), 2);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [&[][..], &[1], &[2, 0, b'a'], &bytes(&[b'a'; 109])] {
            assert_eq!(Address::parse(bad), Err(Errno::EINVAL), "{bad:?}");
        }
        let longest = Address::parse(&bytes(&[b'a'; 108])).unwrap();
        assert_eq!(longest.encode().bytes().len(), ADDRESS_MAX + 1, "its NUL is told too");
    }
}
