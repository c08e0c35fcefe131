//! Filters of sockets (socket(7)): SO_ATTACH_FILTER, SO_DETACH_FILTER, SO_LOCK_FILTER, SO_ATTACH_BPF and SO_GET_FILTER.
use alloc::sync::Arc;
use bpf::{INSTRUCTIONS_MAX, PacketProgram};
use linux_raw_sys::net;
use objects::socket::Socket;
use process::call::Call;
use vfs::Errno;
use zerocopy::IntoBytes;

/// Bytes of `struct sock_fprog`: a count in 16 bits, and the address of the program eight bytes further.
const PROGRAM_BYTES: usize = 16;
/// The most memory of a filter, in bytes (`net.core.optmem_max`).
const MEMORY_MAX: usize = 20_480;

/// Sets an option that concerns filters; `None` if `option` is another.
pub fn set(
    call: &Call<'_>,
    socket: &dyn Socket,
    (option, value): (u32, i32),
    length: usize,
) -> Option<Result<(), Errno>> {
    Some(match option {
        net::SO_ATTACH_FILTER => attach(call, socket, length),
        net::SO_DETACH_FILTER => detach(socket),
        net::SO_ATTACH_BPF => attach_by_descriptor(call, socket, value, length),
        net::SO_LOCK_FILTER if value == 0 && is_locked(socket) => Err(Errno::EPERM),
        _ => return None,
    })
}

fn is_locked(socket: &dyn Socket) -> bool {
    socket.common().options.is_kept(net::SO_LOCK_FILTER)
}

fn check_lock(socket: &dyn Socket) -> Result<(), Errno> {
    if is_locked(socket) { Err(Errno::EPERM) } else { Ok(()) }
}

/// Reads the classic program that `struct sock_fprog` names, whose `length` bytes are the value of an option.
///
/// # Errors
/// `EINVAL`, `ENOMEM` for one that is too long, `EFAULT`.
pub fn read_program(call: &Call<'_>, length: usize) -> Result<Arc<PacketProgram>, Errno> {
    if length != PROGRAM_BYTES {
        return Err(Errno::EINVAL);
    }
    let [count, program] = call.memory.read::<[u64; 2]>(call.word(3))?;
    let count = usize::from(count as u16);
    if program == 0 || !(1..=INSTRUCTIONS_MAX).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let words = call.memory.read_array::<u64>(program, count)?;
    let program = PacketProgram::new(&words).map_err(|_| Errno::EINVAL)?;
    if program.memory() > MEMORY_MAX {
        return Err(Errno::ENOMEM);
    }
    Ok(Arc::new(program))
}

fn attach(call: &Call<'_>, socket: &dyn Socket, length: usize) -> Result<(), Errno> {
    if length == PROGRAM_BYTES && is_locked(socket) {
        call.memory.read::<[u64; 2]>(call.word(3))?;
        return Err(Errno::EPERM);
    }
    let before = socket.set_filter(Some(read_program(call, length)?));
    drop(before);
    Ok(())
}

fn detach(socket: &dyn Socket) -> Result<(), Errno> {
    check_lock(socket)?;
    socket.set_filter(None).map(drop).ok_or(Errno::ENOENT)
}

/// Refuses a program of the extended language, of which there are none: no descriptor is one.
fn attach_by_descriptor(
    call: &Call<'_>,
    socket: &dyn Socket,
    descriptor: i32,
    length: usize,
) -> Result<(), Errno> {
    if length != size_of::<i32>() {
        return Err(Errno::EINVAL);
    }
    check_lock(socket)?;
    call.files.get(descriptor)?;
    Err(Errno::EINVAL)
}

/// Does SO_GET_FILTER: copies the instructions to a program that has room for `room` of them, and tells their number. Without
/// room it only tells the number.
///
/// # Errors
/// `EINVAL` for too little room, `EFAULT`.
pub fn get(call: &Call<'_>, socket: &dyn Socket, room: usize) -> Result<u64, Errno> {
    let program = socket.common().filter.get();
    let words = program.as_ref().map_or(&[][..], |program| program.words());
    if room > 0 {
        if room < words.len() {
            return Err(Errno::EINVAL);
        }
        call.memory.commit_bytes(call.word(3), words.as_bytes())?;
    }
    call.memory.commit(call.word(4), &(words.len() as i32))?;
    Ok(0)
}
