//! Takes memory of the kernel until something stops it, and says what: `pipes`, `datagrams`, `flight` (full pipes in messages),
//! `files` (files without names in messages), `orphans` (messages whose sender is closed). `cycles` leaves sockets behind that
//! only reach each other, more than memory has room for, and must come to its end.
use std::{env, io};

const MEBIBYTE: i32 = 1 << 20;
const CYCLES: usize = 1000;

type Step = fn() -> io::Result<()>;

fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn pair(kind: i32) -> io::Result<[i32; 2]> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    check(made.into()).map(|_| ends)
}

fn close(descriptors: &[i32]) {
    for &descriptor in descriptors {
        // SAFETY: closes a descriptor that nothing else uses.
        unsafe { libc::close(descriptor) };
    }
}

/// Writes pieces of `bytes` until the descriptor accepts no more.
fn fill(descriptor: i32, bytes: usize) -> io::Result<()> {
    let data = vec![1_u8; bytes];
    loop {
        // SAFETY: the data are that long.
        let written = unsafe { libc::write(descriptor, data.as_ptr().cast(), data.len()) };
        match check(written as i64) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
}

/// Makes a pipe full of bytes.
fn full_pipe() -> io::Result<[i32; 2]> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) }.into())?;
    // SAFETY: a number; where it is refused the pipe stays small.
    unsafe { libc::fcntl(ends[1], libc::F_SETPIPE_SZ, MEBIBYTE) };
    fill(ends[1], 1 << 16)?;
    Ok(ends)
}

/// Sends `descriptors`, one or two, and a byte.
fn send(socket: i32, descriptors: &[i32]) -> io::Result<()> {
    const HEADER_BYTES: usize = 16;
    let kind = libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32;
    let words = descriptors.iter().rev().fold(0, |word, &one| word << 32 | one as u64);
    // A `struct cmsghdr` of 16 bytes, and the descriptors.
    let mut control = [(HEADER_BYTES + size_of_val(descriptors)) as u64, kind, words];
    let mut data = [1_u8];
    let mut byte = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all zeroes are a header without anything.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut byte, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), 24);
    // SAFETY: the header says what there is.
    check(unsafe { libc::sendmsg(socket, &raw const header, libc::MSG_DONTWAIT) } as i64)?;
    Ok(())
}

/// Sends `descriptors` to a new socket whose other end stays open, and closes them.
fn send_away(descriptors: &[i32]) -> io::Result<()> {
    let [sender, _receiver] = pair(libc::SOCK_STREAM)?;
    send(sender, descriptors)?;
    close(descriptors);
    Ok(())
}

fn pipes() -> io::Result<()> {
    full_pipe().map(|_| ())
}

fn datagrams() -> io::Result<()> {
    let [one, other] = pair(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK)?;
    fill(one, 1)?;
    fill(other, 1)
}

fn orphans() -> io::Result<()> {
    let [one, _other] = pair(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    fill(one, 4096)?;
    close(&[one]);
    Ok(())
}

fn flight() -> io::Result<()> {
    send_away(&full_pipe()?)
}

fn files() -> io::Result<()> {
    // SAFETY: a name that ends.
    let file = check(unsafe { libc::memfd_create(c"hog".as_ptr(), 0) }.into())? as i32;
    // SAFETY: numbers.
    check(unsafe { libc::fallocate(file, 0, 0, MEBIBYTE.into()) }.into())?;
    send_away(&[file])
}

fn cycle() -> io::Result<()> {
    let ends = pair(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    send(ends[0], &ends)?;
    fill(ends[0], 4096)?;
    fill(ends[1], 4096)?;
    close(&ends);
    Ok(())
}

fn main() {
    let most = libc::rlimit { rlim_cur: 8192, rlim_max: 8192 };
    // SAFETY: a limit; an ordinary user keeps its own.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most) };
    let step: Step = match env::args().nth(1).as_deref() {
        Some("pipes") => pipes,
        Some("datagrams") => datagrams,
        Some("orphans") => orphans,
        Some("flight") => flight,
        Some("files") => files,
        Some("cycles") => cycle,
        _ => panic!("pipes, datagrams, orphans, flight, files or cycles"),
    };
    let steps = if env::args().any(|word| word == "cycles") { CYCLES } else { usize::MAX };
    match (0..steps).try_for_each(|_| step()) {
        Ok(()) => println!("ended"),
        Err(error) => println!("{error}"),
    }
}
