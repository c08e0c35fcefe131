//! [`TimerFile`]: the file of timerfd_create(2).
//!
//! The timer thread only wakes who waits; expiries are counted when somebody looks, and a periodic
//! timer is armed again by the read (as in Linux, so that an edge-triggered watcher sees one edge
//! a read). Lock order: `timerfd.state`, then `time.queue`.
use alloc::{
    format,
    string::String,
    sync::{Arc, Weak},
};
use linux_raw_sys::general as raw;
use process::time::{
    clock::Clock,
    queue::{Alarm, Target},
    timers::Schedule,
    wall::{self, WallWatcher},
};
use rt::{lock_class, sync::Mutex, thread::Woken};
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready},
    io::Sink,
    poll::{PollTable, WaitQueue},
};

lock_class! {
    static STATE = "timerfd.state";
}

/// Bytes of the count that a read returns.
const COUNT_BYTES: usize = size_of::<u64>();

/// The arguments of timerfd_settime(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The first expiration: a time of the clock with `TFD_TIMER_ABSTIME`, else a time from now; 0
    /// is never.
    pub value_ns: u64,
    /// The time between expirations; 0 if there is only one.
    pub interval_ns: u64,
    /// `TFD_TIMER_` flags.
    pub flags: u32,
}

struct TimerState {
    schedule: Schedule,
    /// The clock of the deadline.
    base: Clock,
    /// Number of expirations not read yet.
    expiries: u64,
    /// The wall clock was set, and the timer is to report that.
    is_cancelled: bool,
    flags: u32,
}

/// A timer that can be read and waited for.
pub struct TimerFile {
    this: Weak<TimerFile>,
    number: u32,
    clock: Clock,
    state: Mutex<TimerState>,
    changed: WaitQueue,
}

impl TimerFile {
    /// Makes a timer on `clock`, whose Linux number is `number`; it is not armed.
    pub fn new(number: u32, clock: Clock) -> Arc<TimerFile> {
        let state = TimerState {
            schedule: Schedule::default(),
            base: clock,
            expiries: 0,
            is_cancelled: false,
            flags: 0,
        };
        let timer = Arc::new_cyclic(|this| TimerFile {
            this: this.clone(),
            number,
            clock,
            state: Mutex::new(&STATE, state),
            changed: WaitQueue::new(),
        });
        let watcher: Weak<dyn WallWatcher> = timer.this.clone();
        wall::watch(watcher);
        timer
    }
    /// Arms or disarms it. Returns the remaining time and the interval before.
    ///
    /// # Errors
    /// `ECANCELED` if the wall clock was set since the last call and no read has reported it; the
    /// timer is armed in any case.
    pub fn set(&self, setting: Setting) -> Result<(u64, u64), Errno> {
        let is_absolute = setting.flags & raw::TFD_TIMER_ABSTIME != 0;
        let mut state = self.state.lock();
        let before = state.look();
        state.schedule.disarm();
        state.base = if is_absolute { self.clock } else { self.clock.for_relative() };
        let start = if is_absolute { 0 } else { state.base.now_ns() };
        let deadline = start.saturating_add(setting.value_ns);
        state.schedule =
            Schedule::new((setting.value_ns != 0).then_some(deadline), setting.interval_ns);
        state.expiries = 0;
        state.flags = setting.flags;
        let was_cancelled = core::mem::take(&mut state.is_cancelled);
        self.arm(&mut state);
        match was_cancelled && state.cancels() && setting.value_ns != 0 {
            true => Err(Errno::ECANCELED),
            false => Ok(before),
        }
    }
    /// Returns the remaining time and the interval.
    pub fn left(&self) -> (u64, u64) {
        let mut state = self.state.lock();
        let left = state.look();
        self.arm(&mut state);
        left
    }
    fn arm(&self, state: &mut TimerState) {
        let alarm: Weak<dyn Alarm> = self.this.clone();
        let base = state.base;
        state.schedule.arm(base, Target::Alarm(alarm));
    }
    /// Returns the number of expirations since the last call; `None` if there were none.
    fn take(&self) -> Option<Result<u64, Errno>> {
        let mut state = self.state.lock();
        if core::mem::take(&mut state.is_cancelled) {
            state.expiries = 0;
            return Some(Err(Errno::ECANCELED));
        }
        state.look();
        let taken = core::mem::take(&mut state.expiries);
        if taken == 0 {
            return None;
        }
        self.arm(&mut state);
        Some(Ok(taken))
    }
}

impl TimerState {
    /// Counts the expirations. Returns the remaining time and the interval after that.
    fn look(&mut self) -> (u64, u64) {
        let now = self.base.now_ns();
        self.expiries += self.schedule.expire(now);
        self.schedule.left(now)
    }
    fn cancels(&self) -> bool {
        self.base == Clock::Realtime && self.flags & raw::TFD_TIMER_CANCEL_ON_SET != 0
    }
    fn is_ready(&self) -> bool {
        let is_due = |deadline| deadline <= self.base.now_ns();
        self.is_cancelled || self.expiries > 0 || self.schedule.deadline_ns.is_some_and(is_due)
    }
}

impl Alarm for TimerFile {
    fn due(&self) {
        let mut state = self.state.lock();
        let is_ready = state.is_ready();
        if !is_ready {
            // The wall clock was set back meanwhile.
            self.arm(&mut state);
        }
        drop(state);
        if is_ready {
            self.changed.wake();
        }
    }
}

impl WallWatcher for TimerFile {
    fn wall_was_set(&self) {
        let mut state = self.state.lock();
        if state.base != Clock::Realtime {
            return;
        }
        state.is_cancelled = state.cancels();
        let is_cancelled = state.is_cancelled;
        self.arm(&mut state);
        drop(state);
        if is_cancelled {
            self.changed.wake();
        }
    }
}

impl File for TimerFile {
    fn lacks_write(&self) -> bool {
        true
    }
    /// Tells that lseek has no effect.
    fn places(&self) -> vfs::file::Places {
        vfs::file::Places::Start
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        if sink.remaining() < COUNT_BYTES {
            return Err(Errno::EINVAL);
        }
        loop {
            let ticket = self.changed.ticket();
            if let Some(taken) = self.take() {
                return sink.put_whole(&taken?.to_le_bytes());
            }
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if self.changed.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    fn gives_spliced(&self) -> bool {
        false
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.changed);
        }
        match self.state.lock().is_ready() {
            true => Ready::IN | Ready::READ_NORMAL,
            false => Ready::empty(),
        }
    }
    fn details(&self) -> String {
        let mut state = self.state.lock();
        let (left, interval) = state.look();
        let (expiries, flags) = (state.expiries, state.flags);
        self.arm(&mut state);
        drop(state);
        let pair = |ns: u64| format!("({}, {})", ns / 1_000_000_000, ns % 1_000_000_000);
        format!(
            "clockid: {}\nticks: {expiries}\nsettime flags: 0{flags:o}\nit_value: {}\nit_interval: {}\n",
            self.number,
            pair(left),
            pair(interval),
        )
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        self.state.lock().schedule.disarm();
    }
}
