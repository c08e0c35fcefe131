//! Interval timers (setitimer), POSIX timers (timer_create) and the limit on processor time.
pub use super::data::{Notify, PosixTimer, ProcessTimers, Schedule};
use super::{
    data::{Clock, SECOND_NS},
    queue::{self, Target, Timed, Which},
};
use crate::{
    limits::{INFINITY, Resource},
    object::Process,
    signal::{
        info::Info,
        number::{SIGALRM, SIGKILL, SIGPROF, SIGVTALRM, SIGXCPU},
        queue::OVERRUN_MAX,
        send,
    },
    task::Task,
    tree,
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::Ordering;
use vfs::Errno;

const TIMERS_MAX: usize = 1024;

impl Schedule {
    /// Returns the time left on a clock that shows `now_ns`, and the interval; the time is 0 if the timer is not armed,
    /// and at least 1 if it is.
    pub fn left(&self, now_ns: u64) -> (u64, u64) {
        let left = self.deadline_ns.map_or(0, |deadline| deadline.saturating_sub(now_ns).max(1));
        (left, self.interval_ns)
    }
    /// Makes a schedule for `deadline_ns`, or one that is not armed; no receiver is told before [`Schedule::arm`].
    pub fn new(deadline_ns: Option<u64>, interval_ns: u64) -> Schedule {
        Schedule { deadline_ns, interval_ns, token: None }
    }
    /// Cancels [`Schedule::arm`].
    pub fn disarm(&mut self) {
        if let Some(token) = self.token.take() {
            queue::disarm(token);
        }
    }
    /// Registers `target` to be told when `clock` may have reached the deadline.
    pub fn arm(&mut self, clock: Clock, target: Target) {
        self.disarm();
        if let Some(deadline) = self.deadline_ns {
            self.token = Some(queue::arm(clock.earliest(deadline), target));
        }
    }
    /// Returns the number of expirations up to `now_ns`, and moves the deadline past it.
    pub fn expire(&mut self, now_ns: u64) -> u64 {
        let Some(deadline) = self.deadline_ns.filter(|deadline| *deadline <= now_ns) else {
            return 0;
        };
        let Some(missed) = (now_ns - deadline).checked_div(self.interval_ns) else {
            self.deadline_ns = None;
            return 1;
        };
        self.deadline_ns =
            Some(deadline.saturating_add((missed + 1).saturating_mul(self.interval_ns)));
        missed + 1
    }
}

fn target(process: &Arc<Process>, which: Which) -> Target {
    let process: Weak<Process> = Arc::downgrade(process);
    Target::Process(process, which)
}

fn interval_clock(process: &Process, number: u32) -> Clock {
    if number == 0 { Clock::Monotonic } else { Clock::Process(process.id()) }
}

/// Returns the time on the clock of interval timer `number`: user time only for `ITIMER_VIRTUAL`.
fn interval_now(process: &Process, number: u32) -> u64 {
    match number {
        1 => process.cpu_time().user_ns,
        _ => interval_clock(process, number).now_ns(),
    }
}

/// Returns the time left of interval timer `number` and its interval.
pub fn interval_left(process: &Process, number: u32) -> (u64, u64) {
    let now = interval_now(process, number);
    process.timers.lock().interval.get(number as usize).map_or((0, 0), |timer| timer.left(now))
}

/// Sets interval timer `number` to expire in `value_ns` (0: never) and then each `interval_ns`. Returns the time left
/// and the interval before.
pub fn set_interval(
    process: &Arc<Process>,
    number: u32,
    value_ns: u64,
    interval_ns: u64,
) -> (u64, u64) {
    let now = interval_now(process, number);
    let clock = interval_clock(process, number);
    let mut timers = process.timers.lock();
    let Some(timer) = timers.interval.get_mut(number as usize) else { return (0, 0) };
    let before = timer.left(now);
    timer.disarm();
    timer.deadline_ns = (value_ns != 0).then(|| now.saturating_add(value_ns));
    timer.interval_ns = interval_ns;
    timer.arm(clock, target(process, Which::Interval(number)));
    before
}

/// Makes a POSIX timer; returns its id, which is also its `si_value` if no `value` is given.
///
/// # Errors
/// `EAGAIN` if the process has too many.
pub fn create(process: &Process, mut timer: PosixTimer, value: Option<u64>) -> Result<i32, Errno> {
    let mut timers = process.timers.lock();
    if timers.posix.len() >= TIMERS_MAX {
        return Err(Errno::EAGAIN);
    }
    let mut id = timers.next_id;
    while timers.posix.contains_key(&id) {
        id = id_after(id);
    }
    timers.next_id = id_after(id);
    timer.value = value.unwrap_or(id as u64);
    timers.posix.insert(id, timer);
    Ok(id)
}

/// Returns the id after `id`: ids of POSIX timers are consecutive, as on Linux.
fn id_after(id: i32) -> i32 {
    id.checked_add(1).unwrap_or(0)
}

/// Returns the POSIX timer `id`.
///
/// # Errors
/// `EINVAL` if there is none.
pub fn get(process: &Process, id: i32) -> Result<PosixTimer, Errno> {
    process.timers.lock().posix.get(&id).copied().ok_or(Errno::EINVAL)
}

/// Arms POSIX timer `id` for the time that `start` returns for its clock (`None` disarms it). Returns its previous
/// state.
///
/// # Errors
/// `EINVAL` if there is none.
pub fn set(
    process: &Arc<Process>,
    id: i32,
    start: impl FnOnce(Clock) -> (Clock, Option<u64>),
    interval_ns: u64,
) -> Result<PosixTimer, Errno> {
    let mut timers = process.timers.lock();
    let timer = timers.posix.get_mut(&id).ok_or(Errno::EINVAL)?;
    let before = *timer;
    let (base, deadline_ns) = start(timer.clock);
    timer.schedule.deadline_ns = deadline_ns;
    timer.schedule.interval_ns = interval_ns;
    timer.overrun = 0;
    timer.base = base;
    timer.schedule.arm(base, target(process, Which::Posix(id)));
    Ok(before)
}

/// Deletes POSIX timer `id`.
///
/// # Errors
/// `EINVAL` if there is none.
pub fn delete(process: &Process, id: i32) -> Result<(), Errno> {
    let mut timer = process.timers.lock().posix.remove(&id).ok_or(Errno::EINVAL)?;
    timer.schedule.disarm();
    Ok(())
}

/// Deletes every POSIX timer, for execve.
pub fn delete_all(process: &Process) {
    let posix = core::mem::take(&mut process.timers.lock().posix);
    for mut timer in posix.into_values() {
        timer.schedule.disarm();
    }
}

/// Called when the process has ended: disarms all timers.
pub fn process_ended(process: &Process) {
    delete_all(process);
    let mut timers = process.timers.lock();
    for timer in &mut timers.interval {
        timer.disarm();
    }
    timers.limit.disarm();
}

/// Called when the limit on processor time was set: starts watching it.
pub fn watch_cpu_limit(process: &Arc<Process>) {
    let soft = process.limits.soft(Resource::CpuSeconds);
    let mut timers = process.timers.lock();
    timers.limit.deadline_ns = (soft != INFINITY).then(|| soft.saturating_mul(SECOND_NS));
    timers.limit.arm(Clock::Process(process.id()), target(process, Which::CpuLimit));
}

/// Called when the wall clock was set: updates the timers that wait for a time of it.
pub(super) fn wall_was_set() {
    let processes: Vec<_> = tree::read().processes().cloned().collect();
    for process in &processes {
        let mut timers = process.timers.lock();
        let on_wall = timers.posix.iter_mut().filter(|(_, timer)| timer.base == Clock::Realtime);
        for (id, timer) in on_wall {
            timer.schedule.arm(Clock::Realtime, target(process, Which::Posix(*id)));
        }
    }
}

impl Timed for Process {
    fn due(self: Arc<Self>, which: Which) {
        match which {
            Which::Interval(number) => interval_due(&self, number),
            Which::Posix(id) => posix_due(&self, id),
            Which::CpuLimit => limit_due(&self),
        }
    }
}

fn interval_due(process: &Arc<Process>, number: u32) {
    let now = interval_now(process, number);
    let clock = interval_clock(process, number);
    let expired = {
        let mut timers = process.timers.lock();
        let Some(timer) = timers.interval.get_mut(number as usize) else { return };
        let expired = timer.expire(now);
        timer.arm(clock, target(process, Which::Interval(number)));
        expired
    };
    if expired > 0 {
        let signal = match number {
            0 => SIGALRM,
            1 => SIGVTALRM,
            _ => SIGPROF,
        };
        let _ = match number {
            0 => send::send_to_process(process, Info::kernel(signal)),
            _ => send_to_worker(process, Info::kernel(signal)),
        };
    }
}

/// Sends a signal of a timer on the processor time of `process` to the thread that has used most since it got one: over
/// time each gets its share of the signals. Linux sends it to the thread that runs as the timer expires.
fn send_to_worker(process: &Arc<Process>, info: Info) -> Result<(), Errno> {
    let (mut all, mut busiest) = (0, None);
    for task in process.tasks() {
        let used = rt::thread::cpu_time(task.thread()).unwrap_or_default();
        let used = (used.user_ns + used.system_ns) as i64;
        let open = used.saturating_sub(task.signalled_ns.load(Ordering::Relaxed));
        all += open;
        if busiest.as_ref().is_none_or(|(most, _)| open > *most) {
            busiest = Some((open, task));
        }
    }
    match busiest {
        Some((_, task)) => {
            task.signalled_ns.fetch_add(all, Ordering::Relaxed);
            send::send_to_process_of(&task, info)
        }
        None => send::send_to_process(process, info),
    }
}

fn posix_due(process: &Arc<Process>, id: i32) {
    let Ok(now) = get(process, id).map(|timer| timer.base.now_ns()) else { return };
    let mut timers = process.timers.lock();
    let Some(timer) = timers.posix.get_mut(&id) else { return };
    let expired = timer.schedule.expire(now);
    timer.schedule.arm(timer.base, target(process, Which::Posix(id)));
    let copy = *timer;
    drop(timers);
    if expired > 0 {
        tell(process, id, &copy, u32::try_from(expired).unwrap_or(u32::MAX));
    }
}

/// Signals an expiration, or counts it if the signal of the last one is still pending.
fn tell(process: &Arc<Process>, id: i32, timer: &PosixTimer, expired: u32) {
    let (signal, thread) = match timer.notify {
        Notify::None => return,
        Notify::Process(signal) => (signal, None),
        Notify::Thread(thread, signal) => (signal, tree::task(thread)),
    };
    let is_pending = count_pending(process, thread.as_deref(), id as u32, expired);
    if !is_pending {
        let overrun = (expired - 1).min(OVERRUN_MAX);
        let info = Info::timer(signal, id as u32, overrun, timer.value);
        let _ = match &thread {
            Some(task) => send::send_to_task(task, info),
            None => send::send_to_process(process, info),
        };
    }
}

fn count_pending(process: &Process, thread: Option<&Task>, id: u32, expired: u32) -> bool {
    let mut state = process.signals.lock();
    match thread {
        Some(task) => task.signals.lock().queue.count_overrun(id, expired),
        None => state.queue.count_overrun(id, expired),
    }
}

/// Called when a task takes `info`, the signal of a POSIX timer: timer_getoverrun reports it from now on.
pub fn signal_taken(process: &Process, info: &Info) {
    let (id, overrun) = info.sender();
    if let Some(timer) = process.timers.lock().posix.get_mut(&(id as i32)) {
        timer.overrun = overrun;
    }
}

fn limit_due(process: &Arc<Process>) {
    let now = Clock::Process(process.id()).now_ns();
    let hard = process.limits.get(Resource::CpuSeconds as u32).map_or(INFINITY, |limit| limit.hard);
    let expired = {
        let mut timers = process.timers.lock();
        timers.limit.interval_ns = SECOND_NS;
        let expired = timers.limit.expire(now);
        timers.limit.arm(Clock::Process(process.id()), target(process, Which::CpuLimit));
        expired
    };
    if expired > 0 {
        let is_final = hard != INFINITY && now >= hard.saturating_mul(SECOND_NS);
        let _ = send_to_worker(process, Info::kernel(if is_final { SIGKILL } else { SIGXCPU }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_look_counts_every_expiry() {
        let mut timer = Schedule::new(Some(100), 50);
        assert_eq!(timer.expire(99), 0);
        assert_eq!(timer.expire(210), 3);
        assert_eq!(timer.deadline_ns, Some(250));
    }

    #[test]
    fn a_single_shot_expires_once() {
        let mut timer = Schedule::new(Some(100), 0);
        assert_eq!(timer.expire(500), 1);
        assert_eq!(timer.expire(900), 0);
        assert_eq!(timer.left(900), (0, 0));
    }
}
