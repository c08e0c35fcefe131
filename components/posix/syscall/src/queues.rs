//! mq_open and its relatives (handlers of [`objects::ipc::queue`]).
use super::entry::Entry;
use alloc::sync::Arc;
use interfaces::monitor::ObjectAccess;
use linux_raw_sys::general as raw;
use objects::ipc::queue::{
    self, Notify, PosixQueue, QueueFile, Shape, Times, Wait, directory::QueueNode,
};
use process::{
    call::Call,
    files::{OnExec, Scope, install::reserve},
    signal,
    time::clock::Timespec,
};
use sysv::prioritized::PRIORITIES;
use vfs::{
    Base, Errno, NAME_MAX, OpenFile, PATH_MAX, Path,
    generated::Node,
    permission::{self, Want},
    security,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_mq_open, "mq_open", mq_open),
    Entry::whole(raw::__NR_mq_unlink, "mq_unlink", mq_unlink),
    Entry::whole(raw::__NR_mq_timedsend, "mq_timedsend", mq_timedsend),
    Entry::whole(raw::__NR_mq_timedreceive, "mq_timedreceive", mq_timedreceive),
    Entry::partial(
        raw::__NR_mq_notify,
        "mq_notify",
        "SIGEV_THREAD, which needs netlink (libc: ENOSYS)",
        mq_notify,
    ),
    Entry::whole(raw::__NR_mq_getsetattr, "mq_getsetattr", mq_getsetattr),
];

/// `struct mq_attr`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawShape {
    flags: i64,
    messages: i64,
    bytes: i64,
    count: i64,
    reserved: [i64; 4],
}

/// The first words of `struct sigevent`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawEvent {
    value: u64,
    signal: i32,
    notify: i32,
    rest: [u64; 6],
}

const SIGEV_SIGNAL: i32 = 0;
const SIGEV_NONE: i32 = 1;
const SIGEV_THREAD: i32 = 2;
/// Bytes that the kernel sends back for SIGEV_THREAD.
const COOKIE_BYTES: usize = 32;

/// Returns the name at argument 0; it is looked up in the directory of queues only.
fn name(call: &Call<'_>) -> Result<memory::Text, Errno> {
    let name = call.memory.read_text(call.word(0), PATH_MAX)?;
    if name.is_empty() { Err(Errno::ENOENT) } else { Ok(name) }
}

/// Checks that `name` can be looked up in the directory of queues.
fn check_name(name: &[u8], directory: &Path, scope: &Scope<'_>) -> Result<(), Errno> {
    if matches!(name, b"." | b"..") || name.contains(&b'/') {
        return Err(Errno::EACCES);
    }
    permission::check(directory.vnode(), scope.credentials(), Want::EXECUTE)?;
    if name.len() > NAME_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}

fn mq_open(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (flags, mode) = (call.uint(1), super::open::mode(call.uint(2)));
    let shape = match call.word(3) {
        0 => Shape::usual(),
        address => {
            let raw: RawShape = call.memory.read(address)?;
            Shape { messages: raw.messages, bytes: raw.bytes }
        }
    };
    let name = name(call)?;
    let descriptor = reserve(call.task, call.files, OnExec::Close)?;
    let (scope, directory) = (Scope::of(call.task), queue::place()?);
    check_name(&name, &directory, &scope)?;
    let queue = match queue::directory()?.find(&name, call.caller()) {
        Some(queue) => open_existing(queue, &directory, &scope, flags)?,
        None if flags & raw::O_CREAT == 0 => return Err(Errno::ENOENT),
        None => {
            permission::check_create(directory.vnode(), scope.credentials())?;
            let permissions = mode & !scope.caller().umask;
            queue::directory()?.make(call.task, &name, permissions, shape)?
        }
    };
    // The queue may have been made: a refusal must not repeat the call, which O_EXCL would end with EEXIST.
    let place = vfs::committed(|| place_of(&queue, &directory, &name))?;
    Ok(descriptor.fill(OpenFile::new(Arc::new(QueueFile::new(queue)), place, flags)))
}

/// Returns the path of a queue; the name in `directory` may belong to another queue meanwhile.
fn place_of(queue: &Arc<PosixQueue>, directory: &Path, name: &[u8]) -> Result<Path, Errno> {
    let node: Arc<dyn Node> = Arc::new(QueueNode::new(queue.clone()));
    directory.generated_child(name, node)
}

fn open_existing(
    queue: Arc<PosixQueue>,
    directory: &Path,
    scope: &Scope<'_>,
    flags: u32,
) -> Result<Arc<PosixQueue>, Errno> {
    const EXCLUSIVE: u32 = raw::O_CREAT | raw::O_EXCL;
    if flags & EXCLUSIVE == EXCLUSIVE {
        return Err(Errno::EEXIST);
    }
    let want = match flags & raw::O_ACCMODE {
        raw::O_RDONLY => Want::READ,
        raw::O_WRONLY => Want::WRITE,
        raw::O_RDWR => Want::READ | Want::WRITE,
        _ => return Err(Errno::EINVAL),
    };
    let place = place_of(&queue, directory, b"queue")?;
    permission::check(place.vnode(), scope.credentials(), want)?;
    Ok(queue)
}

