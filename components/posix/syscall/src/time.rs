//! Calls about clocks, sleeping, interval and POSIX timers.
use super::entry::Entry;
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use process::{
    Process, Task,
    call::Call,
    signal::SIGALRM,
    time::{
        SECOND_NS,
        clock::{Clock, Timespec, Timeval},
        timers::{self, Notify, PosixTimer, Schedule},
        wall,
    },
};
use rt::thread::Woken;
use vfs::{Errno, credentials::Capabilities};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_clock_gettime, "clock_gettime", clock_gettime),
    Entry::whole(raw::__NR_clock_getres, "clock_getres", clock_getres),
    Entry::whole(raw::__NR_clock_settime, "clock_settime", clock_settime),
    Entry::whole(raw::__NR_clock_nanosleep, "clock_nanosleep", clock_nanosleep),
    Entry::whole(raw::__NR_nanosleep, "nanosleep", nanosleep),
    Entry::whole(raw::__NR_gettimeofday, "gettimeofday", gettimeofday),
    Entry::partial(raw::__NR_settimeofday, "settimeofday", "time zones", settimeofday),
    Entry::whole(raw::__NR_time, "time", time),
    Entry::whole(raw::__NR_setitimer, "setitimer", setitimer),
    Entry::whole(raw::__NR_getitimer, "getitimer", getitimer),
    Entry::whole(raw::__NR_alarm, "alarm", alarm),
    Entry::partial(
        raw::__NR_timer_create,
        "timer_create",
        "SIGEV_THREAD in the kernel (libc does it)",
        timer_create,
    ),
    Entry::whole(raw::__NR_timer_settime, "timer_settime", timer_settime),
    Entry::whole(raw::__NR_timer_gettime, "timer_gettime", timer_gettime),
    Entry::whole(raw::__NR_timer_getoverrun, "timer_getoverrun", timer_getoverrun),
    Entry::whole(raw::__NR_timer_delete, "timer_delete", timer_delete),
];

const MICROS_A_SECOND: i64 = 1_000_000;
const COARSE_RESOLUTION_NS: u64 = 1;

fn clock_gettime(call: &mut Call<'_>) -> Result<u64, Errno> {
    let clock = Clock::decode(call.task, call.int(0))?;
    call.memory.write(call.word(1), &Timespec::from_ns(clock.now_ns()))?;
    Ok(0)
}

fn clock_getres(call: &mut Call<'_>) -> Result<u64, Errno> {
    Clock::decode(call.task, call.int(0))?;
    if call.word(1) != 0 {
        call.memory.write(call.word(1), &Timespec::from_ns(COARSE_RESOLUTION_NS))?;
    }
    Ok(0)
}

fn set_wall(task: &Task, ns: u64) -> Result<u64, Errno> {
    check_time(task)?;
    wall::set(ns);
    Ok(0)
}

fn check_time(task: &Task) -> Result<(), Errno> {
    if task.credentials().has(Capabilities::SYS_TIME) { Ok(()) } else { Err(Errno::EPERM) }
}

/// Checks the privilege to wake the machine.
pub(super) fn check_alarm(task: &Task, clock: i32) -> Result<(), Errno> {
    let is_allowed = !Clock::is_alarm(clock) || task.credentials().has(Capabilities::WAKE_ALARM);
    if is_allowed { Ok(()) } else { Err(Errno::EPERM) }
}

fn clock_settime(call: &mut Call<'_>) -> Result<u64, Errno> {
    let number = call.int(0);
    if number > 0 || Clock::check_number(number).is_err() {
        return Err(Errno::EINVAL);
    }
    let time = call.memory.read::<Timespec>(call.word(1))?;
    if number != 0 {
        // The time that a process took cannot be set.
        return Clock::decode(call.task, number).and(Err(Errno::EPERM));
    }
    set_wall(call.task, time.to_ns()?)
}

fn gettimeofday(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.memory;
    if call.word(0) != 0 {
        memory.write(call.word(0), &Timeval::from_ns(rt::time::wall_ns()))?;
    }
    if call.word(1) != 0 {
        memory.write(call.word(1), &[0u32; 2])?;
    }
    Ok(0)
}

fn settimeofday(call: &mut Call<'_>) -> Result<u64, Errno> {
    let time = match call.word(0) {
        0 => None,
        at => Some(call.memory.read::<Timeval>(at)?),
    };
    if time.is_some_and(|time| !(0..=MICROS_A_SECOND).contains(&time.microseconds)) {
        return Err(Errno::EINVAL);
    }
    if call.word(1) != 0 {
        call.memory.read::<[i32; 2]>(call.word(1))?;
    }
    match time {
        Some(time) => set_wall(call.task, time.to_ns()?),
        None => check_time(call.task).map(|()| 0),
    }
}

