//! Messages with several parts, names and control messages: sendmsg(2) and recvmsg(2).
use super::{bytes_of, from_raw, to_raw};
use crate::{check, zeroed};
use std::{
    mem::{align_of, size_of},
    net::SocketAddr,
};

/// A level, a type and the bytes of a control message.
pub type Control = (i32, i32, Vec<u8>);

/// Bytes of the largest buffer for control messages here.
const ROOM: usize = 512;

/// A buffer for control messages.
#[repr(C, align(8))]
struct Space([u8; ROOM]);
const _: () = assert!(align_of::<Space>() >= align_of::<libc::cmsghdr>());

/// A received message.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// The bytes.
    pub data: Vec<u8>,
    /// The call's answer, which with MSG_TRUNC may be more than the bytes.
    pub count: usize,
    /// The sender's name, if the call gave one.
    pub from: Option<SocketAddr>,
    /// Control messages.
    pub control: Vec<Control>,
    /// The flags that the call answered.
    pub flags: i32,
}

impl Received {
    /// Returns the bytes of the control message of this level and type.
    pub fn control_of(&self, level: i32, kind: i32) -> Option<&[u8]> {
        let found = self.control.iter().find(|(of, is, _)| (*of, *is) == (level, kind));
        found.map(|(.., bytes)| bytes.as_slice())
    }
    /// Returns the number in the control message of this level and type.
    pub fn number_of(&self, level: i32, kind: i32) -> Option<i32> {
        match self.control_of(level, kind)? {
            [one] => Some((*one).into()),
            bytes => Some(i32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)),
        }
    }
}

/// Returns a control message that holds a number.
pub fn number_control(level: i32, kind: i32, number: i32) -> Control {
    (level, kind, number.to_ne_bytes().to_vec())
}

/// Writes control messages into `space`. Returns their length.
fn fill(space: &mut Space, control: &[Control]) -> usize {
    let mut at = 0;
    for (level, kind, bytes) in control {
        // SAFETY: plain numbers.
        let length = unsafe { libc::CMSG_LEN(bytes.len() as u32) } as usize;
        space.0[at..at + 8].copy_from_slice(&length.to_ne_bytes());
        space.0[at + 8..at + 12].copy_from_slice(&level.to_ne_bytes());
        space.0[at + 12..at + 16].copy_from_slice(&kind.to_ne_bytes());
        space.0[at + 16..at + 16 + bytes.len()].copy_from_slice(bytes);
        // SAFETY: plain numbers.
        at += unsafe { libc::CMSG_SPACE(bytes.len() as u32) } as usize;
    }
    at
}

/// Sends the parts as one message, with a name and control messages.
///
/// # Errors
/// The error number.
pub fn send_message(
    fd: i32,
    parts: &[&[u8]],
    to: Option<SocketAddr>,
    control: &[Control],
    flags: i32,
) -> Result<usize, i32> {
    let mut space = Space([0; ROOM]);
    let mut entries: Vec<libc::iovec> = parts
        .iter()
        .map(|part| libc::iovec { iov_base: part.as_ptr() as *mut _, iov_len: part.len() })
        .collect();
    // SAFETY: plain numbers and null pointers.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = entries.as_mut_ptr();
    header.msg_iovlen = entries.len() as _;
    let mut raw = to.map(|to| to_raw(&to));
    if let Some((raw, length)) = &mut raw {
        header.msg_name = (raw as *mut libc::sockaddr_storage).cast();
        header.msg_namelen = *length;
    }
    if !control.is_empty() {
        header.msg_controllen = fill(&mut space, control) as _;
        header.msg_control = (&raw mut space).cast();
    }
    // SAFETY: all that the header names lives here.
    check(unsafe { libc::sendmsg(fd, &raw const header, flags) } as i64).map(|count| count as usize)
}

/// Receives a message into parts of these sizes, with `room` bytes for control messages.
///
/// # Errors
/// The error number.
pub fn receive_parts(
    fd: i32,
    sizes: &[usize],
    room: usize,
    flags: i32,
) -> Result<(Received, Vec<Vec<u8>>), i32> {
    assert!(room <= ROOM, "room for control messages");
    let mut space = Space([0; ROOM]);
    let mut parts: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
    let mut entries: Vec<libc::iovec> = parts
        .iter_mut()
        .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
        .collect();
    // SAFETY: plain bytes.
    let mut raw: libc::sockaddr_storage = unsafe { zeroed() };
    // SAFETY: plain numbers and null pointers.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = (&raw mut raw).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
    header.msg_iov = entries.as_mut_ptr();
    header.msg_iovlen = entries.len() as _;
    header.msg_control = (&raw mut space).cast();
    header.msg_controllen = room as _;
    // SAFETY: all that the header names lives here.
    let count = check(unsafe { libc::recvmsg(fd, &raw mut header, flags) } as i64)? as usize;
    let held = sizes.iter().sum::<usize>().min(count);
    let mut data = parts.concat();
    data.truncate(held);
    let from = from_raw(bytes_of(&raw, header.msg_namelen));
    let control = found(&header);
    Ok((Received { data, count, from, control, flags: header.msg_flags }, parts))
}

/// Returns the control messages of a received header.
fn found(header: &libc::msghdr) -> Vec<Control> {
    let mut control = Vec::new();
    // SAFETY: the header names a buffer that the kernel filled in.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !at.is_null() {
        // SAFETY: a whole header, as CMSG_FIRSTHDR and CMSG_NXTHDR check.
        let head = unsafe { at.read() };
        // SAFETY: plain numbers.
        let length = head.cmsg_len as usize - unsafe { libc::CMSG_LEN(0) } as usize;
        // SAFETY: the bytes lie behind the header.
        let data = unsafe { libc::CMSG_DATA(at) };
        // SAFETY: as long as the kernel says.
        let bytes = unsafe { std::slice::from_raw_parts(data, length) }.to_vec();
        control.push((head.cmsg_level, head.cmsg_type, bytes));
        // SAFETY: the header is the one that `at` lies in.
        at = unsafe { libc::CMSG_NXTHDR(header, at) };
    }
    control
}

/// Receives a message of up to `most` bytes, with room for all control messages.
///
/// # Errors
/// The error number.
pub fn receive_message(fd: i32, most: usize, flags: i32) -> Result<Received, i32> {
    receive_parts(fd, &[most], ROOM, flags).map(|(received, _)| received)
}
