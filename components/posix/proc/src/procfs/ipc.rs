//! `/proc/sysvipc`, and the limits of IPC in `/proc/sys/kernel`.
use super::{
    items::{Item, ItemTable},
    settings::{number, parsed},
};
use alloc::{format, vec::Vec};
use objects::ipc::{
    limits::{self, IpcLimit},
    segment, text,
};
use vfs::Errno;

/// The files of `/proc/sysvipc`.
pub const OBJECTS: ItemTable = &[
    ("msg", Item::Graded(text::messages)),
    ("sem", Item::Graded(text::semaphores)),
    ("shm", Item::Graded(text::segments)),
];

fn set(limit: &IpcLimit, data: &[u8]) -> Result<(), Errno> {
    limit.set(parsed(data)?)
}

/// The file `shmmax`.
pub const SEGMENT_BYTES: Item = Item::Writable(
    || number(limits::SEGMENT_BYTES.get()),
    |data| set(&limits::SEGMENT_BYTES, data),
);
/// The file `shmall`.
pub const SEGMENT_PAGES: Item = Item::Writable(
    || number(limits::SEGMENT_PAGES.get()),
    |data| set(&limits::SEGMENT_PAGES, data),
);
/// The file `shmmni`.
pub const SEGMENTS: Item =
    Item::Writable(|| number(limits::SEGMENTS.get()), |data| set(&limits::SEGMENTS, data));
/// The file `shm_rmid_forced`.
pub const FORCES_REMOVAL: Item =
    Item::Writable(|| number(limits::FORCES_REMOVAL.get()), set_forced_removal);

fn set_forced_removal(data: &[u8]) -> Result<(), Errno> {
    set(&limits::FORCES_REMOVAL, data)?;
    if limits::FORCES_REMOVAL.get() != 0 {
        segment::removal_was_forced();
    }
    Ok(())
}

/// The file `sem`, which has four limits.
pub const SEMAPHORES: Item = Item::Writable(semaphores, set_semaphores);

const OF_SEMAPHORES: [&IpcLimit; 4] =
    [&limits::SEMAPHORES_A_SET, &limits::SEMAPHORES, &limits::OPERATIONS, &limits::SEMAPHORE_SETS];

fn semaphores() -> Vec<u8> {
    let [first, second, third, fourth] = OF_SEMAPHORES.map(IpcLimit::get);
    format!("{first}\t{second}\t{third}\t{fourth}\n").into_bytes()
}

/// Sets as many of the limits as there are numbers; none if one of the numbers is not valid.
fn set_semaphores(data: &[u8]) -> Result<(), Errno> {
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    let numbers: Result<Vec<u64>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|_| Errno::EINVAL)?;
    if numbers.get(3).is_some_and(|sets| *sets > sysv::table::INDICES.into()) {
        return Err(Errno::ERANGE);
    }
    OF_SEMAPHORES.iter().zip(numbers).try_for_each(|(limit, number)| limit.set(number))
}

/// The file `msgmax`.
pub const MESSAGE_BYTES: Item = Item::Writable(
    || number(limits::MESSAGE_BYTES.get()),
    |data| set(&limits::MESSAGE_BYTES, data),
);
/// The file `msgmnb`.
pub const QUEUE_BYTES: Item =
    Item::Writable(|| number(limits::QUEUE_BYTES.get()), |data| set(&limits::QUEUE_BYTES, data));
/// The file `msgmni`.
pub const QUEUES: Item =
    Item::Writable(|| number(limits::QUEUES.get()), |data| set(&limits::QUEUES, data));

/// The files of `/proc/sys/fs/mqueue`.
pub const POSIX_QUEUES: ItemTable = &[
    (
        "msg_default",
        Item::Writable(
            || number(limits::POSIX_MESSAGES_USUAL.get()),
            |data| set(&limits::POSIX_MESSAGES_USUAL, data),
        ),
    ),
    (
        "msg_max",
        Item::Writable(
            || number(limits::POSIX_MESSAGES.get()),
            |data| set(&limits::POSIX_MESSAGES, data),
        ),
    ),
    (
        "msgsize_default",
        Item::Writable(
            || number(limits::POSIX_BYTES_USUAL.get()),
            |data| set(&limits::POSIX_BYTES_USUAL, data),
        ),
    ),
    (
        "msgsize_max",
        Item::Writable(
            || number(limits::POSIX_BYTES.get()),
            |data| set(&limits::POSIX_BYTES, data),
        ),
    ),
    (
        "queues_max",
        Item::Writable(
            || number(limits::POSIX_QUEUES.get()),
            |data| set(&limits::POSIX_QUEUES, data),
        ),
    ),
];
