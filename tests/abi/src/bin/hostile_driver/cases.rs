//! The behaviours of the hostile driver, by the numbers that `tests/components/hostile-blk` gives them, and the
//! required reaction to each.
use crate::{component::Component, wait_until};
use abi::checked::forget;
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    time::Duration,
};

/// The disk through which the driver gets its orders, and about which it gives false answers.
const DISK: &str = "/dev/vdb";
const BLOCK_BYTES: usize = 4096;
const FIRST_BLOCK: u64 = 256;
const BLOCKS: u64 = 64;
/// Block of the disk from which the lies are about: not a block that is an order.
const LIES_AT: u64 = 3000;
const LIES: usize = 64;
/// Pause of a little more than sixteen limits of the system `hostile`.
pub const CALM: Duration = Duration::from_millis(3_600);
/// The byte that fills the memory that a program frees.
const SECRET: u8 = 0xa5;
const SECRET_BYTES: usize = 96 << 20;

/// The required reaction to a behaviour. In each case no program sees an error or a wrong byte, and all continue.
#[derive(Clone, Copy, Debug)]
pub enum Follows {
    /// The driver is ended for this reason.
    Ended(&'static str),
    /// The driver continues.
    Nothing,
    /// The driver is ended or not, depending on the load of the machine.
    Either,
}

/// A behaviour and the required reaction.
pub struct Case {
    pub name: &'static str,
    number: u64,
    pub follows: Follows,
    /// Requests become overdue.
    pub is_overdue: bool,
    /// A further check while the driver behaves in this way.
    pub check: fn() -> Result<(), String>,
}

const fn case(number: u64, name: &'static str, follows: Follows) -> Case {
    Case { name, number, follows, is_overdue: false, check: || Ok(()) }
}

const fn overdue(number: u64, name: &'static str, cause: &'static str) -> Case {
    Case { is_overdue: true, ..case(number, name, Follows::Ended(cause)) }
}

const fn checked(case: Case, check: fn() -> Result<(), String>) -> Case {
    Case { check, ..case }
}

const PROTOCOL: &str = "it breaks the protocol of its rings";
const ASKED: &str = "as was asked for";
const NO_ANSWER: &str = "no answer to a ping";

pub static CASES: [Case; 28] = [
    case(0, "well", Follows::Nothing),
    overdue(1, "drop-deny", "it does not know of a request"),
    overdue(2, "drop-claim", "a request is not done after"),
    case(3, "reorder", Follows::Nothing),
    checked(case(4, "false-read", Follows::Nothing), reads_disclose_nothing),
    checked(case(5, "false-write", Follows::Nothing), write_is_accepted),
    case(6, "error-and-die", Follows::Ended(ASKED)),
    checked(case(7, "error-and-live", Follows::Nothing), read_fails),
    case(8, "stale", Follows::Ended(PROTOCOL)),
    case(9, "twice", Follows::Ended(PROTOCOL)),
    case(10, "for-nothing", Follows::Ended(PROTOCOL)),
    case(11, "ring-count", Follows::Ended(PROTOCOL)),
    case(12, "stray-read", Follows::Ended("DMA")),
    case(13, "stray-write", Follows::Ended("DMA")),
    case(14, "stray-interrupt", Follows::Either),
    case(15, "interrupt-flood", Follows::Either),
    case(16, "grab-memory", Follows::Ended("bytes of memory of at most")),
    case(17, "grab-threads", Follows::Either),
    case(18, "grab-log", Follows::Either),
    case(19, "loris", Follows::Either),
    overdue(20, "pings-only", "a request is not done after"),
    case(21, "silent", Follows::Ended(NO_ANSWER)),
    case(22, "loop", Follows::Either),
    case(23, "crash", Follows::Ended(ASKED)),
    case(24, "main-ends", Follows::Ended(NO_ANSWER)),
    case(25, "bad-answers", Follows::Ended("makes no sense")),
    checked(case(26, "grab-vectors", Follows::Nothing), others_start_again),
    case(27, "grab-registers", Follows::Nothing),
];

impl Case {
    /// Orders the driver to behave in this way from now on.
    pub fn order(&self) -> Result<(), String> {
        let disk = direct(libc::O_DIRECT)?;
        let block = FIRST_BLOCK + BLOCKS * self.number;
        let mut room = vec![0; 2 * BLOCK_BYTES];
        let start = room.as_ptr().align_offset(BLOCK_BYTES);
        let buffer = &mut room[start..start + BLOCK_BYTES];
        let read = disk.read_exact_at(buffer, block * BLOCK_BYTES as u64);
        read.map_err(|error| format!("{DISK}, block {block}: {error}"))
    }
}

fn direct(flags: i32) -> Result<File, String> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags);
    options.open(DISK).map_err(|error| format!("{DISK}: {error}"))
}

/// Fills much memory with [`SECRET`] and frees it, so that free frames contain it.
fn leave_secrets() {
    let secrets = vec![SECRET; SECRET_BYTES];
    assert!(std::hint::black_box(&secrets).iter().all(|byte| *byte == SECRET));
}

/// Checks that reads that are falsely reported as done disclose nothing that other programs left in memory.
fn reads_disclose_nothing() -> Result<(), String> {
    leave_secrets();
    let disk = direct(0)?;
    forget(&disk);
    let mut bytes = vec![0; LIES * BLOCK_BYTES];
    let read = disk.read_exact_at(&mut bytes, LIES_AT * BLOCK_BYTES as u64);
    forget(&disk);
    read.map_err(|error| format!("a false read: {error}"))?;
    let foreign = bytes.iter().filter(|byte| **byte != 0).count();
    if foreign > 0 { Err(format!("{foreign} bytes of others were disclosed")) } else { Ok(()) }
}

/// Checks that writes that are falsely reported as done are accepted: they cannot be told from real ones.
fn write_is_accepted() -> Result<(), String> {
    let disk = direct(0)?;
    let bytes = vec![1; BLOCK_BYTES];
    let written =
        disk.write_all_at(&bytes, LIES_AT * BLOCK_BYTES as u64).and_then(|()| disk.sync_all());
    forget(&disk);
    written.map_err(|error| format!("a false write: {error}"))
}

/// Checks that another driver, which needs vectors, can be restarted.
fn others_start_again() -> Result<(), String> {
    let other = Component("hostile-console");
    let before = other.state().ok_or("there is no other driver")?;
    other.kill()?;
    wait_until("another driver is started again", || {
        other.state().is_some_and(|now| now.restarts > before.restarts && now.is_running)
    })
}

/// Checks that an error of a driver that lives on reaches the program that asked.
fn read_fails() -> Result<(), String> {
    let disk = direct(0)?;
    forget(&disk);
    let mut bytes = vec![0; BLOCK_BYTES];
    let read = disk.read_exact_at(&mut bytes, LIES_AT * BLOCK_BYTES as u64);
    match read.map_err(|error| error.raw_os_error()) {
        Err(Some(libc::EIO)) => Ok(()),
        other => Err(format!("a read that the driver said failed: {other:?}")),
    }
}
