//! The bars of rows: their greatest allowed ratios to Linux.
use crate::values::unit::Unit;

/// Name of the row on the time to the first program.
pub const FIRST: &str = "to the first program";
/// Name of the row on the time to the prompt.
pub const PROMPT: &str = "to the prompt";
/// Name of the row on the time to bash's prompt in Debian.
pub const DEBIAN: &str = "to bash's prompt in Debian";
/// Name of the row on the memory in use at the prompt.
pub const MEMORY: &str = "memory at the prompt";

/// Returns the greatest allowed ratio to Linux of the row `name` of `suite`.
pub fn bar(suite: &str, unit: Unit, name: &str) -> Option<f64> {
    match (suite, unit) {
        ("ksos" | "micro" | "net", Unit::Clock) => Some(CLOCK_BAR),
        ("ksos" | "micro", Unit::Instructions) => Some(instruction_bar(name)),
        ("net", Unit::Instructions) => net_bar(name),
        ("disk" | "mach", _) => Some(1.0),
        ("boot", _) => boot_bar(name),
        _ => None,
    }
}

/// Returns the bar of a row on the start or on the memory then in use, relative to Linux.
fn boot_bar(name: &str) -> Option<f64> {
    match name {
        FIRST | PROMPT => Some(1.0 / 6.0),
        DEBIAN => Some(1.0 / 3.0),
        MEMORY => Some(0.25),
        _ => None,
    }
}

/// Returns the bar of a row of `net` in executed instructions, relative to Linux's.
fn net_bar(name: &str) -> Option<f64> {
    NET.iter().find(|(row, _)| *row == name).map(|(_, bar)| *bar)
}

/// Bar by the clock: the ratio's interval must begin at most here.
const CLOCK_BAR: f64 = 1.02;
/// The bar of a row that executes no system call.
const USER_BAR: f64 = 1.005;
/// The bar of a row that executes system calls.
const CALL_BAR: f64 = 0.9;
/// Rows that a design makes inexpensive: the beginnings of their names.
const HALF: [&str; 10] = [
    "fork+exit",
    "forkit",
    "vfork+exec",
    "fork+exec",
    "sh -c",
    "mmap ",
    "create ",
    "delete ",
    "pipe round trip",
    "switch ",
];
/// Rows of `net` and their bars: names.
const NET: [(&str, f64); 21] = [
    ("TCP round trip of two processes", 0.35),
    ("TCP round trip of one process", 0.25),
    ("UDP round trip", 0.38),
    ("connect+accept+close", 0.25),
    ("epoll 100 connections", 0.35),
    ("TCP write 1 B", 0.15),
    ("TCP write 64 B", 0.4),
    ("TCP write 1000 B", 0.4),
    ("TCP write 16 KB", 0.5),
    ("TCP write 64 KB", 0.5),
    ("sendfile 64 KB", 0.25),
    ("nginx 1 KB by new connections", 0.45),
    ("nginx 1 KB by a kept connection", 0.6),
    ("redis GET by 50 clients", 0.45),
    ("iperf3 1 MiB", 0.55),
    ("user network: sent 64 KB", 0.4),
    ("user network: received 64 KB", 0.45),
    ("tap: round trip", 0.45),
    ("tap: sent 64 KB", 0.65),
    ("tap: received 64 KB", 0.65),
    ("tap: echo", 0.4),
];
const SEVEN_TENTHS: [&str; 8] = [
    "getppid",
    "open+close",
    "stat",
    "fstat",
    "anonymous fault",
    "file fault",
    "select",
    "signal deliver",
];

/// Returns the bar of a row in executed instructions, relative to Linux's.
fn instruction_bar(name: &str) -> f64 {
    let is_of = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    match name {
        "prime" => USER_BAR,
        // A row about cached contents, not about maps.
        "mmap cached, 1 MB" => CALL_BAR,
        _ if is_of(&HALF) => 0.5,
        _ if is_of(&SEVEN_TENTHS) => 0.7,
        _ => CALL_BAR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_bars() {
        let bars = ["prime", "mmap 64 KB", "mmap cached, 1 MB", "stat", "rw"].map(instruction_bar);
        assert_eq!(bars, [1.005, 0.5, 0.9, 0.7, 0.9]);
        assert_eq!(bar("boot", Unit::Clock, PROMPT), Some(1.0 / 6.0));
        assert_eq!(bar("net", Unit::Instructions, "TCP write 1 B"), Some(0.15));
        assert_eq!(bar("net", Unit::Instructions, "no such row"), None);
        assert_eq!(bar("ipc", Unit::Clock, "call"), None);
    }
}
