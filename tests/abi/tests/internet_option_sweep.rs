//! Every number of an option from 0 to 80, on each level and each type of socket, read and set with several lengths: the answers are
//! those of Linux 6.1 and 6.18, where both agree. `option_table.txt` has them. With `OPTION_TABLE` in the environment the test
//! prints the table of the system that it runs on, instead of comparing.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, *};
use std::{collections::BTreeMap, fmt::Write as _};

const TABLE: &str = include_str!("../src/internet/option_table.txt");
/// Types of sockets: name, family, type, protocol.
const SOCKETS: &[(&str, i32, i32, i32)] = &[
    ("tcp", AF_INET, SOCK_STREAM, 0),
    ("tcp6", AF_INET6, SOCK_STREAM, 0),
    ("udp", AF_INET, SOCK_DGRAM, 0),
    ("udp6", AF_INET6, SOCK_DGRAM, 0),
    ("raw", AF_INET, SOCK_RAW, 253),
    ("raw6", AF_INET6, SOCK_RAW, 253),
    ("icmp6", AF_INET6, SOCK_RAW, 58),
    ("packet", libc::AF_PACKET, SOCK_RAW, 0),
    ("route", libc::AF_NETLINK, SOCK_RAW, 0),
    ("local", libc::AF_UNIX, SOCK_STREAM, 0),
];
/// Levels: name, number.
const LEVELS: &[(&str, i32)] = &[
    ("SOL_SOCKET", 1),
    ("IP", 0),
    ("IPV6", 41),
    ("TCP", 6),
    ("UDP", 17),
    ("RAW", 255),
    ("ICMPV6", 58),
    ("PACKET", 263),
    ("NETLINK", 270),
];
const NUMBERS: i32 = 80;
/// Lengths that values are read with.
const ROOMS: &[i32] = &[0, 1, 3, 4, 8, 64];

/// Returns the values that are set: a length that may differ from that of the bytes.
fn given() -> Vec<(i32, Vec<u8>)> {
    let number = |number: i32| (4, number.to_ne_bytes().to_vec());
    vec![
        (-1, vec![0; 4]),
        (0, vec![0; 4]),
        (1, vec![1; 4]),
        (3, vec![2, 0, 0, 0]),
        number(0),
        number(1),
        number(-1),
        number(1_000_000),
        (8, vec![0; 8]),
        (20, vec![0; 20]),
        (64, vec![0; 64]),
        (136, vec![0; 136]),
    ]
}

/// Returns the answer to getsockopt(2): the error, or the length with a value of at most eight bytes.
fn read(fd: i32, level: i32, option: i32, room: i32) -> String {
    let mut bytes = [0u8; 64];
    let mut length = room;
    let at = bytes.as_mut_ptr().cast();
    // SAFETY: the buffer is as long as the longest room.
    let done = check(i64::from(unsafe {
        libc::getsockopt(fd, level, option, at, (&raw mut length).cast())
    }));
    match done {
        Err(error) => format!("e{error}"),
        Ok(_) if !(0..=8).contains(&length) => format!("{length}"),
        Ok(_) => {
            let mut text = format!("{length}:");
            for byte in &bytes[..length as usize] {
                write!(text, "{byte:02x}").unwrap();
            }
            text
        }
    }
}

fn write(fd: i32, level: i32, option: i32, (length, bytes): &(i32, Vec<u8>)) -> String {
    let at = bytes.as_ptr().cast();
    // SAFETY: the bytes are as long as the length, unless that is negative.
    let done = check(i64::from(unsafe { libc::setsockopt(fd, level, option, at, *length as u32) }));
    done.map_or_else(|error| format!("e{error}"), |_| "0".to_string())
}

/// Returns the answers about one option on fresh sockets: a word for each length, equal neighbours as `word*count`.
fn row((family, kind, protocol): (i32, i32, i32), level: i32, option: i32) -> String {
    let reading = try_socket(family, kind, protocol).expect("a socket");
    let mut words: Vec<String> =
        ROOMS.iter().map(|room| read(reading, level, option, *room)).collect();
    close(reading);
    words.push("|".to_string());
    let mut writing = try_socket(family, kind, protocol).expect("a socket");
    for value in given() {
        words.push(write(writing, level, option, &value));
        if words.last().is_some_and(|word| word == "0") {
            // A change may matter to the next one.
            close(writing);
            writing = try_socket(family, kind, protocol).expect("a socket");
        }
    }
    close(writing);
    let mut text = String::new();
    for run in words.chunk_by(|one, next| one == next) {
        let count = if run.len() > 1 { format!("*{}", run.len()) } else { String::new() };
        write!(text, " {}{count}", run[0]).unwrap();
    }
    text
}

/// Returns the table of this system: for each socket and level the most common row, then the options with other rows.
fn table() -> String {
    let mut text = String::new();
    for (name, family, kind, protocol) in SOCKETS {
        for (level_name, level) in LEVELS {
            let rows: Vec<String> =
                (0..=NUMBERS).map(|one| row((*family, *kind, *protocol), *level, one)).collect();
            let mut counts = BTreeMap::new();
            rows.iter().for_each(|row| *counts.entry(row).or_insert(0) += 1);
            let common = counts.iter().max_by_key(|(_, count)| **count).expect("a row").0;
            writeln!(text, "{name} {level_name} *:{common}").unwrap();
            for (option, row) in rows.iter().enumerate().filter(|(_, row)| row != common) {
                writeln!(text, "{name} {level_name} {option}:{row}").unwrap();
            }
        }
    }
    text
}

/// Returns the rows of a table by socket, level and option.
fn rows(text: &str) -> BTreeMap<(String, String, i32), String> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.splitn(3, ' ');
        let mut next = || words.next().expect("a word").to_string();
        let (name, level, rest) = (next(), next(), next());
        let (option, row) = rest.split_once(": ").expect("a number and a row");
        let options = match option {
            "*" => 0..=NUMBERS,
            option => {
                let option = option.parse().expect("a number");
                option..=option
            }
        };
        for option in options {
            all.insert((name.clone(), level.clone(), option), row.to_string());
        }
    }
    all
}

#[test]
fn every_option_answers_as_on_linux() {
    networked(|| {
        let here = table();
        if std::env::var_os("OPTION_TABLE").is_some() {
            println!("{here}");
            return;
        }
        let (here, expected) = (rows(&here), rows(TABLE));
        // The child's output is not shown, but the message of its panic is.
        let mut different = String::new();
        for (key, wanted) in &expected {
            // A question mark stands for an answer that is not fixed, or that the two systems differ in.
            if wanted != "?" && here[key] != *wanted {
                let (name, level, option) = key;
                writeln!(different, "{name} {level} {option}: {} instead of {wanted}", here[key])
                    .unwrap();
            }
        }
        assert!(different.is_empty(), "options answer otherwise than on Linux:\n{different}");
    });
}
