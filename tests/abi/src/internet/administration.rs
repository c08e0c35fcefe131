//! A client of NETLINK_ROUTE (rtnetlink(7)): requests with their acknowledgements and texts of errors, dumps, and notices.
use super::{AF_INET, AF_INET6, try_socket};
use crate::{close, must, zeroed};
use libc::{NETLINK_ROUTE, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, SOCK_RAW};
use std::net::IpAddr;

/// NETLINK_CAP_ACK and NETLINK_EXT_ACK.
const CAP_ACK: i32 = 10;
const EXT_ACK: i32 = 11;
/// Bytes of the header of a message, and those of an error's number with the header that it repeats.
const HEAD: usize = 16;
const ERROR_HEAD: usize = HEAD + 4 + HEAD;
/// NLM_F_ACK_TLVS.
const ACK_TEXTS: u16 = 0x200;
const ROOM: usize = 32 << 10;

/// A message: its type, its flags, and its body.
pub type Message = (u16, u16, Vec<u8>);

/// A socket of NETLINK_ROUTE.
pub struct Administration {
    fd: i32,
}

/// The error of a request, and the text of it; empty for none.
pub type Refusal = (i32, String);

/// Adds an attribute to a body.
pub fn put(body: &mut Vec<u8>, number: u16, value: &[u8]) {
    body.extend((value.len() as u16 + 4).to_ne_bytes());
    body.extend(number.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Returns the attributes of a body behind its fixed head.
pub fn attributes(body: &[u8], head: usize) -> Vec<(u16, Vec<u8>)> {
    let mut rest = body.get(head..).unwrap_or_default();
    let mut all = Vec::new();
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = rest.get(4..length).expect("an attribute's value");
        all.push((u16::from_ne_bytes([c, d]) & 0x3fff, value.to_vec()));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// Returns the value of an attribute.
pub fn value(body: &[u8], head: usize, number: u16) -> Option<Vec<u8>> {
    attributes(body, head).into_iter().find(|(at, _)| *at == number).map(|(_, value)| value)
}

/// Returns the value of an attribute that is a number of four bytes.
pub fn word(body: &[u8], head: usize, number: u16) -> Option<u32> {
    let bytes = value(body, head, number)?;
    Some(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}

/// Returns the family and the bytes of an address.
pub fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6 as u8, address.octets().to_vec()),
    }
}

impl Administration {
    /// Opens a socket that hears of the changes of some groups (RTNLGRP_*).
    ///
    /// # Panics
    /// Panics if the system refuses it.
    pub fn new(groups: &[u32]) -> Administration {
        let fd =
            try_socket(libc::AF_NETLINK, SOCK_RAW, NETLINK_ROUTE).expect("a socket of netlink");
        // A socket without a port hears of no change.
        // SAFETY: plain bytes.
        let mut name: libc::sockaddr_nl = unsafe { zeroed() };
        name.nl_family = libc::AF_NETLINK as u16;
        let length = size_of_val(&name) as u32;
        // SAFETY: the name lives until the call ends.
        must(unsafe { libc::bind(fd, (&raw const name).cast(), length) });
        for (option, value) in [(CAP_ACK, 1), (EXT_ACK, 1)] {
            super::set(fd, libc::SOL_NETLINK, option, value).expect("an option of netlink");
        }
        for group in groups {
            let joined = super::set(fd, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, *group);
            joined.expect("a group of netlink");
        }
        Administration { fd }
    }
    /// Sets an option of SOL_NETLINK.
    ///
    /// # Panics
    /// Panics if the system refuses it.
    pub fn set_option(&self, option: i32, value: i32) {
        super::set(self.fd, libc::SOL_NETLINK, option, value).expect("an option of netlink");
    }
    fn send(&self, kind: u16, flags: i32, body: &[u8]) {
        let mut bytes = (HEAD as u32 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags as u16 | NLM_F_REQUEST as u16).to_ne_bytes());
        bytes.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(body);
        super::send(self.fd, &bytes, 0).expect("a message to the system");
    }
    /// Receives a datagram, and returns its messages.
    ///
    /// # Panics
    /// Panics at a message with a wrong length.
    pub fn receive(&self) -> Vec<Message> {
        let bytes = super::receive(self.fd, ROOM, 0).expect("a message of the system");
        let mut rest = bytes.as_slice();
        let mut all = Vec::new();
        while let Some(head) = rest.get(..HEAD) {
            let length = u32::from_ne_bytes(head[..4].try_into().expect("four bytes")) as usize;
            let two = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
            all.push((two(4), two(6), rest[HEAD..length].to_vec()));
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        all
    }
    /// Returns whether something waits to be received.
    pub fn has_news(&self) -> bool {
        super::polled(self.fd, libc::POLLIN) & libc::POLLIN != 0
    }
    /// Makes a request and waits for its acknowledgement.
    ///
    /// # Errors
    /// The error number, and the text if the system gave one.
    ///
    /// # Panics
    /// Panics if the answer is no acknowledgement.
    pub fn act(&self, kind: u16, flags: i32, body: &[u8]) -> Result<(), Refusal> {
        self.send(kind, flags | NLM_F_ACK, body);
        let answers = self.receive();
        let [(kind, flags, body)] = answers.as_slice() else { panic!("{answers:?}") };
        assert_eq!(i32::from(*kind), libc::NLMSG_ERROR, "{answers:?}");
        settle(body, if flags & ACK_TEXTS != 0 { ERROR_HEAD - HEAD } else { body.len() })
    }
    /// Asks for one object.
    ///
    /// # Errors
    /// The error number, and the text if the system gave one.
    ///
    /// # Panics
    /// Panics if there is no answer.
    pub fn get(&self, kind: u16, body: &[u8]) -> Result<Message, Refusal> {
        self.send(kind, 0, body);
        let answer = self.receive().into_iter().next().expect("an answer");
        if i32::from(answer.0) == libc::NLMSG_ERROR {
            let (_, flags, body) = &answer;
            let texts = if flags & ACK_TEXTS != 0 { ERROR_HEAD - HEAD } else { body.len() };
            settle(body, texts)?;
        }
        Ok(answer)
    }
    /// Asks for all objects of a kind.
    ///
    /// # Errors
    /// The error number that ended the dump, and the text if the system gave one.
    pub fn dump(&self, kind: u16, body: &[u8]) -> Result<Vec<Message>, Refusal> {
        self.send(kind, NLM_F_DUMP, body);
        let mut all = Vec::new();
        loop {
            for (kind, flags, body) in self.receive() {
                match i32::from(kind) {
                    libc::NLMSG_DONE => {
                        let texts = if flags & ACK_TEXTS != 0 { 4 } else { body.len() };
                        return settle(&body, texts).map(|()| all);
                    }
                    libc::NLMSG_ERROR => settle(&body, body.len())?,
                    _ => all.push((kind, flags, body)),
                }
            }
        }
    }
}

/// Returns the result that an acknowledgement tells, whose texts begin at `texts`.
fn settle(body: &[u8], texts: usize) -> Result<(), Refusal> {
    let number = i32::from_ne_bytes(body[..4].try_into().expect("four bytes"));
    if number == 0 {
        return Ok(());
    }
    let text = value(body, texts, 1).unwrap_or_default();
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    Err((-number, String::from_utf8_lossy(text).into_owned()))
}

impl Drop for Administration {
    fn drop(&mut self) {
        close(self.fd);
    }
}
