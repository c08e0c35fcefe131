//! Messages in the format of programs: `struct msghdr` and the control data beside the bytes (cmsg(3)).
use super::socket::{Opened, read_address, write_within};
use alloc::{sync::Arc, vec, vec::Vec};
use core::sync::atomic::Ordering;
use linux_raw_sys::net;
use memory::{AddressSpace, Room, UserSink, UserSource, transfer::BUFFERS_MAX};
use objects::socket::{
    SocketAddress,
    interface::{CONTROL_HEAD, Identity, Outgoing, Receive, Received, Send, control_items},
    local::rights::RIGHTS_MAX,
};
use process::{
    Task,
    call::Call,
    files::{OnExec, arrival, install::reserve},
};
use vfs::{Capabilities, Errno, OpenFile, security::Label};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `struct msghdr`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Header {
    name: u64,
    name_length: i32,
    padding: u32,
    buffers: u64,
    buffer_count: u64,
    control: u64,
    control_length: u64,
    flags: u32,
    rest: u32,
}

const _: () = assert!(size_of::<Header>() == 56);

/// `struct cmsghdr`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct ControlHeader {
    length: u64,
    level: i32,
    kind: i32,
}

const CONTROL_BYTES: usize = size_of::<ControlHeader>();
const _: () = assert!(CONTROL_BYTES == CONTROL_HEAD);
/// Flags that the bindings of the kernel's headers lack.
const MSG_ZEROCOPY: u32 = 0x400_0000;
const MSG_FASTOPEN: u32 = 0x2000_0000;
/// AF_UNIX.
const LOCAL: u16 = net::AF_UNIX as u16;
/// AF_NETLINK.
const NETLINK: u16 = net::AF_NETLINK as u16;
/// The greatest number of bytes of control data that may be sent (`net.core.optmem_max`).
const CONTROL_MAX: usize = 20_480;
const SCM_RIGHTS: i32 = net::SCM_RIGHTS as i32;
const SCM_SECURITY: i32 = net::SCM_SECURITY as i32;
const SCM_CREDENTIALS: i32 = net::SCM_CREDENTIALS as i32;
const SOL_SOCKET: i32 = net::SOL_SOCKET as i32;

