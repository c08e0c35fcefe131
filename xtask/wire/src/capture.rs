//! [`Capture`]: a file in the format pcapng with every frame as its sender gave it. Wireshark and tcpdump read it.
//!
//! pcapng rather than pcap, because its records say which end sent a frame (the interface), and what the wire did to it (the
//! comment).
use anyhow::{Context, Result};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A file that is written.
pub struct Capture {
    file: BufWriter<File>,
    /// Time from the epoch to the wire's start.
    start: Duration,
}

/// Kinds of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// The mark of the section by which a reader knows the order of bytes.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Kinds of options.
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
/// Ethernet among the types of links.
const ETHERNET: u16 = 1;
/// Times are in nanoseconds: 10 to the power of minus 9 seconds.
const NANOSECONDS: u8 = 9;

impl Capture {
    /// Begins a file for the two named ends.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn create(path: &Path, ends: [&str; 2]) -> Result<Capture> {
        let file = File::create(path).with_context(|| format!("writing {}", path.display()))?;
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut capture = Capture { file: BufWriter::new(file), start };
        let mut section = BYTE_ORDER.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        // The length of the section is not known.
        section.extend(u64::MAX.to_le_bytes());
        capture.block(SECTION, section)?;
        for end in ends {
            let mut interface = ETHERNET.to_le_bytes().to_vec();
            interface.extend([0; 6]);
            option(&mut interface, NAME, end.as_bytes());
            option(&mut interface, RESOLUTION, &[NANOSECONDS]);
            option(&mut interface, 0, &[]);
            capture.block(INTERFACE, interface)?;
        }
        Ok(capture)
    }

    /// Adds a frame that an end sends now, with the marks of what is done to it.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn add(&mut self, end: u32, now: Duration, frame: &[u8], marks: &str) -> Result<()> {
        let nanoseconds = (self.start + now).as_nanos() as u64;
        let length = frame.len() as u32;
        let time = [(nanoseconds >> 32) as u32, nanoseconds as u32];
        let mut packet: Vec<u8> = [end, time[0], time[1], length, length]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        packet.extend(frame);
        pad(&mut packet);
        if !marks.is_empty() {
            option(&mut packet, COMMENT, marks.as_bytes());
            option(&mut packet, 0, &[]);
        }
        self.block(PACKET, packet)
    }

    /// Writes what has been added.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.file.flush()?)
    }

    fn block(&mut self, kind: u32, body: Vec<u8>) -> Result<()> {
        const FRAME: usize = 12;
        let length = ((body.len() + FRAME) as u32).to_le_bytes();
        self.file.write_all(&kind.to_le_bytes())?;
        self.file.write_all(&length)?;
        self.file.write_all(&body)?;
        Ok(self.file.write_all(&length)?)
    }
}

/// Fills up to the next multiple of four bytes.
fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn option(block: &mut Vec<u8>, kind: u16, value: &[u8]) {
    block.extend(kind.to_le_bytes());
    block.extend((value.len() as u16).to_le_bytes());
    block.extend(value);
    pad(block);
}
