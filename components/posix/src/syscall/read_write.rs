//! read, write and their relatives: pread, readv, preadv2 ... and sendfile.
use super::{Call, Entry};
use crate::{
    memory::{UserSink, UserSource},
    process::{
        Task,
        limits::{INFINITY, Resource},
    },
    signal::{self, Info},
};
use alloc::{sync::Arc, vec};
use linux_raw_sys::general as raw;
use vfs::{
    Errno, OpenFile,
    file::IoFlags,
    io::{SliceSink, SliceSource, Source},
};

/// The family's calls.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_read, "read", read),
    Entry::whole(raw::__NR_write, "write", write),
    Entry::whole(raw::__NR_pread64, "pread64", pread),
    Entry::whole(raw::__NR_pwrite64, "pwrite64", pwrite),
    Entry::whole(raw::__NR_readv, "readv", readv),
    Entry::whole(raw::__NR_writev, "writev", writev),
    Entry::whole(raw::__NR_preadv, "preadv", preadv),
    Entry::whole(raw::__NR_pwritev, "pwritev", pwritev),
    Entry::whole(raw::__NR_preadv2, "preadv2", preadv2),
    Entry::whole(raw::__NR_pwritev2, "pwritev2", pwritev2),
    Entry::whole(raw::__NR_sendfile, "sendfile", sendfile),
    Entry::whole(raw::__NR_copy_file_range, "copy_file_range", copy_file_range),
];

/// Bytes moved at once between two files.
const COPY_BYTES: usize = 64 << 10;
/// Flags of preadv2 and pwritev2 that mean something here.
const KNOWN_FLAGS: u32 =
    raw::RWF_HIPRI | raw::RWF_DSYNC | raw::RWF_SYNC | raw::RWF_NOWAIT | raw::RWF_APPEND;

fn read(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_readable(&file)?;
    let mut sink = user_sink(call)?;
    Ok(file.read(&mut sink)? as u64)
}

fn write(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_writable(&file)?;
    let mut source = user_source(call)?;
    write_stream(call.task, &file, &mut source)
}

fn pread(call: &mut Call<'_>) -> Result<u64, Errno> {
    let offset = offset(call.word(3))?;
    let file = call.file(0)?;
    check_positioned(&file)?;
    check_readable(&file)?;
    let mut sink = user_sink(call)?;
    Ok(file.read_at(offset, &mut sink, file.io_flags())? as u64)
}

fn pwrite(call: &mut Call<'_>) -> Result<u64, Errno> {
    let offset = offset(call.word(3))?;
    let file = call.file(0)?;
    check_positioned(&file)?;
    check_writable(&file)?;
    let mut source = user_source(call)?;
    write_positioned(call.task, &file, offset, &mut source, 0)
}

fn readv(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_readable(&file)?;
    let mut sink = vectored_sink(call)?;
    Ok(file.read(&mut sink)? as u64)
}

fn writev(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_writable(&file)?;
    let mut source = vectored_source(call)?;
    write_stream(call.task, &file, &mut source)
}

fn preadv(call: &mut Call<'_>) -> Result<u64, Errno> {
    let offset = offset(call.word(3))?;
    read_vectored(call, offset, 0)
}

fn pwritev(call: &mut Call<'_>) -> Result<u64, Errno> {
    let offset = offset(call.word(3))?;
    write_vectored(call, offset, 0)
}

fn preadv2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = known_flags(call)?;
    match call.word(3) as i64 {
        -1 if flags & raw::RWF_NOWAIT == 0 => readv(call),
        -1 => {
            let file = call.file(0)?;
            check_readable(&file)?;
            let mut sink = vectored_sink(call)?;
            let io = IoFlags { is_nonblocking: true, ..file.io_flags() };
            Ok(file.read_with(&mut sink, io)? as u64)
        }
        at => read_vectored(call, offset(at as u64)?, flags),
    }
}

fn pwritev2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = known_flags(call)?;
    match call.word(3) as i64 {
        -1 if flags == 0 => writev(call),
        -1 => {
            let file = call.file(0)?;
            check_writable(&file)?;
            let mut source = vectored_source(call)?;
            let count = file.write_with(&mut source, io_flags(&file, flags))?;
            sync_written(&file, flags)?;
            Ok(count as u64)
        }
        at => write_vectored(call, offset(at as u64)?, flags),
    }
}

fn read_vectored(call: &Call<'_>, offset: u64, flags: u32) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_positioned(&file)?;
    check_readable(&file)?;
    let mut sink = vectored_sink(call)?;
    Ok(file.read_at(offset, &mut sink, io_flags(&file, flags))? as u64)
}

fn write_vectored(call: &Call<'_>, offset: u64, flags: u32) -> Result<u64, Errno> {
    let file = call.file(0)?;
    check_positioned(&file)?;
    check_writable(&file)?;
    let mut source = vectored_source(call)?;
    write_positioned(call.task, &file, offset, &mut source, flags)
}