/// Sends the bytes of `source`, with the `MSG_` flags `flags`.
///
/// # Errors
/// As [`objects::socket::Socket::send`].
pub fn send(
    call: &Call<'_>,
    opened: &Opened,
    source: &mut UserSource<'_>,
    (message, flags): (Outgoing<'_>, u32),
) -> Result<u64, Errno> {
    let how = Send {
        is_nonblocking: opened.is_nonblocking(flags),
        is_silent: flags & net::MSG_NOSIGNAL != 0,
        is_urgent: flags & net::MSG_OOB != 0,
        is_more: flags & net::MSG_MORE != 0,
        is_zero_copy: flags & MSG_ZEROCOPY != 0,
        is_fast_open: flags & MSG_FASTOPEN != 0,
    };
    Ok(opened.socket()?.send(call.task, source, message, how)? as u64)
}

/// Receives bytes to `sink`, and the sender's address to `sender`, with the `MSG_` flags `flags`.
///
/// # Errors
/// As [`objects::socket::Socket::receive`].
pub fn receive(
    opened: &Opened,
    sink: &mut UserSink<'_>,
    flags: u32,
    sender: Option<&mut SocketAddress>,
) -> Result<Received, Errno> {
    let how = Receive {
        is_nonblocking: opened.is_nonblocking(flags),
        is_peek: flags & net::MSG_PEEK != 0,
        is_whole: flags & net::MSG_WAITALL != 0,
        is_urgent: flags & net::MSG_OOB != 0,
        is_discarding: flags & net::MSG_TRUNC != 0,
        is_error_queue: flags & net::MSG_ERRQUEUE != 0,
    };
    opened.socket()?.receive(sink, how, sender)
}

/// Does sendmsg(2).
///
/// # Errors
/// `EMSGSIZE` for too many buffers, `EINVAL`, `EFAULT`, and those of [`send`].
pub fn send_one(
    call: &Call<'_>,
    opened: &Opened,
    header: &Header,
    flags: u32,
) -> Result<u64, Errno> {
    let to = match (header.name, header.name_length) {
        (0, _) | (_, 0) => None,
        (at, length) => {
            Some(read_address(call.memory, at, length.min(SocketAddress::BYTES_MAX as i32))?)
        }
    };
    let mut message = Outgoing { to: to.as_ref(), ..Outgoing::default() };
    if header.buffer_count > BUFFERS_MAX as u64 {
        return Err(Errno::EMSGSIZE);
    }
    let mut room = Room::default();
    let count = header.buffer_count as usize;
    let buffers = call.memory.read_iovecs(header.buffers, count, &mut room)?;
    let mut source = UserSource::vectored(call.caller(), call.memory, buffers);
    let control = read_control(call, header)?;
    match opened.socket()?.family() {
        family @ (LOCAL | NETLINK) => pass_control(call, family, &control, &mut message)?,
        _ => message.control = &control,
    }
    send(call, opened, &mut source, (message, flags))
}

fn read_control(call: &Call<'_>, header: &Header) -> Result<Vec<u8>, Errno> {
    if header.control == 0 || header.control_length == 0 {
        return Ok(Vec::new());
    }
    let length = usize::try_from(header.control_length).ok().filter(|all| *all <= CONTROL_MAX);
    let mut bytes = vec![0; length.ok_or(Errno::ENOBUFS)?];
    call.memory.read_bytes(header.control, &mut bytes)?;
    Ok(bytes)
}

/// Reads the control messages of a family whose messages tell their sender. Descriptors go with those of AF_UNIX alone.
fn pass_control(
    call: &Call<'_>,
    family: u16,
    bytes: &[u8],
    message: &mut Outgoing<'_>,
) -> Result<(), Errno> {
    for item in control_items(bytes) {
        let item = item?;
        match (item.level, item.kind) {
            (SOL_SOCKET, SCM_RIGHTS) if family == LOCAL => {
                add_files(call, item.data, &mut message.files)?
            }
            (SOL_SOCKET, SCM_CREDENTIALS) => {
                message.identity = Some(check_identity(call.task, item.data)?);
            }
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            _ => {}
        }
    }
    Ok(())
}

fn add_files(call: &Call<'_>, data: &[u8], files: &mut Vec<Arc<OpenFile>>) -> Result<(), Errno> {
    let numbers = data.chunks_exact(size_of::<i32>());
    if files.len() + numbers.len() > RIGHTS_MAX {
        return Err(Errno::EINVAL);
    }
    for number in numbers {
        let number = number.try_into().map_err(|_| Errno::EINVAL)?;
        files.push(call.files.get(i32::from_le_bytes(number))?);
    }
    Ok(())
}

/// Checks the identity that a program states; one that is not its own needs the right to state it.
fn check_identity(task: &Task, data: &[u8]) -> Result<Identity, Errno> {
    let [process, user, group] = <[u32; 3]>::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
    let who = task.credentials();
    let is_own = process == task.process.id() || who.has(Capabilities::SYS_ADMIN);
    let (users, groups) = (&who.user, &who.group);
    let is_user = [users.real, users.effective, users.saved].contains(&user);
    let is_group = [groups.real, groups.effective, groups.saved].contains(&group);
    let may = is_own
        && (is_user || who.has(Capabilities::SETUID))
        && (is_group || who.has(Capabilities::SETGID));
    if !may {
        return Err(Errno::EPERM);
    }
    if process != task.process.id() && task.visible().process(process).is_none() {
        return Err(Errno::ESRCH);
    }
    Ok(Identity { process, user, group })
}

/// Does recvmsg(2) with the `struct msghdr` at `at`.
///
/// # Errors
/// `EMSGSIZE` for too many buffers, `EINVAL`, `EFAULT`, and those of [`receive`].
pub fn receive_one(call: &Call<'_>, opened: &Opened, at: u64, flags: u32) -> Result<u64, Errno> {
    let header: Header = call.memory.read(at)?;
    if header.name_length < 0 {
        return Err(Errno::EINVAL);
    }
    if header.buffer_count > BUFFERS_MAX as u64 {
        return Err(Errno::EMSGSIZE);
    }
    let mut room = Room::default();
    let count = header.buffer_count as usize;
    let buffers = call.memory.read_iovecs(header.buffers, count, &mut room)?;
    let mut sink = UserSink::vectored(call.caller(), call.memory, buffers);
    let mut sender = SocketAddress::NONE;
    let wanted = (header.name != 0).then_some(&mut sender);
    let found = receive(opened, &mut sink, flags, wanted)?;
    let mut told = Header { flags: flags & net::MSG_CMSG_CLOEXEC | found.flags, ..header };
    if found.length > found.count {
        told.flags |= net::MSG_TRUNC;
    }
    if header.name != 0 {
        let tell = || tell_name(call.memory, &header, &sender);
        told.name_length = vfs::committed(tell)?;
    }
    let length = if flags & net::MSG_TRUNC != 0 { found.length } else { found.count };
    let socket = opened.socket()?;
    let options = &socket.common().options;
    let tells = matches!(socket.family(), LOCAL | NETLINK);
    let passes = tells && options.passes_identity.load(Ordering::Relaxed);
    let mut control = ControlPart { memory: call.memory, header: &mut told, used: 0 };
    if passes {
        let Identity { process, user, group } = found.identity;
        control.put((SOL_SOCKET, SCM_CREDENTIALS), [process, user, group].as_bytes())?;
    }
    if let Some(text) = found.label.map(Label::text).filter(|text| !text.is_empty()) {
        control.put((SOL_SOCKET, SCM_SECURITY), text)?;
    }
    for item in &found.control {
        control.put((item.level, item.kind), item.data())?;
    }
    if !found.files.is_empty() {
        let on_exec = OnExec::from_flag(flags, net::MSG_CMSG_CLOEXEC);
        control.put_files(call.task, found.files, on_exec)?;
    }
    let used = control.used;
    told.control_length = used;
    call.memory.commit(at, &told)?;
    Ok(length as u64)
}

fn tell_name(memory: &AddressSpace, header: &Header, name: &SocketAddress) -> Result<i32, Errno> {
    let room = usize::try_from(header.name_length).unwrap_or(0);
    Ok(write_within(memory, header.name, name.bytes(), room)? as i32)
}

/// The control data of a message that a program receives.
struct ControlPart<'a> {
    memory: &'a AddressSpace,
    header: &'a mut Header,
    used: u64,
}

