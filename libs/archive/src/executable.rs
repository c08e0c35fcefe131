//! The executable of a component: a static ELF-64 for x86-64, its segments on pages of their own, none of them both
//! writable and executable. Source: System V ABI, chapters 4 and 5.
use core::fmt;

const PAGE: u64 = 4096;
const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
/// Identity bytes behind the magic: 64 bits, little-endian, version 1.
const IDENTITY: &[u8] = b"\x7fELF\x02\x01\x01";
const EXECUTABLE: u64 = 2;
const X86_64: u64 = 62;
const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;

/// The reason why a file cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The file is not an ELF executable of this machine, or is cut off.
    NoExecutable,
    /// The file needs a dynamic linker.
    Dynamic,
    /// A segment is both writable and executable.
    WritableCode,
    /// A segment does not begin on a page, shares a page with another one, wraps around, or has more data than
    /// memory.
    Segment,
    /// The entry point is outside the code.
    Entry,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::NoExecutable => "no executable for x86-64",
            Malformed::Dynamic => "not linked statically",
            Malformed::WritableCode => "code that can be written",
            Malformed::Segment => "a segment that makes no sense",
            Malformed::Entry => "begins outside its code",
        })
    }
}

/// A segment to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Address of the segment's first page.
    pub address: u64,
    /// Bytes of memory, in whole pages.
    pub bytes: u64,
    /// The first bytes; the rest of the memory is zero.
    pub data: &'a [u8],
    /// The segment is writable.
    pub is_writable: bool,
    /// The segment is executable.
    pub is_executable: bool,
}

/// An executable that was checked.
#[derive(Clone, Copy, Debug)]
pub struct Executable<'a> {
    file: &'a [u8],
    entry: u64,
    headers: &'a [[u8; PROGRAM_HEADER_BYTES]],
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

