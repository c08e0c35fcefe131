//! A system description (`systems/NAME.toml`): what it may say, and the table of it for the kernel.
//!
//! An absent privilege is denied, and an unknown word is refused, with the line and the change to make: what a description
//! says must be what is enforced. `checks` has what must hold, `known` what there is, `table` what the
//! kernel gets. Part of `build.rs`; `tests/descriptions.rs` has a denial a field.
mod checks;
mod known;
mod parts;
mod table;

use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

pub use table::table;

/// A system description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Memory of the smallest machine it is for.
    memory_mib: Spanned<u64>,
    /// The processors that run system calls: `anywhere`, or `master`: the first processor.
    system_calls: Option<Spanned<String>>,
    component: Vec<Component>,
}

/// One component: its world, and everything it may touch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Component {
    name: Spanned<String>,
    world: Spanned<String>,
    /// Interfaces it offers.
    #[serde(default)]
    implements: Vec<Spanned<String>>,
    /// Interfaces it calls.
    #[serde(default)]
    uses: Vec<Spanned<String>>,
    /// Kinds of devices it may open (`virtio:block`); their interrupts come with them.
    #[serde(default)]
    devices: Vec<Spanned<String>>,
    /// Port ranges `FIRST+COUNT`.
    #[serde(default)]
    ports: Vec<Spanned<String>>,
    /// Interrupt lines.
    #[serde(default)]
    interrupts: Vec<Spanned<u32>>,
    /// Memory beyond its heap: `dma`.
    #[serde(default)]
    memory: Vec<Spanned<String>>,
    /// `fair`, `fair:N` with N from -20 to 19, or `fifo:N` with N from 1 to 99.
    priority: Spanned<String>,
    /// The enforced privileges of a component of the process world. May be there while it lives in the kernel, so
    /// that another world is one line.
    process: Option<Spanned<Process>>,
}

/// [`Process::request_ms`] where nothing is said.
fn request_ms() -> u64 {
    10_000
}

/// The enforced privileges and the watching of a component in the process world.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Process {
    /// Parameters of its own, as on the kernel's command line, which goes before them.
    #[serde(default)]
    parameters: String,
    /// Kernel calls: groups or single ones.
    calls: Vec<Spanned<String>>,
    /// Most memory.
    memory_kib: u64,
    /// Memory that outlives it, beyond that.
    #[serde(default)]
    kept_kib: u64,
    /// Most interrupt vectors at once.
    #[serde(default = "Process::vectors")]
    vectors: u32,
    /// Most lines of the log a second.
    #[serde(default = "Process::log_lines")]
    log_lines: u32,
    /// Most lines of the log at once, after a pause.
    #[serde(default = "Process::log_burst")]
    log_burst: u32,
    /// Most threads.
    threads: u32,
    /// Memory beyond `memory_kib` for each of its devices that the machine has.
    #[serde(default)]
    device_memory_kib: u64,
    /// Threads beyond `threads` for each of its devices that the machine has.
    #[serde(default)]
    device_threads: u32,
    /// How much of all processors' time they may have while others want it.
    share_percent: Spanned<u8>,
    /// Time between pings.
    ping_ms: u64,
    /// Time for an answer.
    ping_deadline_ms: u64,
    /// Age at which it is asked for what it was given and has not done.
    #[serde(default = "request_ms")]
    request_ms: u64,
    /// `on-failure`, or `never`: it is given up with its first failure.
    restart: Spanned<String>,
    /// Restarts after failures within a window.
    restarts: u32,
    /// Length of the window.
    window_ms: u64,
    /// Pause before the second restart of a window; doubled for each further one.
    pause_ms: u64,
    /// Longest pause.
    pause_max_ms: u64,
}

impl Process {
    /// More than the drivers of a machine of 30 disks open.
    const fn vectors() -> u32 {
        64
    }
    const fn log_lines() -> u32 {
        10
    }
    const fn log_burst() -> u32 {
        100
    }
}

impl Component {
    /// Its enforced privileges, if it lives in the process world.
    fn isolated(&self) -> Option<&Process> {
        let process = self.process.as_ref().map(Spanned::get_ref);
        process.filter(|_| self.world.get_ref() == "process")
    }
}

/// A fault, and its place in the text.
#[derive(Debug)]
struct Wrong {
    span: Range<usize>,
    what: String,
}

impl Wrong {
    fn at<T>(place: &Spanned<T>, what: impl Into<String>) -> Wrong {
        Wrong { span: place.span(), what: what.into() }
    }
}

/// Reads and checks a description; its components come in the order of starting: whom one uses goes before it.
///
/// # Errors
/// The fault and its line, for the one who wrote it.
pub fn parse(text: &str) -> Result<System, String> {
    let mut system: System = toml::from_str(text).map_err(|error| error.to_string())?;
    checks::check(&mut system).map_err(|wrong| {
        let before = text.get(..wrong.span.start).unwrap_or_default();
        format!("line {}: {}", before.matches('\n').count() + 1, wrong.what)
    })?;
    Ok(system)
}
