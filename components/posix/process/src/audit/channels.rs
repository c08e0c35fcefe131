//! The audit of the covert channels that stay open (`docs/mls-channels.md`): processor time, and the time of a read of pages that another
//! level brought into memory.
//!
//! A program sends through them by running or not, and by reading files or not. So while audit is on, each level's use of processors and
//! storage is recorded at intervals in which another level ran, too. A bit needs a switch of a thread or a read from storage: the
//! numbers bound what was sent. Nothing is counted in advance, and nothing wakes while audit is off.
use super::{
    Enabling,
    backlog::{self, AuditRecord, CHANGED},
    rules, settings,
};
use crate::{
    event,
    totals::{self, Totals},
};
use alloc::vec::Vec;
use audit::{RecordText, TaskFacts, kind};
use core::{
    fmt::Arguments,
    sync::atomic::{AtomicU32, Ordering},
};
use labels::Secrecy;
use rt::{
    thread::{self, Policy},
    time::{Instant, now},
};
use vfs::security;

const SECOND_NS: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;
/// Seconds of an interval; 0 for no records.
static INTERVAL: AtomicU32 = AtomicU32::new(10);

/// Returns the length of an interval in seconds; 0 if there are no records of channels.
pub fn interval() -> u32 {
    INTERVAL.load(Ordering::Relaxed)
}

/// Sets it.
pub fn set_interval(seconds: u32) {
    INTERVAL.store(seconds, Ordering::Relaxed);
    CHANGED.signal();
}

/// Starts the records of channels, in a system with a monitor.
pub fn start() {
    if thread::spawn("audit channels", Policy::default(), run).is_err() {
        log::error!("no memory for the audit of covert channels");
    }
}

/// The use of processors and storage until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChannelUse {
    time_ns: u64,
    switches: u64,
    read_bytes: u64,
    write_bytes: u64,
}

impl ChannelUse {
    fn of(totals: &Totals) -> ChannelUse {
        ChannelUse {
            time_ns: totals.user_ns + totals.system_ns,
            switches: totals.switches,
            read_bytes: totals.storage_read,
            write_bytes: totals.storage_written,
        }
    }
    /// Returns the use since an earlier one. A thread that ends meanwhile may be counted twice or not at all for a moment.
    fn since(&self, before: &ChannelUse) -> ChannelUse {
        ChannelUse {
            time_ns: self.time_ns.saturating_sub(before.time_ns),
            switches: self.switches.saturating_sub(before.switches),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
        }
    }
    fn is_some(&self) -> bool {
        *self != ChannelUse::default()
    }
}

/// The uses of all levels until a moment; without a secrecy, those of all levels that have no numbers of their own.
struct LevelUses {
    until: Instant,
    uses: Vec<(Option<Secrecy>, ChannelUse)>,
}

impl LevelUses {
    fn now() -> LevelUses {
        let levels = security::levels();
        let of = |(secrecy, level)| (secrecy, ChannelUse::of(&totals::of_level(level)));
        LevelUses { until: now(), uses: levels.into_iter().map(of).collect() }
    }
    /// Returns the uses since an earlier moment, of the levels that used something.
    fn since(&self, before: &LevelUses) -> Vec<(Option<Secrecy>, ChannelUse)> {
        let since = |(secrecy, new): &(Option<Secrecy>, ChannelUse)| {
            let old = before.uses.iter().find(|(of, _)| of == secrecy);
            (*secrecy, new.since(&old.map_or(ChannelUse::default(), |(_, old)| *old)))
        };
        self.uses.iter().map(since).filter(|(_, used)| used.is_some()).collect()
    }
    /// Writes the records of the time since an earlier moment, if more than one level used something.
    fn record(&self, before: &LevelUses) {
        let used = self.since(before);
        if used.len() < 2 {
            return;
        }
        let interval_ms = self.until.since(before.until) / MS_NS;
        for (secrecy, ChannelUse { time_ns, switches, read_bytes, write_bytes }) in used {
            let time_ms = time_ns / MS_NS;
            let rest = format_args!(
                "interval_ms={interval_ms} time_ms={time_ms} switches={switches} read_bytes={read_bytes} write_bytes={write_bytes}"
            );
            match secrecy {
                Some(secrecy) => write(format_args!("op=channels level={secrecy} {rest}")),
                None => write(format_args!("op=channels level=others {rest}")),
            }
        }
    }
}

fn write(text: Arguments<'_>) {
    if !rules().writes(kind::CHANNELS, &TaskFacts::of_kernel()) {
        return;
    }
    let mut record = RecordText::new(event::stamp());
    record.put(text);
    backlog::push_of_kernel(AuditRecord::of_kernel(kind::CHANNELS, &record.finish()));
}

/// Writes records for ever.
fn run() {
    let mut before = LevelUses::now();
    loop {
        let ticket = CHANGED.ticket();
        let interval_ns = u64::from(interval()) * SECOND_NS;
        if settings().enabled == Enabling::Off || interval_ns == 0 {
            CHANGED.wait(ticket, None);
            before = LevelUses::now();
            continue;
        }
        let end = before.until.after_ns(interval_ns);
        if now() < end {
            CHANGED.wait(ticket, Some(end));
            continue;
        }
        // Without room the next record is about a longer time.
        if backlog::has_room_for_kernel() {
            let new = LevelUses::now();
            new.record(&before);
            before = new;
        } else {
            CHANGED.wait(ticket, Some(now().after_ns(interval_ns)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use labels::Categories;

    fn uses(of: &[(Option<Secrecy>, [u64; 4])]) -> LevelUses {
        let used = |&(secrecy, [time_ns, switches, read_bytes, write_bytes]): &(_, [u64; 4])| {
            (secrecy, ChannelUse { time_ns, switches, read_bytes, write_bytes })
        };
        LevelUses { until: Instant(0), uses: of.iter().map(used).collect() }
    }

    #[test]
    fn a_use_is_what_a_level_used_since_the_last_record() {
        let [low, high] = [0, 2].map(|level| Secrecy::new(level, Categories::NONE));
        assert!(low.is_some() && high.is_some());
        let before = uses(&[(low, [10, 1, 0, 0]), (None, [5, 5, 5, 1])]);
        let after = uses(&[(low, [10, 1, 0, 0]), (None, [4, 6, 5, 3]), (high, [7, 0, 4096, 0])]);
        let expected = uses(&[(None, [0, 1, 0, 2]), (high, [7, 0, 4096, 0])]);
        assert_eq!(after.since(&before), expected.uses);
        assert!(before.since(&before).is_empty());
    }
}
