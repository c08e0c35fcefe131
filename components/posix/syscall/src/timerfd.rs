//! The calls timerfd_create, timerfd_settime, timerfd_gettime.
use super::{
    entry::Entry,
    time::{TimerValue, check_alarm},
};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use objects::poll::{Setting, TimerFile};
use process::{
    call::Call,
    files::{anonymous::TIMERFD, install::install_anonymous},
    time::clock::{Clock, Timespec},
};
use vfs::{Errno, OpenFile};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_timerfd_create, "timerfd_create", create),
    Entry::whole(raw::__NR_timerfd_settime, "timerfd_settime", set),
    Entry::whole(raw::__NR_timerfd_gettime, "timerfd_gettime", get),
];

fn create(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (number, flags) = (call.uint(0), call.uint(1));
    let is_alarm = Clock::is_alarm(call.int(0));
    let is_plain =
        matches!(number, raw::CLOCK_REALTIME | raw::CLOCK_MONOTONIC | raw::CLOCK_BOOTTIME);
    if flags & !(raw::TFD_CLOEXEC | raw::TFD_NONBLOCK) != 0 || !is_alarm && !is_plain {
        return Err(Errno::EINVAL);
    }
    check_alarm(call.task, call.int(0))?;
    let timer = TimerFile::new(number, Clock::decode(call.task, call.int(0))?);
    install_anonymous(call.task, timer, &TIMERFD, raw::O_RDWR | flags)
}

fn timer_of(file: &Arc<OpenFile>) -> Result<&TimerFile, Errno> {
    file.file().as_any().downcast_ref::<TimerFile>().ok_or(Errno::EINVAL)
}

fn set(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.memory;
    let new = memory.read::<TimerValue>(call.word(2))?;
    let flags = call.uint(1);
    if flags & !(raw::TFD_TIMER_ABSTIME | raw::TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let (value_ns, interval_ns) = (new.value.to_ns()?, new.interval.to_ns()?);
    let file = call.working_file(0)?;
    let before = timer_of(&file)?.set(Setting { value_ns, interval_ns, flags })?;
    if call.word(3) != 0 {
        memory.commit(call.word(3), &value(before))?;
    }
    Ok(0)
}

fn get(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    let left = timer_of(&file)?.left();
    call.memory.write(call.word(1), &value(left))?;
    Ok(0)
}

fn value((left_ns, interval_ns): (u64, u64)) -> TimerValue {
    TimerValue { interval: Timespec::from_ns(interval_ns), value: Timespec::from_ns(left_ns) }
}