fn write_stream(task: &Arc<Task>, file: &OpenFile, source: &mut UserSource) -> Result<u64, Errno> {
    let mut bounded;
    let source: &mut dyn Source = match file_size_limit(task, file) {
        None => source,
        Some(limit) => {
            let is_append = file.io_flags().is_append;
            let at = if is_append { file.vnode().size() } else { file.offset() };
            bounded = Bounded::new(task, source, at, limit)?;
            &mut bounded
        }
    };
    let count = file.write(source)?;
    sync_written(file, 0)?;
    Ok(count as u64)
}

fn write_positioned(
    task: &Arc<Task>,
    file: &OpenFile,
    offset: u64,
    source: &mut UserSource,
    flags: u32,
) -> Result<u64, Errno> {
    let mut bounded;
    let source: &mut dyn Source = match file_size_limit(task, file) {
        None => source,
        Some(limit) => {
            bounded = Bounded::new(task, source, offset, limit)?;
            &mut bounded
        }
    };
    let count = file.write_at(offset, source, io_flags(file, flags))?;
    sync_written(file, flags)?;
    Ok(count as u64)
}

/// The size no regular file may pass by this task's writes, if there is one.
fn file_size_limit(task: &Task, file: &OpenFile) -> Option<u64> {
    let limit = task.process.limits.soft(Resource::FileSize);
    (limit != INFINITY && file.vnode().is_regular()).then_some(limit)
}

/// A source cut where the file may not grow further.
struct Bounded<'a> {
    source: &'a mut dyn Source,
    room: usize,
}

impl<'a> Bounded<'a> {
    /// `EFBIG` and SIGXFSZ where nothing may be written at `at`.
    fn new(
        task: &Arc<Task>,
        source: &'a mut dyn Source,
        at: u64,
        limit: u64,
    ) -> Result<Bounded<'a>, Errno> {
        if at >= limit && source.remaining() > 0 {
            let _ = signal::send_to_task(task, Info::kernel(signal::SIGXFSZ));
            return Err(Errno::EFBIG);
        }
        let room = usize::try_from(limit.saturating_sub(at)).unwrap_or(usize::MAX);
        Ok(Bounded { source, room })
    }
}

impl Source for Bounded<'_> {
    fn remaining(&self) -> usize {
        self.source.remaining().min(self.room)
    }
    fn take(&mut self, out: &mut [u8]) -> Result<usize, Errno> {
        let wanted = out.len().min(self.room);
        let count = self.source.take(out.split_at_mut(wanted).0)?;
        self.room -= count;
        Ok(count)
    }
    fn take_into_frame(
        &mut self,
        frame: &rt::memory::Frame,
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        let count = self.source.take_into_frame(frame, offset, length.min(self.room))?;
        self.room -= count;
        Ok(count)
    }
}

/// Makes what was written durable where the flags ask for it.
fn sync_written(file: &OpenFile, flags: u32) -> Result<(), Errno> {
    let is_whole = file.flags() & raw::O_SYNC == raw::O_SYNC || flags & raw::RWF_SYNC != 0;
    let is_data = file.flags() & raw::O_DSYNC != 0 || flags & raw::RWF_DSYNC != 0;
    if is_whole || is_data { file.file().sync(!is_whole) } else { Ok(()) }
}

fn sendfile(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (output, input) = (call.file(0)?, call.file(1)?);
    check_readable(&input)?;
    check_writable(&output)?;
    if output.io_flags().is_append {
        return Err(Errno::EINVAL);
    }
    let memory = call.task.memory();
    let place = call.word(2);
    let mut from = match place {
        0 => None,
        _ => Some(offset(memory.read::<u64>(place)?)?),
    };
    if input.vnode().is_directory() || !input.file().is_seekable() {
        return Err(Errno::EINVAL);
    }
    let count = copy(&input, &mut from, &output, &mut None, call.word(3))?;
    if let Some(from) = from {
        memory.write(place, &from)?;
    }
    Ok(count)
}

fn copy_file_range(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (input, output) = (call.file(0)?, call.file(2)?);
    check_readable(&input)?;
    check_writable(&output)?;
    if call.uint(5) != 0 || !input.vnode().is_regular() || !output.vnode().is_regular() {
        let is_directory = input.vnode().is_directory() || output.vnode().is_directory();
        return Err(if is_directory { Errno::EISDIR } else { Errno::EINVAL });
    }
    if output.io_flags().is_append {
        return Err(Errno::EBADF);
    }
    let memory = call.task.memory();
    let read_place = |place: u64| match place {
        0 => Ok(None),
        _ => memory.read::<u64>(place).and_then(offset).map(Some),
    };
    let (mut from, mut to) = (read_place(call.word(1))?, read_place(call.word(3))?);
    check_overlap(&input, from, &output, to, call.word(4))?;
    let count = copy(&input, &mut from, &output, &mut to, call.word(4))?;
    for (place, position) in [(call.word(1), from), (call.word(3), to)] {
        if let Some(position) = position {
            memory.write(place, &position)?;
        }
    }
    Ok(count)
}