fn time(call: &mut Call<'_>) -> Result<u64, Errno> {
    let seconds = rt::time::wall_ns() / SECOND_NS;
    if call.word(0) != 0 {
        call.memory.write(call.word(0), &seconds)?;
    }
    Ok(seconds)
}

fn nanosleep(call: &mut Call<'_>) -> Result<u64, Errno> {
    let ns = call.memory.read::<Timespec>(call.word(0))?.to_ns()?;
    let deadline = rt::time::now().after_ns(ns);
    sleep_relative(call, Clock::Monotonic, deadline.0, call.word(1))
}

fn clock_nanosleep(call: &mut Call<'_>) -> Result<u64, Errno> {
    let clock = Clock::decode_timed(call.task, call.int(0))?;
    if matches!(clock, Clock::Thread(_)) {
        let is_by_name = call.uint(0) == raw::CLOCK_THREAD_CPUTIME_ID;
        return Err(if is_by_name { Errno::EOPNOTSUPP } else { Errno::EINVAL });
    }
    let ns = call.memory.read::<Timespec>(call.word(2))?.to_ns()?;
    if Clock::is_alarm(call.int(0)) && call.uint(1) & !raw::TIMER_ABSTIME != 0 {
        return Err(Errno::EINVAL);
    }
    check_alarm(call.task, call.int(0))?;
    if call.uint(1) & raw::TIMER_ABSTIME != 0 {
        return sleep(clock, ns).map_err(|_| Errno::RestartUnhandled);
    }
    // A relative sleep is not moved by setting the clock.
    let clock = clock.for_relative();
    sleep_relative(call, clock, clock.now_ns().saturating_add(ns), call.word(3))
}

/// Sleeps until `clock` shows `deadline_ns`.
fn sleep(clock: Clock, deadline_ns: u64) -> Result<u64, Errno> {
    loop {
        let ticket = wall::SET.ticket();
        if clock.now_ns() >= deadline_ns {
            return Ok(0);
        }
        let deadline = clock.earliest(deadline_ns);
        let woken = match clock {
            Clock::Realtime => wall::SET.wait_interruptible(ticket, Some(deadline)),
            _ => rt::thread::park_interruptible(Some(deadline)),
        };
        if woken == Woken::Kicked {
            return Err(Errno::EINTR);
        }
    }
}

fn sleep_relative(
    call: &Call<'_>,
    clock: Clock,
    deadline_ns: u64,
    left_at: u64,
) -> Result<u64, Errno> {
    if sleep(clock, deadline_ns).is_ok() {
        return Ok(0);
    }
    let left = deadline_ns.saturating_sub(clock.now_ns());
    if left_at != 0 {
        call.memory.commit(left_at, &Timespec::from_ns(left))?;
    }
    let process = match clock {
        Clock::Process(id) => u64::from(id),
        _ => 0,
    };
    Err(call.task.restart_as(continue_sleep, [process, deadline_ns, left_at, 0, 0, 0]))
}

/// Continues a relative sleep for restart_syscall: arguments are process (0: monotonic clock), deadline, and
/// the address for the remaining time.
fn continue_sleep(call: &mut Call<'_>) -> Result<u64, Errno> {
    let clock = match call.uint(0) {
        0 => Clock::Monotonic,
        id => Clock::Process(id),
    };
    sleep_relative(call, clock, call.word(1), call.word(2))
}

/// `struct itimerval`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct IntervalValue {
    interval: Timeval,
    value: Timeval,
}

impl IntervalValue {
    fn new((left_ns, interval_ns): (u64, u64)) -> IntervalValue {
        const MICROSECOND_NS: u64 = 1000;
        let left = if left_ns == 0 { 0 } else { left_ns.max(MICROSECOND_NS) };
        IntervalValue { interval: Timeval::from_ns(interval_ns), value: Timeval::from_ns(left) }
    }
}

fn decode_interval(call: &Call<'_>) -> Result<u32, Errno> {
    let number = call.uint(0);
    if number <= raw::ITIMER_PROF { Ok(number) } else { Err(Errno::EINVAL) }
}

fn setitimer(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.memory;
    let (value_ns, interval_ns) = match call.word(1) {
        0 => (0, 0),
        at => {
            let new = memory.read::<IntervalValue>(at)?;
            (new.value.to_ns()?, new.interval.to_ns()?)
        }
    };
    let number = decode_interval(call)?;
    let before = timers::set_interval(&call.task.process, number, value_ns, interval_ns);
    if call.word(2) != 0 {
        memory.commit(call.word(2), &IntervalValue::new(before))?;
    }
    Ok(0)
}