impl<'a> Executable<'a> {
    /// Reads and checks `file`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(file: &'a [u8]) -> Result<Executable<'a>, Malformed> {
        let executable = Executable::headers(file).ok_or(Malformed::NoExecutable)?;
        executable.check()?;
        Ok(executable)
    }

    fn headers(file: &'a [u8]) -> Option<Executable<'a>> {
        let header = file.get(..HEADER_BYTES)?;
        let is_ours = header.starts_with(IDENTITY)
            && number(header, 16, 2)? == EXECUTABLE
            && number(header, 18, 2)? == X86_64
            && number(header, 54, 2)? == PROGRAM_HEADER_BYTES as u64;
        let first = usize::try_from(number(header, 32, 8)?).ok()?;
        let count = number(header, 56, 2)? as usize;
        let table = file.get(first..)?.get(..count * PROGRAM_HEADER_BYTES)?;
        let entry = number(header, 24, 8)?;
        is_ours.then_some(Executable { file, entry, headers: table.as_chunks().0 })
    }

    fn check(&self) -> Result<(), Malformed> {
        let mut end_before = 0;
        let mut has_entry = false;
        for header in self.headers {
            match number(header, 0, 4) {
                Some(DYNAMIC | INTERPRETER) => return Err(Malformed::Dynamic),
                Some(LOAD) => {}
                _ => continue,
            }
            let segment = self.segment(header).ok_or(Malformed::Segment)?;
            if segment.is_writable && segment.is_executable {
                return Err(Malformed::WritableCode);
            }
            if segment.address < end_before {
                return Err(Malformed::Segment);
            }
            end_before = segment.address + segment.bytes;
            has_entry |=
                segment.is_executable && (segment.address..end_before).contains(&self.entry);
        }
        if has_entry { Ok(()) } else { Err(Malformed::Entry) }
    }

    fn segment(&self, header: &[u8]) -> Option<Segment<'a>> {
        const CAN_EXECUTE: u64 = 1;
        const CAN_WRITE: u64 = 2;
        let flags = number(header, 4, 4)?;
        let offset = usize::try_from(number(header, 8, 8)?).ok()?;
        let address = number(header, 16, 8)?;
        let length = usize::try_from(number(header, 32, 8)?).ok()?;
        let bytes = number(header, 40, 8)?.checked_next_multiple_of(PAGE)?;
        let data = self.file.get(offset..)?.get(..length)?;
        address.checked_add(bytes)?;
        (address.is_multiple_of(PAGE) && length as u64 <= bytes).then_some(Segment {
            address,
            bytes,
            data,
            is_writable: flags & CAN_WRITE != 0,
            is_executable: flags & CAN_EXECUTE != 0,
        })
    }

    /// Returns the address of the first instruction.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// Returns the segments to be mapped, ascending, without empty ones.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'a>> {
        let loaded = self.headers.iter().filter(|header| number(*header, 0, 4) == Some(LOAD));
        loaded.filter_map(|header| self.segment(header)).filter(|segment| segment.bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const READ: u32 = 4;
    const WRITE: u32 = 2;
    const EXECUTE: u32 = 1;

    /// Makes an executable of segments (kind, flags, address, data, bytes of memory) that begins at 0x400010.
    fn make(segments: &[(u32, u32, u64, &[u8], u64)]) -> Vec<u8> {
        let mut file = vec![0; HEADER_BYTES];
        file[..7].copy_from_slice(IDENTITY);
        file[16] = EXECUTABLE as u8;
        file[18] = X86_64 as u8;
        file[24..32].copy_from_slice(&0x40_0010u64.to_le_bytes());
        file[32] = HEADER_BYTES as u8;
        file[54] = PROGRAM_HEADER_BYTES as u8;
        file[56] = segments.len() as u8;
        let mut offset = (HEADER_BYTES + segments.len() * PROGRAM_HEADER_BYTES) as u64;
        for &(kind, flags, address, data, bytes) in segments {
            file.extend(kind.to_le_bytes());
            file.extend(flags.to_le_bytes());
            for word in [offset, address, address, data.len() as u64, bytes, PAGE] {
                file.extend(word.to_le_bytes());
            }
            offset += data.len() as u64;
        }
        segments.iter().for_each(|segment| file.extend(segment.3));
        file
    }

    const CODE: (u32, u32, u64, &[u8], u64) = (1, READ | EXECUTE, 0x40_0000, &[0x90; 32], 32);

    #[test]
    fn segments_are_read_with_their_rights() {
        let file = make(&[CODE, (1, READ | WRITE, 0x40_1000, b"data", 0x1001)]);
        let executable = Executable::parse(&file).unwrap();
        assert_eq!(executable.entry(), 0x40_0010);
        let segments: Vec<Segment<'_>> = executable.segments().collect();
        assert_eq!(segments.len(), 2);
        assert!(segments[0].is_executable && !segments[0].is_writable);
        assert_eq!((segments[0].address, segments[0].bytes), (0x40_0000, 0x1000));
        assert!(segments[1].is_writable && !segments[1].is_executable);
        assert_eq!((segments[1].data, segments[1].bytes), (&b"data"[..], 0x2000));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |segments: &[_]| Executable::parse(&make(segments)).map(|_| ()).unwrap_err();
        let writable = (1, READ | WRITE | EXECUTE, 0x40_1000, &b""[..], 1);
        assert_eq!(refused(&[CODE, writable]), Malformed::WritableCode);
        assert_eq!(refused(&[CODE, (1, READ, 0x40_1001, b"", 1)]), Malformed::Segment);
        assert_eq!(refused(&[CODE, (1, READ, 0x40_0000, b"", 1)]), Malformed::Segment);
        assert_eq!(refused(&[CODE, (1, READ, u64::MAX - 0xfff, b"", 1)]), Malformed::Segment);
        assert_eq!(refused(&[CODE, (1, READ, 0x40_1000, &[1; 4097], 4096)]), Malformed::Segment);
        assert_eq!(refused(&[CODE, (3, READ, 0, b"", 0)]), Malformed::Dynamic);
        assert_eq!(refused(&[(1, READ, 0x40_0000, b"", 4096)]), Malformed::Entry);
        assert_eq!(Executable::parse(b"\x7fELF").unwrap_err(), Malformed::NoExecutable);
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_read_or_refused(at in 0usize..300, value: u8) {
            let mut file = make(&[CODE, (1, READ | WRITE, 0x40_1000, b"data", 0x1001)]);
            let at = at % file.len();
            file[at] = value;
            if let Ok(executable) = Executable::parse(&file) {
                prop_assert!(executable.segments().all(|s| !(s.is_writable && s.is_executable)));
            }
        }
    }
}