fn mq_unlink(call: &mut Call<'_>) -> Result<u64, Errno> {
    let name = name(call)?;
    let (scope, directory) = (Scope::of(call.task), queue::place()?);
    check_name(&name, &directory, &scope)?;
    scope.caller().unlink(Base::At(&directory), &name)?;
    Ok(0)
}

/// Returns the queue open at argument 0. Even a call that receives or asks for a notice changes it, so that its label must allow
/// that the caller writes.
fn opened(call: &Call<'_>) -> Result<Arc<OpenFile>, Errno> {
    let file = call.files.get(call.int(0))?;
    queue_of(&file)?;
    if security::is_enforced() {
        file.vnode().admit(&call.task.credentials(), ObjectAccess::Write)?;
    }
    Ok(file)
}

fn queue_of(file: &OpenFile) -> Result<&PosixQueue, Errno> {
    let open = file.file().as_any().downcast_ref::<QueueFile>();
    open.map(QueueFile::queue).ok_or(Errno::EBADF)
}

/// Returns the time limit at argument 4; a null address means that there is none.
fn wait(call: &Call<'_>) -> Result<Wait, Errno> {
    match call.word(4) {
        0 => Ok(Wait::ForEver),
        address => Ok(Wait::Until(call.memory.read::<Timespec>(address)?.to_ns()?)),
    }
}

/// Returns `wait`, or no wait if the queue was opened non-blocking.
fn of_open(file: &OpenFile, wait: Wait) -> Wait {
    if file.flags() & raw::O_NONBLOCK != 0 { Wait::Not } else { wait }
}

fn mq_timedsend(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (address, length) = (call.word(1), call.word(2));
    let wait = wait(call)?;
    let priority = call.uint(3);
    if priority >= PRIORITIES {
        return Err(Errno::EINVAL);
    }
    let file = opened(call)?;
    let queue = queue_of(&file)?;
    if !file.is_writable() {
        return Err(Errno::EBADF);
    }
    if length > queue.shape().bytes as u64 {
        return Err(Errno::EMSGSIZE);
    }
    let bytes = call.memory.read_array::<u8>(address, length as usize)?;
    queue.send(call.task, priority, bytes, of_open(&file, wait)).map(|()| 0)
}

fn mq_timedreceive(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (address, room, priority_at) = (call.word(1), call.word(2), call.word(3));
    let wait = wait(call)?;
    let file = opened(call)?;
    let queue = queue_of(&file)?;
    if !file.is_readable() {
        return Err(Errno::EBADF);
    }
    if room < queue.shape().bytes as u64 {
        return Err(Errno::EMSGSIZE);
    }
    let (priority, bytes) = queue.receive(call.task, of_open(&file, wait))?;
    // The message was removed. As on Linux, it is lost if an address is bad.
    if priority_at != 0 {
        call.memory.commit(priority_at, &priority)?;
    }
    call.memory.commit_bytes(address, &bytes)?;
    Ok(bytes.len() as u64)
}

fn mq_notify(call: &mut Call<'_>) -> Result<u64, Errno> {
    let notify = match call.word(1) {
        0 => None,
        address => Some(read_notify(call, address)?),
    };
    let file = opened(call)?;
    queue_of(&file)?.notify(call.task, notify)?;
    Ok(0)
}

fn read_notify(call: &Call<'_>, address: u64) -> Result<Notify, Errno> {
    let event: RawEvent = call.memory.read(address)?;
    match event.notify {
        SIGEV_NONE => Ok(Notify::Nothing),
        SIGEV_SIGNAL => match u8::try_from(event.signal) {
            Ok(number) if number <= signal::LAST => Ok(Notify::Signal(number, event.value)),
            _ => Err(Errno::EINVAL),
        },
        SIGEV_THREAD => {
            call.memory.read::<[u8; COOKIE_BYTES]>(event.value)?;
            // The descriptor is to be a netlink socket, which do not exist here.
            let file = call.files.get(event.signal)?;
            let is_socket = objects::socket::of(&file).is_some();
            Err(if is_socket { Errno::EINVAL } else { Errno::ENOTSOCK })
        }
        _ => Err(Errno::EINVAL),
    }
}

fn mq_getsetattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (new_at, old_at) = (call.word(1), call.word(2));
    let new = match new_at {
        0 => None,
        address => Some(call.memory.read::<RawShape>(address)?),
    };
    let settable = i64::from(raw::O_NONBLOCK);
    if new.is_some_and(|new| new.flags & !settable != 0) {
        return Err(Errno::EINVAL);
    }
    let file = opened(call)?;
    let queue = queue_of(&file)?;
    let shape = queue.shape();
    let old = RawShape {
        flags: i64::from(file.flags() & raw::O_NONBLOCK),
        messages: shape.messages,
        bytes: shape.bytes,
        count: queue.count() as i64,
        reserved: [0; 4],
    };
    if let Some(new) = new {
        let others = file.flags() & !raw::O_NONBLOCK;
        file.set_flags(others | new.flags as u32);
        queue.touch(Times::Access);
    }
    if old_at != 0 {
        call.memory.commit(old_at, &old)?;
    }
    Ok(0)
}
