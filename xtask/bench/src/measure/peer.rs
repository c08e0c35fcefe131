//! The host's end of a wire: a server of TCP that carries out orders of the probes in `bench/probes/wire.c`.
//!
//! An order is a letter and a count, of 8 bytes, the least first:
//!
//! | letter | the server |
//! | --- | --- |
//! | `t` | takes so many bytes, then answers `.` |
//! | `g` | gives so many bytes |
//! | `e` | gives back so many bytes, as they come |
//! | `p` | has busybox's `ping` ask the machine so many times, each time when the last answer has come, then answers `.` |
use anyhow::{Context, Result, bail};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::Command,
    thread,
};

/// Bytes that the server takes or gives at once.
const CHUNK: usize = 64 << 10;
const ANSWER: u8 = b'.';

/// Starts a server at all addresses, for as long as this process lives. Returns its port. It pings the caller of a connection.
///
/// # Errors
/// Fails if the host has no port.
pub fn start() -> Result<u16> {
    let server = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let port = server.local_addr()?.port();
    thread::spawn(move || {
        for connection in server.incoming().flatten() {
            thread::spawn(move || {
                if let Err(why) = serve(connection) {
                    eprintln!("the peer of a wire: {why:#}");
                }
            });
        }
    });
    Ok(port)
}

/// Carries out orders until the machine closes.
fn serve(mut connection: TcpStream) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        let mut order = [0; 9];
        if connection.read(&mut order[..1])? == 0 {
            return Ok(());
        }
        connection.read_exact(&mut order[1..])?;
        let [word, count @ ..] = order;
        let count = u64::from_le_bytes(count);
        match word {
            b't' => take(&mut connection, &mut chunk, count, |_, _| Ok(()))?,
            b'e' => take(&mut connection, &mut chunk, count, |back, bytes| back.write_all(bytes))?,
            b'g' => give(&mut connection, &chunk, count)?,
            b'p' => ping(&connection, count)?,
            other => bail!("no order: {other:#x}"),
        }
        if matches!(word, b't' | b'p') {
            connection.write_all(&[ANSWER])?;
        }
    }
}

/// Takes `count` bytes and hands each part to `then`.
fn take(
    connection: &mut TcpStream,
    chunk: &mut [u8],
    count: u64,
    then: impl Fn(&mut TcpStream, &[u8]) -> std::io::Result<()>,
) -> Result<()> {
    let mut left = count;
    while left > 0 {
        let room = chunk.len().min(usize::try_from(left)?);
        let part = connection.read(&mut chunk[..room])?;
        if part == 0 {
            bail!("{left} bytes of {count} are missing");
        }
        then(connection, &chunk[..part])?;
        left -= part as u64;
    }
    Ok(())
}

fn give(connection: &mut TcpStream, chunk: &[u8], count: u64) -> Result<()> {
    let mut left = usize::try_from(count)?;
    while left > 0 {
        let part = left.min(chunk.len());
        connection.write_all(&chunk[..part])?;
        left -= part;
    }
    Ok(())
}

fn ping(connection: &TcpStream, count: u64) -> Result<()> {
    let machine = connection.peer_addr()?.ip().to_string();
    let mut ping = Command::new("/bin/busybox");
    ping.args(["ping", "-A", "-q", "-c", &count.to_string(), &machine]);
    let said = ping.output().context("starting busybox's ping")?;
    let said = String::from_utf8_lossy(&said.stdout);
    let lost = said.lines().find(|line| line.contains(" packet loss"));
    match lost.context("no summary of ping")?.contains(" 0% packet loss") {
        true => Ok(()),
        false => bail!("pings without an answer: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_carried_out_one_after_another() {
        let port = start().unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let mut order = |word: u8, count: u64, bytes: &[u8], expected: usize| {
            client.write_all(&[&[word], &count.to_le_bytes()[..], bytes].concat()).unwrap();
            let mut answer = vec![0; expected];
            client.read_exact(&mut answer).unwrap();
            answer
        };
        let long = vec![7; CHUNK + 1];
        assert_eq!(order(b't', long.len() as u64, &long, 1), b".");
        assert_eq!(order(b'e', 3, b"abc", 3), b"abc");
        assert_eq!(order(b'g', 5, b"", 5).len(), 5);
    }
}