/// Ranges of one file must not overlap.
fn check_overlap(
    input: &OpenFile,
    from: Option<u64>,
    output: &OpenFile,
    to: Option<u64>,
    length: u64,
) -> Result<(), Errno> {
    if !Arc::ptr_eq(input.vnode(), output.vnode()) {
        return Ok(());
    }
    let (from, to) =
        (from.unwrap_or_else(|| input.offset()), to.unwrap_or_else(|| output.offset()));
    match from.abs_diff(to) < length {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

/// Copies up to `length` bytes; positions that are given move on, else the offsets of the files do.
fn copy(
    input: &OpenFile,
    from: &mut Option<u64>,
    output: &OpenFile,
    to: &mut Option<u64>,
    length: u64,
) -> Result<u64, Errno> {
    let length = length.min(crate::memory::transfer::BYTES_MAX);
    let mut buffer = vec![0; COPY_BYTES.min(length as usize)];
    let mut done = 0;
    while done < length {
        let wanted = buffer.len().min((length - done) as usize);
        let position = from.unwrap_or_else(|| input.offset());
        let step = read_piece(input, position, buffer.split_at_mut(wanted).0).and_then(|count| {
            let mut source = SliceSource::new(buffer.split_at(count).0);
            let written = write_piece(output, to, &mut source)?;
            Ok((count, written))
        });
        let (count, written) = match step {
            Ok(step) => step,
            Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
        };
        advance(input, from, position, written)?;
        done += written as u64;
        if written < count || count == 0 {
            break;
        }
    }
    Ok(done)
}

fn read_piece(input: &OpenFile, at: u64, out: &mut [u8]) -> Result<usize, Errno> {
    input.read_at(at, &mut SliceSink::new(out), input.io_flags())
}

fn write_piece(
    output: &OpenFile,
    to: &mut Option<u64>,
    source: &mut SliceSource<'_>,
) -> Result<usize, Errno> {
    let mut done = 0;
    // Counted, as a file may take bytes without looking at them (`/dev/null`).
    let all = source.remaining();
    while done < all {
        let step = match to {
            Some(at) => output.write_at(*at, source, output.io_flags()),
            None => output.write(source),
        };
        match step {
            Ok(0) => break,
            Ok(count) => {
                done += count;
                *to = to.map(|at| at + count as u64);
            }
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Only what was written counts as read, so that nothing is lost.
fn advance(
    input: &OpenFile,
    from: &mut Option<u64>,
    position: u64,
    written: usize,
) -> Result<(), Errno> {
    let after = position + written as u64;
    match from {
        Some(from) => *from = after,
        None => {
            input.seek(after as i64, vfs::Whence::Start)?;
        }
    }
    Ok(())
}

fn user_sink(call: &Call<'_>) -> Result<UserSink, Errno> {
    check_length(call.word(2))?;
    UserSink::new(&call.task.memory(), call.word(1), call.word(2))
}

fn user_source(call: &Call<'_>) -> Result<UserSource, Errno> {
    check_length(call.word(2))?;
    UserSource::new(&call.task.memory(), call.word(1), call.word(2))
}

fn vectored_sink(call: &Call<'_>) -> Result<UserSink, Errno> {
    let memory = call.task.memory();
    let buffers = memory.read_iovecs(call.word(1), count(call)?)?;
    Ok(UserSink::vectored(&memory, buffers))
}

fn vectored_source(call: &Call<'_>) -> Result<UserSource, Errno> {
    let memory = call.task.memory();
    let buffers = memory.read_iovecs(call.word(1), count(call)?)?;
    Ok(UserSource::vectored(&memory, buffers))
}

fn count(call: &Call<'_>) -> Result<usize, Errno> {
    usize::try_from(call.word(2)).map_err(|_| Errno::EINVAL)
}

/// A length is a `ssize_t`; one that is negative is taken for an address that is.
fn check_length(length: u64) -> Result<(), Errno> {
    if length > i64::MAX as u64 { Err(Errno::EINVAL) } else { Ok(()) }
}

fn offset(value: u64) -> Result<u64, Errno> {
    if value > i64::MAX as u64 { Err(Errno::EINVAL) } else { Ok(value) }
}

fn known_flags(call: &Call<'_>) -> Result<u32, Errno> {
    let flags = call.uint(5);
    if flags & !KNOWN_FLAGS == 0 { Ok(flags) } else { Err(Errno::EOPNOTSUPP) }
}

fn io_flags(file: &OpenFile, flags: u32) -> IoFlags {
    let own = file.io_flags();
    IoFlags {
        is_nonblocking: own.is_nonblocking || flags & raw::RWF_NOWAIT != 0,
        is_append: own.is_append || flags & raw::RWF_APPEND != 0,
    }
}

fn check_readable(file: &OpenFile) -> Result<(), Errno> {
    if file.is_readable() { Ok(()) } else { Err(Errno::EBADF) }
}

fn check_writable(file: &OpenFile) -> Result<(), Errno> {
    if file.is_writable() { Ok(()) } else { Err(Errno::EBADF) }
}

fn check_positioned(file: &OpenFile) -> Result<(), Errno> {
    if file.is_path_only() {
        return Err(Errno::EBADF);
    }
    if file.file().is_seekable() { Ok(()) } else { Err(Errno::ESPIPE) }
}
