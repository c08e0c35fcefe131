//! `/dev/null`, `/dev/zero`, `/dev/full`, `/dev/random` and `/dev/urandom` (null(4), random(4)).
use alloc::sync::Arc;
use linux_raw_sys::ioctl as request;
use memory::{AddressSpace, Anonymous, commit::Commitment};
use process::Task;
use vfs::{
    Caller, Capabilities, Errno, Principal, Vnode,
    file::{File, IoFlags, Mappable, Opener, Places},
    io::{Sink, Source},
};

/// Minor number of `/dev/null`.
pub const NULL: u32 = 3;
/// Minor number of `/dev/zero`.
pub const ZERO: u32 = 5;
/// Minor number of `/dev/full`.
pub const FULL: u32 = 7;
/// Minor number of `/dev/random`.
pub const RANDOM: u32 = 8;
/// Minor number of `/dev/urandom`.
pub const URANDOM: u32 = 9;

/// Number of bits of entropy reported to programs: those of a full pool, as on Linux.
const ENTROPY_BITS: u32 = 256;
/// Number of pages of a mapping of `/dev/zero`: up to the greatest offset.
const PAGES: u64 = 1 << 51;
/// Number of random bytes made at once.
const PIECE_BYTES: usize = 256;
/// Number of bytes after which a long read of random bytes checks for signals; a read of zeroes has its own number.
const RANDOM_LOOK_BYTES: usize = 4096;
const ZEROES_LOOK_BYTES: usize = 1 << 20;

/// The opener of the memory devices.
pub struct Memory;

