//! The log and the panic message of a component.
//!
//! A line goes to the nucleus when it is logged; the nucleus puts the time and the component before it
//! and drops lines below its own level.
use super::{call::ask, call::ask_with_memory, line::Line, trace};
use calls::Call;
use core::panic::PanicInfo;
use log::{Level, LevelFilter, Metadata, Record};

struct Logger;

/// Sends `line` to the nucleus's log.
pub(super) fn say(level: Level, line: &Line) {
    let (address, bytes) = (line.bytes().as_ptr() as u64, line.bytes().len() as u64);
    // A line that the nucleus refuses is lost: there is nobody else to tell.
    let _ = ask(Call::Log, &[level as u64, address, bytes]);
}

impl log::Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            say(record.level(), &Line::of(*record.args()));
        }
    }

    fn flush(&self) {}
}

/// Enables the log at the level of the parameter `skerry.log`.
pub(super) fn init() {
    static LOGGER: Logger = Logger;
    let level = crate::system::parameter("skerry.log").and_then(|text| text.parse().ok());
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(level.unwrap_or(LevelFilter::Info));
    }
}

/// Ends the component. Logs the last trace records and then the reason, which the nucleus keeps.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    trace::print();
    let line = match info.location() {
        Some(place) => Line::of(format_args!("{} at {place}", info.message())),
        None => Line::of(format_args!("{}", info.message())),
    };
    let (address, bytes) = (line.bytes().as_ptr() as u64, line.bytes().len() as u64);
    let _ = ask(Call::Panic, &[address, bytes]);
    loop {
        // SAFETY: ends the calling thread, which has nothing left to do.
        let _ = unsafe { ask_with_memory(Call::Exit, &[]) };
    }
}