fn getitimer(call: &mut Call<'_>) -> Result<u64, Errno> {
    let number = decode_interval(call)?;
    let left = timers::interval_left(&call.task.process, number);
    call.memory.write(call.word(1), &IntervalValue::new(left))?;
    Ok(0)
}

fn alarm(call: &mut Call<'_>) -> Result<u64, Errno> {
    let ns = u64::from(call.uint(0)) * SECOND_NS;
    let (left_ns, _) = timers::set_interval(&call.task.process, raw::ITIMER_REAL, ns, 0);
    let rounded = (left_ns + SECOND_NS / 2) / SECOND_NS;
    Ok(if left_ns == 0 { 0 } else { rounded.max(1) })
}

/// The first words of `struct sigevent`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SignalEvent {
    value: u64,
    signal: u32,
    notify: u32,
    thread: u32,
    padding: u32,
}

fn timer_create(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (memory, number) = (call.memory, call.int(0));
    let event = match call.word(1) {
        0 => None,
        at => Some(memory.read::<SignalEvent>(at)?),
    };
    // A clock whose process does not exist, or that is not available to all, is refused once the timer has its
    // number.
    let clock = match Clock::decode_timed(call.task, number) {
        Err(Errno::EOPNOTSUPP) => return Err(Errno::EOPNOTSUPP),
        clock => clock.and_then(|clock| check_alarm(call.task, number).map(|()| clock)),
    };
    Clock::check_number(number)?;
    let (notify, value) = match event {
        None => (Notify::Process(SIGALRM), None),
        Some(event) => (decode_notify(&call.task.process, &event)?, Some(event.value)),
    };
    let schedule = Schedule::default();
    let base = clock.unwrap_or(Clock::Monotonic);
    let timer = PosixTimer { clock: base, base, notify, value: 0, overrun: 0, schedule };
    let id = timers::create(&call.task.process, timer, value)?;
    let told = memory.write(call.word(2), &id).and(clock);
    if let Err(errno) = told {
        timers::delete(&call.task.process, id)?;
        return Err(errno);
    }
    Ok(0)
}

fn decode_notify(process: &Process, event: &SignalEvent) -> Result<Notify, Errno> {
    let signal = u8::try_from(event.signal)
        .ok()
        .filter(|signal| (1..=process::signal::LAST).contains(signal));
    match event.notify {
        raw::SIGEV_NONE => Ok(Notify::None),
        raw::SIGEV_SIGNAL => Ok(Notify::Process(signal.ok_or(Errno::EINVAL)?)),
        raw::SIGEV_THREAD_ID => {
            let is_own = process.task_ids().contains(&event.thread);
            match signal {
                Some(signal) if is_own => Ok(Notify::Thread(event.thread, signal)),
                _ => Err(Errno::EINVAL),
            }
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `struct itimerspec`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct TimerValue {
    pub(super) interval: Timespec,
    pub(super) value: Timespec,
}

impl TimerValue {
    fn new(timer: &PosixTimer) -> TimerValue {
        let (left_ns, interval_ns) = timer.schedule.left(timer.base.now_ns());
        TimerValue { interval: Timespec::from_ns(interval_ns), value: Timespec::from_ns(left_ns) }
    }
}

/// Returns the deadline `value_ns` from now on `clock`; 0 means never.
fn deadline(clock: Clock, value_ns: u64) -> (Clock, Option<u64>) {
    (clock, (value_ns != 0).then(|| clock.now_ns().saturating_add(value_ns)))
}

fn timer_settime(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.memory;
    let process: &Arc<Process> = &call.task.process;
    if call.word(2) == 0 {
        return Err(Errno::EINVAL);
    }
    let new = memory.read::<TimerValue>(call.word(2))?;
    let (value_ns, interval_ns) = (new.value.to_ns()?, new.interval.to_ns()?);
    let start = |clock: Clock| match call.uint(1) & raw::TIMER_ABSTIME {
        0 => deadline(clock.for_relative(), value_ns),
        _ => (clock, (value_ns != 0).then_some(value_ns)),
    };
    let before = timers::set(process, call.int(0), start, interval_ns)?;
    if call.word(3) != 0 {
        memory.commit(call.word(3), &TimerValue::new(&before))?;
    }
    Ok(0)
}

fn timer_gettime(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timer = timers::get(&call.task.process, call.int(0))?;
    call.memory.write(call.word(1), &TimerValue::new(&timer))?;
    Ok(0)
}

fn timer_getoverrun(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(u64::from(timers::get(&call.task.process, call.int(0))?.overrun))
}

fn timer_delete(call: &mut Call<'_>) -> Result<u64, Errno> {
    timers::delete(&call.task.process, call.int(0))?;
    Ok(0)
}
