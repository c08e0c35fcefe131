//! msgget, msgsnd, msgrcv, msgctl (handlers of [`objects::ipc::message`]).
use super::entry::Entry;
use linux_raw_sys::general as raw;
use objects::ipc::{
    NO_WAIT, Who,
    layout::{RawQueue, RawQueueLimits},
    limits,
    message::{self, Body},
    registry::Stat,
};
use process::{Task, call::Call};
use sysv::messages::{MessageChoice, Receive};
use vfs::Errno;

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_msgget, "msgget", msgget),
    Entry::whole(raw::__NR_msgsnd, "msgsnd", msgsnd),
    Entry::whole(raw::__NR_msgrcv, "msgrcv", msgrcv),
    Entry::whole(raw::__NR_msgctl, "msgctl", msgctl),
];

const MSG_NOERROR: i32 = 0o10000;
const MSG_EXCEPT: i32 = 0o20000;
const MSG_COPY: i32 = 0o40000;

const IPC_RMID: i32 = 0;
const IPC_SET: i32 = 1;
const IPC_STAT: i32 = 2;
const IPC_INFO: i32 = 3;
const MSG_STAT: i32 = 11;
const MSG_INFO: i32 = 12;
const MSG_STAT_ANY: i32 = 13;

/// Bytes of a message's type, which come before the message's own.
const KIND_BYTES: u64 = size_of::<i64>() as u64;

fn msgget(call: &mut Call<'_>) -> Result<u64, Errno> {
    message::obtain(call.task, (call.int(0), call.int(1))).map(|id| id as u64)
}

fn msgsnd(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (id, address, length, flags) = (call.int(0), call.word(1), call.word(2), call.int(3));
    let kind: i64 = call.memory.read(address)?;
    if length > limits::MESSAGE_BYTES.get() || id < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    let bytes = call.memory.read_array::<u8>(address.wrapping_add(KIND_BYTES), length as usize)?;
    message::send(call.task, id, Body::message(call.task, kind, bytes)?, flags).map(|()| 0)
}

fn msgrcv(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (id, address, kind, flags) = (call.int(0), call.word(1), call.word(3) as i64, call.int(4));
    let room = i64::try_from(call.word(2)).map_err(|_| Errno::EINVAL)? as usize;
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let may_cut = flags & MSG_NOERROR != 0;
    if flags & MSG_COPY != 0 {
        if flags & MSG_EXCEPT != 0 || flags & NO_WAIT == 0 {
            return Err(Errno::EINVAL);
        }
        // Linux reads the program's buffer for the copy, before it looks the queue up.
        let most = room.min(limits::MESSAGE_BYTES.get() as usize);
        call.memory.read_array::<u8>(address, most)?;
        let (kind, bytes) = message::copy(call.task, id, kind, (room, may_cut))?;
        call.memory.write(address, &kind)?;
        call.memory.write_bytes(address.wrapping_add(KIND_BYTES), &bytes)?;
        return Ok(bytes.len() as u64);
    }
    let wanted = match flags & MSG_EXCEPT {
        0 => MessageChoice::decode(kind),
        _ => MessageChoice::decode_except(kind),
    };
    let receive = Receive { wanted, room: if may_cut { usize::MAX } else { room } };
    let message = message::receive(call.task, id, receive, flags)?;
    let bytes = message.body.bytes.get(..room).unwrap_or(&message.body.bytes);
    put(call, address, message.kind, bytes)
}

/// Copies a message that was removed to the program. If its address is bad, the message is lost, as on Linux.
fn put(call: &Call<'_>, address: u64, kind: i64, bytes: &[u8]) -> Result<u64, Errno> {
    call.memory.commit(address, &kind)?;
    call.memory.commit_bytes(address.wrapping_add(KIND_BYTES), bytes)?;
    Ok(bytes.len() as u64)
}

fn msgctl(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (id, command, address) = (call.int(0), call.int(1), call.word(2));
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL);
    }
    let who = Who::of(call.task);
    match command {
        IPC_INFO | MSG_INFO => {
            let highest = message::registry().highest(&who);
            call.memory.write(address, &info(command, call.task))?;
            Ok(highest)
        }
        IPC_STAT => stat(call, &who, Stat::Identifier),
        MSG_STAT => stat(call, &who, Stat::Index),
        MSG_STAT_ANY => stat(call, &who, Stat::AnyIndex),
        IPC_SET => {
            let wanted: RawQueue = call.memory.read(address)?;
            message::set(id, &who, &wanted).map(|()| 0)
        }
        IPC_RMID => message::remove(id, &who).map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}

fn stat(call: &Call<'_>, who: &Who, stat: Stat) -> Result<u64, Errno> {
    let (queue, answer) = message::registry().stat(call.int(0), stat, who)?;
    call.memory.write(call.word(2), &queue.report())?;
    Ok(answer)
}

/// Returns `struct msginfo`: the limits; for MSG_INFO with present sums, as `task` sees them, instead of three of them.
fn info(command: i32, task: &Task) -> RawQueueLimits {
    const SEGMENT_BYTES: i32 = 16;
    const SEGMENTS: u16 = 0xffff;
    let queue_bytes = limits::QUEUE_BYTES.default() as i32;
    let pool_kib = limits::QUEUES.default() as i32 * (queue_bytes / 1024);
    let (pool, map, headers) = match command {
        MSG_INFO => {
            let (messages, bytes) = message::sums(task);
            (message::registry().shown_to(task).len() as i32, messages as i32, bytes as i32)
        }
        _ => (pool_kib, queue_bytes, queue_bytes),
    };
    RawQueueLimits {
        pool,
        map,
        message_bytes: limits::MESSAGE_BYTES.get() as i32,
        queue_bytes: limits::QUEUE_BYTES.get() as i32,
        queues: limits::QUEUES.get() as i32,
        segment_bytes: SEGMENT_BYTES,
        headers,
        segments: SEGMENTS,
        padding: 0,
    }
}