impl ControlPart<'_> {
    /// Returns the address of the next control message, and the number of bytes of room there.
    fn place(&self) -> (u64, usize) {
        let room = match self.header.control {
            0 => 0,
            _ => self.header.control_length.saturating_sub(self.used),
        };
        (self.header.control.wrapping_add(self.used), usize::try_from(room).unwrap_or(usize::MAX))
    }
    fn cut(&mut self) {
        self.header.flags |= net::MSG_CTRUNC;
    }
    /// Adds one item, as much of it as there is room for.
    fn put(&mut self, (level, kind): (i32, i32), data: &[u8]) -> Result<(), Errno> {
        let (at, room) = self.place();
        if room < CONTROL_BYTES {
            self.cut();
            return Ok(());
        }
        let whole = CONTROL_BYTES + data.len();
        let length = whole.min(room);
        if length < whole {
            self.cut();
        }
        let head = ControlHeader { length: length as u64, level, kind };
        self.memory.commit(at, &head)?;
        let data = data.get(..length - CONTROL_BYTES).unwrap_or_default();
        self.memory.commit_bytes(at.wrapping_add(CONTROL_BYTES as u64), data)?;
        self.used += length.next_multiple_of(size_of::<u64>()).min(room) as u64;
        Ok(())
    }
    /// Installs descriptors in the program: those that it may have, as many as there is room for and as have a place for their
    /// numbers; the others are closed. As on Linux, that is no error: the data say that they were cut.
    fn put_files(
        &mut self,
        task: &Task,
        files: Vec<Arc<OpenFile>>,
        on_exec: OnExec,
    ) -> Result<(), Errno> {
        let (at, room) = self.place();
        let most = room.saturating_sub(CONTROL_BYTES) / size_of::<i32>();
        let table = task.files();
        let count = files.len();
        let mut length = CONTROL_BYTES;
        let who = task.credentials();
        let admitted = files.iter().filter_map(|file| arrival::admit(file, &who).ok());
        for file in admitted.take(most) {
            // The message was removed: memory for the descriptor is not refused.
            let next = || reserve(task, &table, on_exec);
            let Ok(descriptor) = rt::memory::with_reserve(next) else { break };
            let told = self.memory.commit(at.wrapping_add(length as u64), &descriptor.number());
            if told.is_err() {
                break;
            }
            descriptor.fill(file);
            length += size_of::<i32>();
        }
        let installed = (length - CONTROL_BYTES) / size_of::<i32>();
        if installed < count {
            self.cut();
        }
        if installed == 0 {
            return Ok(());
        }
        let head = ControlHeader { length: length as u64, level: SOL_SOCKET, kind: SCM_RIGHTS };
        // Linux goes on without the head as well.
        if self.memory.commit(at, &head).is_ok() {
            self.used += length.next_multiple_of(size_of::<u64>()).min(room) as u64;
        }
        Ok(())
    }
}
