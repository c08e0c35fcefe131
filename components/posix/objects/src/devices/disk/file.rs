//! [`BlockFile`]: an open disk.
use super::DiskDevice;
use alloc::sync::Arc;
use interfaces::{block::SECTOR_BYTES, file_system::Allocation};
use linux_raw_sys::ioctl as request;
use memory::AddressSpace;
use process::Task;
use rt::PAGE_BYTES;
use vfs::{
    Capabilities, Errno, OpenFile, Principal, Whence,
    file::{File, IoFlags, Mappable, Places, RangeSteps, SyncKind},
    io::{Limited, Sink, Source},
};

const SECTOR: u64 = SECTOR_BYTES as u64;

/// The open file of a disk.
pub struct BlockFile {
    device: Arc<DiskDevice>,
    pages: Arc<OpenFile>,
}

impl BlockFile {
    /// Makes an open disk; `pages` is the open file of the disk's volume.
    pub(super) fn new(device: Arc<DiskDevice>, pages: Arc<OpenFile>) -> BlockFile {
        BlockFile { device, pages }
    }
    /// Answers an ioctl.
    ///
    /// # Errors
    /// `ENOTTY`, `EFAULT`; `EACCES` for a setting; `EBADF`, `EINVAL`, `EOPNOTSUPP`, `EIO` for a
    /// discard.
    pub fn ioctl(
        &self,
        task: &Task,
        memory: &AddressSpace,
        command: u32,
        argument: u64,
    ) -> Result<u64, Errno> {
        let info = self.device.block.info();
        let is_setting =
            matches!(command, request::BLKROSET | request::BLKRASET | request::BLKFRASET);
        if is_setting && !task.credentials().has(Capabilities::SYS_ADMIN) {
            return Err(Errno::EACCES);
        }
        match command {
            request::BLKGETSIZE64 => memory.write(argument, &(info.sectors * SECTOR))?,
            request::BLKGETSIZE => memory.write(argument, &info.sectors)?,
            request::BLKSSZGET => memory.write(argument, &(SECTOR_BYTES as u32))?,
            request::BLKPBSZGET | request::BLKIOMIN => memory.write(argument, &info.block_bytes)?,
            request::BLKIOOPT | request::BLKALIGNOFF | request::BLKDISCARDZEROES => {
                memory.write(argument, &0_u32)?;
            }
            request::BLKBSZGET => memory.write(argument, &(PAGE_BYTES as u32))?,
            request::BLKROGET => memory.write(argument, &u32::from(self.device.is_read_only()))?,
            request::BLKROSET => self.device.set_read_only(memory.read::<u32>(argument)? != 0),
            request::BLKRAGET | request::BLKFRAGET if argument == 0 => return Err(Errno::EINVAL),
            request::BLKRAGET | request::BLKFRAGET => {
                memory.write(argument, &self.device.read_ahead_sectors())?;
            }
            request::BLKRASET | request::BLKFRASET => self.device.set_read_ahead(argument),
            request::BLKROTATIONAL => memory.write(argument, &1_u16)?,
            request::BLKFLSBUF => self.pages.file().sync(SyncKind::Data)?,
            request::BLKDISCARD => self.reshape((task, memory), argument, Allocation::PunchHole)?,
            request::BLKZEROOUT => {
                self.reshape((task, memory), argument, Allocation::ZeroKeepSize)?
            }
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }
    /// Discards or zeroes the range that the program gives: first byte and number of bytes, whole
    /// sectors within the disk.
    fn reshape(
        &self,
        (task, memory): (&Task, &AddressSpace),
        at: u64,
        how: Allocation,
    ) -> Result<(), Errno> {
        if !self.pages.is_writable() {
            return Err(Errno::EBADF);
        }
        let [start, length]: [u64; 2] = memory.read(at)?;
        let end = start.checked_add(length).ok_or(Errno::EINVAL)?;
        let is_whole = start.is_multiple_of(SECTOR) && length.is_multiple_of(SECTOR);
        if !is_whole || end > self.size() {
            return Err(Errno::EINVAL);
        }
        if length == 0 { Ok(()) } else { self.pages.file().allocate(start, length, how, task) }
    }
}

impl File for BlockFile {
    fn is_seekable(&self) -> bool {
        true
    }
    fn places(&self) -> Places {
        Places::UpTo(self.size())
    }
    fn can_be_direct(&self) -> bool {
        true
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        self.pages.file().read(offset, sink, flags)
    }
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        if !self.pages.is_writable() || self.device.is_read_only() {
            return Err(Errno::EPERM);
        }
        let room = self.size().saturating_sub(offset);
        if room == 0 && source.remaining() > 0 {
            return Err(Errno::ENOSPC);
        }
        let flags = IoFlags { is_append: false, ..flags };
        self.pages.file().write(offset, &mut Limited::new(source, room), flags)
    }
    fn size(&self) -> u64 {
        self.pages.file().size()
    }
    fn seek_extent(&self, _: u64, _: Whence) -> Result<u64, Errno> {
        Err(Errno::EINVAL)
    }
    fn mappable(&self) -> Result<Arc<dyn Mappable>, Errno> {
        self.pages.file().mappable()
    }
    fn allocate(
        &self,
        offset: u64,
        length: u64,
        how: Allocation,
        caller: &dyn Principal,
    ) -> Result<(), Errno> {
        let keeps_size = match how {
            Allocation::PunchHole | Allocation::ZeroKeepSize => true,
            Allocation::Zero => false,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let end = offset.checked_add(length).ok_or(Errno::EINVAL)?;
        let size = self.size();
        if offset >= size || end > size && !keeps_size {
            return Err(Errno::EINVAL);
        }
        let length = length.min(size - offset);
        if !(offset | length).is_multiple_of(SECTOR) {
            return Err(Errno::EINVAL);
        }
        let how = if how == Allocation::Zero { Allocation::ZeroKeepSize } else { how };
        self.pages.file().allocate(offset, length, how, caller)
    }
    fn sync(&self, kind: SyncKind) -> Result<(), Errno> {
        self.pages.file().sync(kind)
    }
    fn write_range(&self, start: u64, end: u64, steps: RangeSteps) -> Result<(), Errno> {
        self.pages.file().write_range(start, end, steps)
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
