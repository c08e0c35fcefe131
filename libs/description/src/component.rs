//! [`Component`]: the contents of a `component.toml`.
use serde::Deserialize;
use toml::Spanned;

/// The description of a component: the worlds in which it can live, and all its privileges.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// The worlds in which it can live: `kernel`, `process`.
    pub(crate) worlds: Spanned<Vec<Spanned<String>>>,
    /// The crate that starts it, if its name is not that of the component.
    #[serde(default, rename = "crate")]
    pub(crate) package: Option<Spanned<String>>,
    /// The function that starts it.
    #[serde(default)]
    pub(crate) entry: EntryPoint,
    /// Interfaces that it offers.
    #[serde(default)]
    pub(crate) implements: Vec<Spanned<String>>,
    /// Interfaces that it cannot do without.
    #[serde(default)]
    pub(crate) uses: Vec<Spanned<String>>,
    /// Interfaces that it uses if a system has them.
    #[serde(default)]
    pub(crate) may_use: Vec<Spanned<String>>,
    /// Kinds of devices that it may open (`virtio:block`); their interrupts come with them.
    #[serde(default)]
    pub(crate) devices: Vec<Spanned<String>>,
    /// Port ranges `FIRST+COUNT`.
    #[serde(default)]
    pub(crate) ports: Vec<Spanned<String>>,
    /// Interrupt lines.
    #[serde(default)]
    pub(crate) interrupts: Vec<Spanned<u32>>,
    /// Memory beyond its heap: `dma`.
    #[serde(default)]
    pub(crate) memory: Vec<Spanned<String>>,
    /// `fair`, `fair:N` with N from -20 to 19, or `fifo:N` with N from 1 to 99.
    pub(crate) priority: Spanned<String>,
    /// Its parameters in the kernel world.
    #[serde(default)]
    pub(crate) kernel: KernelWorld,
    /// Its limits in a process of its own. A component without them shares the process of another one.
    pub(crate) process: Option<Spanned<Process>>,
}

/// The function of a component's crate that starts it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum EntryPoint {
    /// `start`, which returns the instances that it offers; the wiring serves them, in either world.
    #[default]
    Start,
    /// `start`, which is given the offers of the interfaces that the component uses, and returns its own. In the process world it
    /// is given none: the client of its instances uses those offers for it.
    User,
    /// `main`, which is the whole program of a component that lives in the process world only.
    Main,
    /// None: the crate `launch` starts this component after all others, in the kernel or in a process that other components may
    /// share.
    Personality,
}

/// The settings of a component in the kernel world.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelWorld {
    /// Its own parameters, each `NAME.PARAMETER=VALUE` with the component's name. Those of the kernel's command line go before
    /// them.
    pub(crate) parameters: Option<Spanned<String>>,
}

/// The limits of a component in the process world, and the supervisor's rules for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its own parameters, which follow those of the kernel's command line.
    #[serde(default)]
    pub(crate) parameters: String,
    /// Kernel calls: groups or single ones.
    pub(crate) calls: Vec<Spanned<String>>,
    /// The greatest amount of memory.
    pub(crate) memory_kib: u64,
    /// Percentage of the machine's memory that it may have in addition to `memory_kib`.
    #[serde(default)]
    pub(crate) memory_percent: u8,
    /// Memory that outlives it, in addition to `memory_kib`.
    #[serde(default)]
    pub(crate) kept_kib: u64,
    /// The greatest number of interrupt vectors at once.
    #[serde(default = "Process::vectors")]
    pub(crate) vectors: u32,
    /// The greatest number of lines of the log a second.
    #[serde(default = "Process::log_lines")]
    pub(crate) log_lines: u32,
    /// The greatest number of lines of the log at once, after a pause.
    #[serde(default = "Process::log_burst")]
    pub(crate) log_burst: u32,
    /// The greatest number of threads.
    pub(crate) threads: u32,
    /// Memory beyond `memory_kib` for each of its devices that the machine has.
    #[serde(default)]
    pub(crate) device_memory_kib: u64,
    /// Threads beyond `threads` for each of its devices that the machine has.
    #[serde(default)]
    pub(crate) device_threads: u32,
    /// Share of all processors' time that its threads may have while other threads want it, in percent.
    pub(crate) share_percent: Spanned<u8>,
    /// Time between pings.
    pub(crate) ping_ms: u64,
    /// Time for an answer.
    pub(crate) ping_deadline_ms: u64,
    /// Age at which the supervisor asks it for a request that it was given and has not done.
    #[serde(default = "Process::request_ms")]
    pub(crate) request_ms: u64,
    /// `on-failure`, or `never`: it is given up with its first failure.
    pub(crate) restart: Spanned<String>,
    /// Restarts after failures within a window.
    pub(crate) restarts: u32,
    /// Length of the window.
    pub(crate) window_ms: u64,
    /// Pause before the second restart of a window; doubled for each further one.
    pub(crate) pause_ms: u64,
    /// Longest pause.
    pub(crate) pause_max_ms: u64,
}

impl Process {
    /// Default of `vectors`: more than the drivers of a machine of 30 disks open.
    const fn vectors() -> u32 {
        64
    }
    const fn log_lines() -> u32 {
        10
    }
    const fn log_burst() -> u32 {
        100
    }
    const fn request_ms() -> u64 {
        10_000
    }
}

impl Component {
    /// Reads the text of a `component.toml` and checks it.
    ///
    /// # Errors
    /// A description of the fault, with its line.
    pub(crate) fn parse(text: &str) -> Result<Component, String> {
        let component: Component = toml::from_str(text).map_err(|error| error.to_string())?;
        crate::checks::component(&component).map_err(|wrong| wrong.in_text(text))?;
        Ok(component)
    }

    /// Returns whether the component can live in `world`.
    pub(crate) fn can_live_in(&self, world: &str) -> bool {
        self.worlds.get_ref().iter().any(|one| one.get_ref() == world)
    }

    /// Returns the name of a field that only the kernel or a process of its own can grant the component, if it has one.
    pub(crate) fn own_grant(&self) -> Option<&'static str> {
        let fields = [
            ("devices", self.devices.is_empty()),
            ("ports", self.ports.is_empty()),
            ("interrupts", self.interrupts.is_empty()),
            ("memory", self.memory.is_empty()),
        ];
        fields.into_iter().find(|(_, is_empty)| !is_empty).map(|(name, _)| name)
    }

    /// Returns whether the component is started by a function, so that it can share a program with others.
    pub(crate) fn is_started(&self) -> bool {
        matches!(self.entry, EntryPoint::Start | EntryPoint::User)
    }

    /// Returns whether the component implements the interface `name`.
    pub(crate) fn implements(&self, name: &str) -> bool {
        self.implements.iter().any(|one| one.get_ref() == name)
    }

    /// Returns the interfaces that the component uses, whether it must or may.
    pub(crate) fn used(&self) -> impl Iterator<Item = &str> {
        self.uses.iter().chain(&self.may_use).map(|one| one.get_ref().as_str())
    }
}
