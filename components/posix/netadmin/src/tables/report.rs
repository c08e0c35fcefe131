//! `/proc/skerry/net`: the sockets of the stack with their queues and drops, and the drops of the stack by reason.
use alloc::{format, string::String};
use core::fmt::Write;
use interfaces::sockets::{ConnectionState, NetworkAdministration, SocketProtocol, SocketRecord};

const PROTOCOLS: [(SocketProtocol, &str); 5] = [
    (SocketProtocol::Tcp, "tcp"),
    (SocketProtocol::Udp, "udp"),
    (SocketProtocol::UdpLite, "udplite"),
    (SocketProtocol::Ping, "ping"),
    (SocketProtocol::Raw, "raw"),
];
const US_PER_MS: u32 = 1000;

/// Returns the state of a connection in the words of ss(8).
fn state(state: ConnectionState) -> &'static str {
    match state {
        ConnectionState::Established => "established",
        ConnectionState::SynSent => "syn-sent",
        ConnectionState::SynReceived => "syn-received",
        ConnectionState::FinWait1 => "fin-wait-1",
        ConnectionState::FinWait2 => "fin-wait-2",
        ConnectionState::TimeWait => "time-wait",
        ConnectionState::Closed => "unconnected",
        ConnectionState::CloseWait => "close-wait",
        ConnectionState::LastAck => "last-ack",
        ConnectionState::Listen => "listen",
        ConnectionState::Closing => "closing",
    }
}

/// Writes the line of a socket: its queues in bytes (of a listener, connections), then what it dropped, by cause.
fn line(text: &mut String, protocol: &str, socket: &SocketRecord) {
    let local = socket.local;
    let peer = socket.peer.map_or_else(|| String::from("-"), |peer| format!("{peer}"));
    let _ = write!(
        text,
        "{protocol:<5}{:<13}{:>9}{:>9}{:>7}{:>9}  {local:<26} {peer:<26} ",
        state(socket.state),
        socket.receive_queue,
        socket.send_queue,
        socket.user,
        socket.inode
    );
    if let Some(info) = socket.info.filter(|_| socket.state != ConnectionState::Listen) {
        let _ = write!(
            text,
            "rto_ms={} rtt_us={} cwnd={} unacked={} resent={} out_of_order={} ",
            info.rto / US_PER_MS,
            info.rtt,
            info.snd_cwnd,
            info.unacked,
            info.total_retrans,
            info.rcv_ooopack
        );
    }
    let _ = writeln!(text, "queue-full={} not-taken={}", socket.drops, socket.not_taken);
}

/// Returns `/proc/skerry/net`.
pub fn report(network: &dyn NetworkAdministration) -> String {
    let mut text = format!(
        "{:<5}{:<13}{:>9}{:>9}{:>7}{:>9}  {:<26} {:<26} {}\n",
        "",
        "state",
        "received",
        "to_send",
        "user",
        "inode",
        "local",
        "peer",
        "connection and drops"
    );
    for (protocol, name) in PROTOCOLS {
        network.sockets(protocol).iter().for_each(|socket| line(&mut text, name, socket));
    }
    text.push_str("\ndropped packets of no socket or any\n");
    for (reason, count) in network.drops() {
        let _ = writeln!(text, "{reason:<20}{count}");
    }
    text
}
