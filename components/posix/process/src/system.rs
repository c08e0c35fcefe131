//! The system's name, and its load.
//!
//! Locks: `system.names` is a leaf. The load is a decaying average of the runnable threads, sampled every five
//! seconds by the first thread that reads it after that time.
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU64};
use memory::setting::Setting;
use rt::{
    lock_class,
    sync::{Mutex, Once},
};
use vfs::{poll::Changes, security::Level};
use zerocopy::{Immutable, IntoBytes};

lock_class! {
    static NAMES = "system.names";
    static LOAD = "system.load";
}

/// `uname -r`: the Linux version whose interface this is.
pub const RELEASE: &str = "6.1.0-skerry";
/// `uname -v`.
pub const VERSION: &str = concat!("#1 SMP PREEMPT Skerry ", env!("CARGO_PKG_VERSION"));
/// Greatest length of a host name in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The keys Ctrl, Alt and Del restart the machine at once (LINUX_REBOOT_CMD_CAD_ON, `/proc/sys/kernel/ctrl-alt-del`).
pub static RESTARTS_BY_KEYS: AtomicBool = AtomicBool::new(true);
/// Only processes with CAP_SYSLOG may read the kernel's log (`/proc/sys/kernel/dmesg_restrict`): Debian's default.
pub static HIDES_LOG: AtomicBool = AtomicBool::new(true);

/// Levels of the console (`/proc/sys/kernel/printk`, syslog(2)), which have no effect.
pub static CONSOLE_LEVELS: [Setting; 4] =
    [Setting::int(4), Setting::int(4), Setting::int(1), Setting::int(7)];
/// The bits of `/proc/sys/kernel/tainted`.
pub static TAINTS: AtomicU64 = AtomicU64::new(0);

/// Bytes of a name of [`SystemNames`] with its NUL.
const FIELD_BYTES: usize = NAME_BYTES_MAX + 1;

/// `struct new_utsname`: the result of uname(2).
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub struct SystemNames {
    system: [u8; FIELD_BYTES],
    host: [u8; FIELD_BYTES],
    release: [u8; FIELD_BYTES],
    version: [u8; FIELD_BYTES],
    machine: [u8; FIELD_BYTES],
    domain: [u8; FIELD_BYTES],
}

impl SystemNames {
    /// Returns the names with another machine name.
    pub fn with_machine(self, machine: &[u8]) -> SystemNames {
        SystemNames { machine: field(machine), ..self }
    }
}

static STATE: Mutex<SystemNames> = Mutex::new(
    &NAMES,
    SystemNames {
        system: field(b"Linux"),
        host: field(b"skerry"),
        release: field(RELEASE.as_bytes()),
        version: field(VERSION.as_bytes()),
        machine: field(b"x86_64"),
        domain: field(b"(none)"),
    },
);

/// Returns `text`, cut to [`NAME_BYTES_MAX`] and padded with zeros.
const fn field(text: &[u8]) -> [u8; FIELD_BYTES] {
    let mut field = [0; FIELD_BYTES];
    let bytes = if text.len() < NAME_BYTES_MAX { text.len() } else { NAME_BYTES_MAX };
    field.split_at_mut(bytes).0.copy_from_slice(text.split_at(bytes).0);
    field
}

/// Returns a field up to its NUL.
fn text(field: &[u8; FIELD_BYTES]) -> Vec<u8> {
    field.iter().copied().take_while(|byte| *byte != 0).collect()
}

/// Returns the system's names.
pub fn names() -> SystemNames {
    *STATE.lock()
}

/// Returns the host's name.
pub fn host_name() -> Vec<u8> {
    text(&names().host)
}

/// Returns the domain's name.
pub fn domain_name() -> Vec<u8> {
    text(&names().domain)
}

/// Sets the host's name.
pub fn set_host_name(name: &[u8]) {
    STATE.lock().host = field(name);
    host_changes().tell();
}

/// Sets the domain's name.
pub fn set_domain_name(name: &[u8]) {
    STATE.lock().domain = field(name);
    domain_changes().tell();
}

/// Returns the changes of the host's name, for poll.
pub fn host_changes() -> &'static Arc<Changes> {
    static CHANGES: Once<Arc<Changes>> = Once::new();
    CHANGES.get_or_init(Arc::default)
}

/// Returns the changes of the domain's name, for poll.
pub fn domain_changes() -> &'static Arc<Changes> {
    static CHANGES: Once<Arc<Changes>> = Once::new();
    CHANGES.get_or_init(Arc::default)
}

const SAMPLE_NS: u64 = 5_000_000_000;
const FIXED_ONE: u64 = 1 << 11;
/// The part of the old load that remains after a sample: over 1, 5 and 15 minutes, as fixed point.
const DECAY: [u64; 3] = [1884, 2014, 2037];
const SAMPLES_MAX: u64 = 1000;

#[derive(Clone, Copy, Default)]
struct Load {
    sampled_ns: u64,
    averages: [u64; 3],
}

/// The averages of all tasks, and then those of each level by its slot.
static AVERAGES: Mutex<Vec<Load>> = Mutex::new(&LOAD, Vec::new());

/// Returns the load averages over 1, 5 and 15 minutes with 11 bits after the binary point, of a level or else of all tasks;
/// `runnable` of them run or could run now.
pub fn load(level: Option<&Level>, runnable: impl FnOnce() -> u64) -> [u64; 3] {
    let place = level.map_or(0, |level| level.slot() + 1);
    let now = rt::time::now().0;
    let samples_since = |load: &Load| now.saturating_sub(load.sampled_ns) / SAMPLE_NS;
    if let Some(load) = AVERAGES.lock().get(place)
        && samples_since(load) == 0
    {
        return load.averages;
    }
    let active = runnable() * FIXED_ONE;
    let mut averages = AVERAGES.lock();
    if averages.len() <= place {
        averages.resize(place + 1, Load::default());
    }
    let Some(load) = averages.get_mut(place) else { return [0; 3] };
    let samples = samples_since(load).min(SAMPLES_MAX);
    for _ in 0..samples {
        for (average, decay) in load.averages.iter_mut().zip(DECAY) {
            *average = (*average * decay + active * (FIXED_ONE - decay)) / FIXED_ONE;
        }
    }
    if samples > 0 {
        load.sampled_ns = now;
    }
    load.averages
}
