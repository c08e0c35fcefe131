//! Two streams over the console driver that is killed: lines with numbers go out all the time, bytes whose values say
//! where they stand come in. The other end is `xtask/src/kill/numbered.rs`.
//!
//! Bytes come on request, and the driver is killed only once the first of them has come, because QEMU discards input
//! that it was about to give a virtio console that is reset. The rate on the serial line is a little below its
//! capacity (115,200 bits a second, as QEMU has it): otherwise kills would wait for the line.
use crate::IS_OVER;
use abi::checked::Random;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::fs::OpenOptionsExt,
    },
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Path of the serial port.
const SERIAL: &str = "/dev/ttyS1";
/// The pace of the streams.
#[derive(Clone, Copy)]
struct Pace {
    /// The greatest number of bytes requested at once.
    burst_max: u64,
    /// Longest pause between two lines.
    pause_us_max: u64,
}

const SERIAL_PACE: Pace = Pace { burst_max: 256, pause_us_max: 20_000 };
/// Pace on a virtio console, to which QEMU gives bytes in one go.
const CONSOLE_PACE: Pace = Pace { burst_max: 4096, pause_us_max: 700 };
/// Longest time from the first byte of a burst to the kill.
const DELAY_US_MAX: u64 = 3_000;

/// Returns byte `at` of the input stream.
fn byte(at: u64) -> u8 {
    b'!' + ((at * 31 + at / 94) % 94) as u8
}

/// The streams of a component, if it has any.
pub struct Streams {
    input: File,
    output: Arc<Mutex<File>>,
    received: u64,
    sent: Arc<AtomicU64>,
    pace: Pace,
}

fn raw_terminal() -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(SERIAL)?;
    // SAFETY: a structure of numbers, which the call fills.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor of ours and a structure of ours.
    let got = unsafe { libc::tcgetattr(file.as_raw_fd(), &mut settings) };
    // SAFETY: a structure of ours.
    unsafe { libc::cfmakeraw(&mut settings) };
    // SAFETY: as the first.
    let set = unsafe { libc::tcsetattr(file.as_raw_fd(), libc::TCSANOW, &settings) };
    if got == 0 && set == 0 { Ok(file) } else { Err(io::Error::last_os_error()) }
}

fn standard(descriptor: i32) -> File {
    // SAFETY: open since the start, and closed by nobody: the file lives as long as the program.
    unsafe { File::from_raw_fd(descriptor) }
}

impl Streams {
    /// Returns the streams over component `name`; `None` if it carries none.
    pub fn of(name: &str) -> io::Result<Option<Streams>> {
        let (input, output, pace) = match name {
            "uart" => {
                let terminal = raw_terminal()?;
                (terminal.try_clone()?, terminal, SERIAL_PACE)
            }
            "virtio-console" => (standard(0), standard(1), CONSOLE_PACE),
            _ => return Ok(None),
        };
        let (output, sent) = (Arc::new(Mutex::new(output)), Arc::default());
        let streams = Streams { input, output, received: 0, sent, pace };
        streams.say("begin\n").map_err(io::Error::other)?;
        Ok(Some(streams))
    }

    fn say(&self, line: &str) -> Result<(), String> {
        let mut output = self.output.lock().map_err(|_| "a writer failed".to_owned())?;
        output.write_all(line.as_bytes()).map_err(|error| format!("writing: {error}"))
    }

    /// Writes numbered lines until the test is over.
    pub fn write_all_the_time(&self) -> JoinHandle<io::Result<()>> {
        let (output, sent, pace) = (self.output.clone(), self.sent.clone(), self.pace);
        thread::spawn(move || {
            let mut random = Random::new(7);
            while !IS_OVER.load(Relaxed) {
                let number = sent.fetch_add(1, Relaxed);
                let text: String =
                    (0..number % 90).map(|at| char::from(byte(number * 3 + at))).collect();
                let line = format!("seq {number} {text}\n");
                output.lock().expect("another writer failed").write_all(line.as_bytes())?;
                thread::sleep(Duration::from_micros(random.below(pace.pause_us_max)));
            }
            Ok(())
        })
    }

    fn check(&mut self, most: u64) -> Result<u64, String> {
        let mut bytes = [0; 256];
        let most = bytes.len().min(most as usize);
        let count =
            self.input.read(&mut bytes[..most]).map_err(|error| format!("read: {error}"))?;
        if count == 0 {
            return Err(format!("the input ended after {} bytes", self.received));
        }
        for got in &bytes[..count] {
            if *got != byte(self.received) {
                return Err(format!("byte {} of the input is {got}", self.received));
            }
            self.received += 1;
        }
        Ok(count as u64)
    }

    /// Requests bytes and calls `kill` while they come. Returns its result.
    pub fn during<T>(
        &mut self,
        random: &mut Random,
        kill: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let burst = 1 + random.below(self.pace.burst_max);
        self.say(&format!("more {burst}\n"))?;
        let mut left = burst - self.check(1)?;
        thread::sleep(Duration::from_micros(random.below(DELAY_US_MAX)));
        let result = kill()?;
        while left > 0 {
            left -= self.check(left)?;
        }
        Ok(result)
    }

    /// Returns the numbers of bytes checked here, and of lines sent to be checked by the host.
    pub fn counts(&self) -> (u64, u64) {
        (self.received, self.sent.load(Relaxed))
    }
}
