//! Opening FIFOs: a reader waits for a writer and the other way round (fifo(7)).
use super::{Direction, End, Pipe, PipeState};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use rt::thread::Woken;
use vfs::{
    Caller, Errno, Principal, Vnode,
    file::{File, Opener},
    poll::WaitQueue,
};

/// The opener of FIFOs; the pipe is in the vnode's slot.
pub struct FifoOpener;

impl Opener for FifoOpener {
    fn open(
        &self,
        vnode: &Arc<Vnode>,
        flags: u32,
        caller: &Caller<'_>,
    ) -> Result<Arc<dyn File>, Errno> {
        let (pipe, opener) = (pipe_of(vnode)?, caller.task);
        // A pipe without a name, opened through /proc, never waits for its other end.
        let is_anonymous = vnode.node().is_some();
        let end = match flags & raw::O_ACCMODE {
            raw::O_RDONLY if is_anonymous => pipe.end(Direction::Read, flags, opener),
            raw::O_WRONLY if is_anonymous => pipe.end(Direction::Write, flags, opener),
            raw::O_RDONLY => open_reader(&pipe, flags, opener),
            raw::O_WRONLY => open_writer(&pipe, flags, opener),
            raw::O_RDWR => pipe.end(Direction::Both, flags, opener),
            _ => return Err(Errno::EINVAL),
        };
        // The error is that of Linux's fifo_open, while pipe(2) fails with ENFILE.
        end.map(|end| end as Arc<dyn File>).map_err(|error| match error {
            Errno::ENFILE => Errno::ENOMEM,
            error => error,
        })
    }
}

fn pipe_of(vnode: &Vnode) -> Result<Arc<Pipe>, Errno> {
    let mut slot = vnode.pipe().lock();
    let kept = slot.get_or_insert_with(|| Arc::new(Pipe::new())).clone();
    kept.downcast::<Pipe>().map_err(|_| Errno::ENXIO)
}

fn open_reader(pipe: &Arc<Pipe>, flags: u32, opener: &dyn Principal) -> Result<Arc<End>, Errno> {
    let end = pipe.end(Direction::Read, flags, opener)?;
    if flags & raw::O_NONBLOCK == 0 {
        let has_writer = |state: &PipeState| state.writers_seen != end.others_at_open;
        wait_or_close(pipe, &end, &pipe.readable, has_writer)?;
    }
    Ok(end)
}

fn open_writer(pipe: &Arc<Pipe>, flags: u32, opener: &dyn Principal) -> Result<Arc<End>, Errno> {
    if flags & raw::O_NONBLOCK != 0 && pipe.state.lock().readers == 0 {
        return Err(Errno::ENXIO);
    }
    let end = pipe.end(Direction::Write, flags, opener)?;
    let has_reader = |state: &PipeState| state.readers_seen != end.others_at_open;
    wait_or_close(pipe, &end, &pipe.writable, has_reader)?;
    Ok(end)
}

/// Waits until `is_met` returns `true`; a signal closes the end again.
fn wait_or_close(
    pipe: &Pipe,
    end: &End,
    queue: &WaitQueue,
    is_met: impl Fn(&PipeState) -> bool,
) -> Result<(), Errno> {
    loop {
        let ticket = queue.ticket();
        if is_met(&pipe.state.lock()) {
            return Ok(());
        }
        if queue.wait(ticket, None) == Woken::Kicked {
            end.closed();
            return Err(Errno::Restart);
        }
    }
}