impl Opener for Memory {
    fn open(&self, vnode: &Arc<Vnode>, _: u32, _: &Caller<'_>) -> Result<Arc<dyn File>, Errno> {
        let kind = match vnode.device().1 {
            NULL => MemoryDeviceKind::Null,
            ZERO => MemoryDeviceKind::Zero,
            FULL => MemoryDeviceKind::Full,
            RANDOM | URANDOM => MemoryDeviceKind::Random,
            _ => return Err(Errno::ENXIO),
        };
        Ok(Arc::new(MemoryDevice { kind }))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MemoryDeviceKind {
    Null,
    Zero,
    Full,
    Random,
}

/// An open memory device.
pub struct MemoryDevice {
    kind: MemoryDeviceKind,
}

impl MemoryDevice {
    /// Answers an ioctl. The random devices (random(4)) report how much entropy there is, which is always enough, so that
    /// commands to add or remove some have no effect.
    ///
    /// # Errors
    /// `ENOTTY` for the other devices; `EINVAL`, `EFAULT`, `EPERM`.
    pub fn ioctl(
        &self,
        task: &Task,
        memory: &AddressSpace,
        command: u32,
        argument: u64,
    ) -> Result<u64, Errno> {
        if self.kind != MemoryDeviceKind::Random {
            return Err(Errno::ENOTTY);
        }
        let check_administrator = || match task.credentials().has(Capabilities::SYS_ADMIN) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        };
        match command {
            request::RNDGETENTCNT => memory.write(argument, &ENTROPY_BITS)?,
            request::RNDADDTOENTCNT | request::RNDADDENTROPY => {
                check_administrator()?;
                if memory.read::<i32>(argument)? < 0 {
                    return Err(Errno::EINVAL);
                }
            }
            request::RNDZAPENTCNT | request::RNDCLEARPOOL | request::RNDRESEEDCRNG => {
                check_administrator()?;
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }
}

impl File for MemoryDevice {
    fn is_seekable(&self) -> bool {
        true
    }
    fn places(&self) -> Places {
        Places::Start
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        match self.kind {
            MemoryDeviceKind::Null => Ok(0),
            MemoryDeviceKind::Zero | MemoryDeviceKind::Full => match sink.remaining() {
                few @ ..=ZEROES_LOOK_BYTES => sink.put_zeroes(few),
                _ => read_zeroes(sink),
            },
            MemoryDeviceKind::Random => read_random(sink),
        }
    }
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        _: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        if self.kind == MemoryDeviceKind::Full {
            return Err(Errno::ENOSPC);
        }
        let count = source.remaining();
        Ok((count, offset.saturating_add(count as u64)))
    }
    fn gives_spliced(&self) -> bool {
        self.kind != MemoryDeviceKind::Null
    }
    fn takes_spliced(&self) -> bool {
        self.kind != MemoryDeviceKind::Full
    }
    fn discards(&self) -> bool {
        self.kind == MemoryDeviceKind::Null
    }
    fn mappable(&self) -> Result<Arc<dyn Mappable>, Errno> {
        match self.kind {
            MemoryDeviceKind::Zero => Ok(Anonymous::new(PAGES, Commitment::none())),
            _ => Err(Errno::ENODEV),
        }
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// Returns whether a signal ends a long read early, with the bytes read so far.
fn is_signalled(reader: &dyn Principal) -> bool {
    Task::of(reader).is_some_and(Task::has_signal)
}

#[cold]
fn read_zeroes(sink: &mut dyn Sink) -> Result<usize, Errno> {
    let mut done = 0;
    while sink.remaining() > 0 {
        match sink.put_zeroes(sink.remaining().min(ZEROES_LOOK_BYTES)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
        if sink.remaining() > 0 && is_signalled(sink.caller()) {
            break;
        }
    }
    Ok(done)
}

fn read_random(sink: &mut dyn Sink) -> Result<usize, Errno> {
    put_pieces::<PIECE_BYTES>(sink, RANDOM_LOOK_BYTES, |piece| {
        rt::entropy::fill(piece);
        Ok(())
    })
}

/// Fills `sink` with pieces of `N` bytes that `fill` makes. An error after the first piece ends it early, and so does a signal,
/// which is looked for once in `look_bytes`.
pub(super) fn put_pieces<const N: usize>(
    sink: &mut dyn Sink,
    look_bytes: usize,
    mut fill: impl FnMut(&mut [u8]) -> Result<(), Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    let mut piece = [0; N];
    while sink.remaining() > 0 {
        let wanted = sink.remaining().min(N);
        let piece = piece.split_at_mut(wanted).0;
        match fill(piece).and_then(|()| sink.put(piece)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
        if done.is_multiple_of(look_bytes) && is_signalled(sink.caller()) {
            break;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::io::{SliceSink, SliceSource};

    const PLAIN: IoFlags = IoFlags { is_nonblocking: false, is_append: false };

    fn read(kind: MemoryDeviceKind, out: &mut [u8]) -> Result<usize, Errno> {
        MemoryDevice { kind }.read(0, &mut SliceSink::new(out), PLAIN)
    }

    fn write(kind: MemoryDeviceKind) -> Result<usize, Errno> {
        let mut source = SliceSource::new(b"hello");
        MemoryDevice { kind }.write(0, &mut source, PLAIN).map(|(count, _)| count)
    }

    #[test]
    fn null_is_always_at_its_end_and_takes_everything() {
        assert_eq!(read(MemoryDeviceKind::Null, &mut [1; 4]), Ok(0));
        assert_eq!(write(MemoryDeviceKind::Null), Ok(5));
    }

    #[test]
    fn zero_and_full_give_zeroes_and_full_takes_nothing() {
        let mut out = [1; 4];
        assert_eq!(read(MemoryDeviceKind::Zero, &mut out), Ok(4));
        assert_eq!(out, [0; 4]);
        assert_eq!(read(MemoryDeviceKind::Full, &mut [1; 4]), Ok(4));
        assert_eq!(write(MemoryDeviceKind::Full), Err(Errno::ENOSPC));
    }

    #[test]
    fn random_fills_what_is_asked_for() {
        let mut out = [0; 1000];
        assert_eq!(read(MemoryDeviceKind::Random, &mut out), Ok(1000));
        assert!(out.iter().any(|byte| *byte != 0));
    }
}
