//! QEMU's own network of a system test (10.0.2.0/24), and the host's end of it.
//!
//! The machine reaches a web server of the host at 10.0.2.2, on the port that `HOST_PORT` stands for in the test's commands:
//! `/COUNT` is COUNT bytes of [`content`]. What the host sends to a port of its own reaches port 5000 of the machine; the session
//! orders it by a line `reach COUNT` and hears of the answer (`reached COUNT`, if all bytes came back).
use super::test_net::Orders;
use crate::run::net::{Forward, NetOptions, Network, RootKind};
use anyhow::{Context, Result, ensure};
use harness::qemu::Config;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    thread,
    time::Duration,
};

/// The port of the machine that the host reaches.
const MACHINE_PORT: u16 = 5000;
/// The word that stands for the port of the web server.
const PORT_WORD: &str = "HOST_PORT";
/// The word before an order.
const WORD: &str = "reach ";
/// Time in which bytes must come.
const PATIENCE: Duration = Duration::from_secs(120);

/// The host's end.
#[derive(Clone, Copy, Debug)]
pub struct HostEnd {
    web_port: u16,
    /// Port of the host whose connections reach the machine.
    forwarded: u16,
}

/// Returns the bytes that the server and the host's orders send.
fn content(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 % 251) as u8).collect()
}

impl HostEnd {
    /// Starts the web server, for as long as this process lives.
    ///
    /// # Errors
    /// Fails if the host has no ports.
    pub fn start() -> Result<HostEnd> {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let web_port = server.local_addr()?.port();
        thread::spawn(move || {
            for connection in server.incoming().flatten() {
                thread::spawn(|| answer(connection));
            }
        });
        // QEMU takes the port over.
        let forwarded = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Ok(HostEnd { web_port, forwarded })
    }
    /// Returns QEMU's arguments for the card of that machine.
    pub fn arguments(&self, config: &Config) -> Vec<String> {
        let forward = vec![Forward::tcp(self.forwarded, MACHINE_PORT)];
        let options = NetOptions { net: Some(Network::User), forward, ..NetOptions::default() };
        options.arguments(config, RootKind::Other)
    }
    /// Returns kernel parameters that tell the runner of a comparison of both ports.
    pub fn parameters(&self) -> String {
        format!("compare.HOST_PORT={} compare.FORWARDED={}", self.web_port, self.forwarded)
    }
    /// Returns the commands with the port of the web server.
    pub fn commands(&self, run: &str) -> String {
        run.replace(PORT_WORD, &self.web_port.to_string())
    }
    /// Returns the session's orders to this end.
    pub fn orders(self) -> Orders {
        Orders {
            is_order: |line| count(line).is_some(),
            carry_out: Box::new(move |line, told| {
                let count = count(line).unwrap_or_default();
                let text = match self.reach(count) {
                    Ok(()) => format!("reached {count}\n"),
                    Err(why) => format!("wrong: {why:#}\n"),
                };
                told.send(text).context("the session has ended")
            }),
        }
    }
    /// Sends bytes to the machine, which must send them back.
    fn reach(&self, count: usize) -> Result<()> {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.forwarded))?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let sent = content(count);
        let (mut writing, copy) = (connection.try_clone()?, sent.clone());
        let writer = thread::spawn(move || {
            writing.write_all(&copy).and_then(|()| writing.shutdown(Shutdown::Write))
        });
        let mut back = Vec::new();
        connection.read_to_end(&mut back)?;
        writer.join().ok().context("the writer")??;
        ensure!(back == sent, "{} bytes of {count} came back, or others", back.len());
        Ok(())
    }
}

/// Returns the number of bytes of an order.
fn count(line: &str) -> Option<usize> {
    line.strip_prefix(WORD)?.trim_end().parse().ok()
}

/// Answers a request of HTTP/1.0. One that makes no sense gets no answer.
fn answer(mut connection: TcpStream) {
    let Ok(reading) = connection.try_clone() else { return };
    let mut lines = BufReader::new(reading).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let path = request.split(' ').nth(1).and_then(|path| path.strip_prefix('/'));
    let Some(count) = path.and_then(|count| count.parse().ok()) else { return };
    if !lines.any(|line| line.is_empty()) {
        return;
    }
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {count}\r\n\r\n");
    // A client that goes away is no fault of the server.
    let _ =
        connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&content(count)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_gives_bytes_and_orders_are_known() {
        let end = HostEnd::start().unwrap();
        assert_eq!(end.commands("wget :HOST_PORT/3"), format!("wget :{}/3", end.web_port));
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, end.web_port)).unwrap();
        client.write_all(b"GET /5 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = Vec::new();
        client.read_to_end(&mut text).unwrap();
        assert!(text.ends_with(b"Content-Length: 5\r\n\r\n\x00\x07\x0e\x15\x1c"), "{text:?}");
        assert_eq!(
            (count("reach 12\n"), count("reach x\n"), count("read 1\n")),
            (Some(12), None, None)
        );
    }
}
