//! [`Wire`]: the thread that moves a [`Line`] by the machine's clock.
use crate::{
    end::End,
    lane::Counters,
    line::{Line, Settings},
};
use anyhow::{Context, Result, anyhow};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};
use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A wire under way. It ends when it is dropped; frames that are under way then are lost.
pub struct Wire {
    counters: Arc<Mutex<[Counters; 2]>>,
    /// The thread ends when this end of it is closed.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Wire {
    /// Joins two ends.
    ///
    /// # Errors
    /// Fails if the settings are wrong or the capture cannot be written.
    pub fn start(settings: &Settings, ends: [Box<dyn End>; 2]) -> Result<Wire> {
        let line = Line::new(settings, ends)?;
        let (stop, stopped) = UnixStream::pair().context("making a wire")?;
        let counters = Arc::new(Mutex::new(line.counters()));
        let shared = counters.clone();
        let thread = thread::Builder::new()
            .name("wire".to_owned())
            .spawn(move || run(line, &stopped, &shared))
            .context("starting a wire")?;
        Ok(Wire { counters, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns what became of the frames so far, from the first end and from the second.
    pub fn counters(&self) -> [Counters; 2] {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the wire. Returns what became of all frames.
    ///
    /// # Errors
    /// The reason why the wire had ended before.
    pub fn finish(mut self) -> Result<[Counters; 2]> {
        self.end()?;
        Ok(self.counters())
    }

    fn end(&mut self) -> Result<()> {
        self.stop = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(anyhow!("the wire's thread panicked")))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn run(mut line: Line, stopped: &UnixStream, shared: &Mutex<[Counters; 2]>) -> Result<()> {
    let start = Instant::now();
    loop {
        let next = line.turn(start.elapsed())?;
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = line.counters();
        let wait = next.map(|next| next.saturating_sub(start.elapsed()));
        if sleep(&line, stopped, wait)? {
            return Ok(());
        }
    }
}

/// Waits for a bell, an outlet, the time or the end. Returns whether it is the end.
fn sleep(line: &Line, stopped: &UnixStream, wait: Option<Duration>) -> Result<bool> {
    let mut entries = vec![PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
    entries.extend(line.bells().map(|bell| PollFd::new(bell, PollFlags::POLLIN)));
    entries.extend(line.outlets().map(|outlet| PollFd::new(outlet, PollFlags::POLLOUT)));
    match ppoll(&mut entries, wait.map(TimeSpec::from_duration), None) {
        Ok(_) => Ok(entries[0].any().unwrap_or(true)),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error).context("waiting at a wire"),
    }
}
