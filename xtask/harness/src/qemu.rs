//! The QEMU command line that all commands share.
use anyhow::{Result, bail};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The machine models Skerry boots on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Machine {
    /// PCI Express, as newer PCs.
    #[default]
    Q35,
    /// PCI, as older PCs.
    Pc,
    /// virtio over MMIO, no PCI.
    Microvm,
}

/// The accelerator that executes the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Accel {
    /// Hardware virtualisation.
    Kvm,
    /// Translation; works everywhere.
    Tcg,
}

/// A raw image as a disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Path of the image.
    pub image: PathBuf,
    /// The allowed changes of the image.
    pub medium: Medium,
}

/// The access that the guest has to an image.
#[derive(Clone, Debug)]
pub enum Medium {
    /// The image keeps its writes.
    Kept,
    /// Writes are dropped at the end.
    Snapshot,
    /// The device refuses writes.
    ReadOnly,
    /// Writes stay; requests fail by the rules in this file (QEMU's blkdebug).
    Faulty(PathBuf),
    /// Writes stay; writes and flushes are also logged in this file, in order (QEMU's blklogwrites).
    Logged(PathBuf),
}

impl Disk {
    /// Returns the value of `-drive`, under the name `disk{number}`.
    fn drive(&self, number: usize) -> String {
        let image = escaped(&self.image);
        let backing = match &self.medium {
            Medium::Kept => format!("file={image}"),
            Medium::Snapshot => format!("snapshot=on,file={image}"),
            Medium::ReadOnly => format!("readonly=on,file={image}"),
            Medium::Logged(log) => {
                let node = |name: &str, file: &str| {
                    format!("{name}.driver=raw,{name}.file.driver=file,{name}.file.filename={file}")
                };
                let (image, log) = (node("file", &image), node("log", &escaped(log)));
                return format!("if=none,id=disk{number},driver=blklogwrites,{image},{log}");
            }
            Medium::Faulty(rules) => format!("file=blkdebug:{}:{image}", escaped(rules)),
        };
        format!("if=none,id=disk{number},format=raw,{backing}")
    }
}

/// The device that has the ports of the host's session and of the console, and that of a second personality.
pub const SERIAL: &str = "serial";
/// The device that has the ports of a second personality's session.
pub const SERIAL_TWO: &str = "serial-two";

/// A machine to be started.
#[derive(Clone, Debug)]
pub struct Config {
    /// Model of the machine.
    pub machine: Machine,
    /// Number of processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory: u32,
    /// The guest's clock.
    pub clock: Clock,
    /// Accelerator.
    pub accel: Accel,
    /// Kernel to boot.
    pub kernel: PathBuf,
    /// Initial ramdisk, if any.
    pub initrd: Option<PathBuf>,
    /// Kernel parameters.
    pub append: String,
    /// Image of the root disk.
    pub root: PathBuf,
    /// Writes to the root disk are dropped at the end.
    pub is_snapshot: bool,
    /// Further disks, in order.
    pub disks: Vec<Disk>,
    /// There are a disk and ports for a second personality. The disk is a copy of the root, and its writes are dropped.
    pub is_for_two: bool,
    /// Devices go through an IOMMU, on machines that have one.
    pub has_iommu: bool,
    /// The file that the first serial port (the kernel's log) is written to.
    pub log: PathBuf,
    /// The first serial port is also the console, the character device `terminal`.
    pub is_console_serial: bool,
    /// Further arguments of QEMU.
    pub extra: Vec<String>,
}

impl Config {
    /// Builds the command line.
    pub fn command(&self) -> Command {
        let mut command = Command::new("qemu-system-x86_64");
        let bus = self.bus();
        command.args(self.processor_arguments());
        command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        if self.machine == Machine::Microvm {
            // QEMU's virtio-mmio transports are of the legacy kind by default.
            command.args(["-global", "virtio-mmio.force-legacy=off"]);
        }
        command.args(["-m", &self.memory.to_string(), "-smp", &self.cpus.to_string()]);
        command.arg("-kernel").arg(&self.kernel).args(["-append", &self.append]);
        if let Some(initrd) = &self.initrd {
            command.arg("-initrd").arg(initrd);
        }
        match self.is_console_serial {
            true => command.args(["-serial", "chardev:terminal"]),
            false => command.args(["-serial", &format!("file:{}", escaped(&self.log))]),
        };
        if self.is_behind_iommu() {
            // The IOMMU comes before the devices that go through it.
            command.args(["-device", "intel-iommu,intremap=on,aw-bits=48"]);
        }
        command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
        let is_kept = !self.is_snapshot && !self.is_for_two;
        let medium = if is_kept { Medium::Kept } else { Medium::Snapshot };
        let root = Disk { image: self.root.clone(), medium };
        let second = Disk { image: self.root.clone(), medium: Medium::Snapshot };
        let second = self.is_for_two.then_some(&second);
        let disks = std::iter::once(&root).chain(second).chain(&self.disks);
        for (number, disk) in disks.enumerate() {
            command.args(["-drive", &disk.drive(number)]);
            command.args(["-device", &format!("virtio-blk-{bus},drive=disk{number}")]);
        }
        command.args(["-device", &format!("virtio-serial-{bus},max_ports=8,id={SERIAL}")]);
        if self.is_for_two {
            command.args(["-device", &format!("virtio-serial-{bus},max_ports=8,id={SERIAL_TWO}")]);
        }
        command.args(&self.extra);
        command
    }

    /// Returns the arguments for a network card with the Ethernet address `mac` on the network `id`.
    pub fn card(&self, id: &str, mac: &str) -> [String; 2] {
        // A card of PCI has a ROM to boot from the network.
        let rom = if self.machine == Machine::Microvm { "" } else { ",romfile=" };
        let device = format!("virtio-net-{}{rom},netdev={id},mac={mac}", self.bus());
        ["-device".to_owned(), device]
    }

    fn is_behind_iommu(&self) -> bool {
        self.has_iommu && self.machine == Machine::Q35
    }

    /// Returns the end of a virtio device's name, and the properties that all devices of this machine have.
    fn bus(&self) -> &'static str {
        match self.machine {
            Machine::Microvm => "device",
            _ if self.is_behind_iommu() => "pci,disable-legacy=on,iommu_platform=on",
            _ => "pci,disable-legacy=on",
        }
    }

    fn processor_arguments(&self) -> Vec<String> {
        let machine = match self.machine {
            // The IOMMU remaps interrupts only if QEMU has the I/O APIC.
            Machine::Q35 if self.accel == Accel::Kvm && self.has_iommu => {
                "q35,kernel-irqchip=split"
            }
            Machine::Q35 => "q35",
            Machine::Pc => "pc",
            Machine::Microvm => "microvm,rtc=on",
        };
        // The model is pinned: with ERMS, copies are by string instructions, which TCG executes a byte at a time.
        let (accel, cpu) = match self.accel {
            Accel::Kvm => ("kvm", "host"),
            Accel::Tcg => ("tcg", "max,-erms,-fsrm"),
        };
        let mut words = vec!["-machine", machine, "-accel", accel, "-cpu", cpu];
        match self.clock {
            Clock::Host => {}
            Clock::Instructions => words.extend(["-icount", "shift=0,sleep=off"]),
            Clock::InstructionsAndIdle => words.extend(["-icount", "shift=0,sleep=on"]),
        }
        words.into_iter().map(str::to_owned).collect()
    }
}

/// Escapes a file name for a QEMU option value: commas are doubled.
pub fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The clock of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The host's.
    Host,
    /// The number of instructions (`--icount`), a nanosecond each. While the processor waits, the clock jumps to the next timer.
    Instructions,
    /// The same, but while the processor waits, time passes as on the host: for machines whose peers are outside.
    InstructionsAndIdle,
}

impl Clock {
    /// The clock with or without the option `--icount`.
    pub fn of(icount: bool) -> Clock {
        if icount { Clock::Instructions } else { Clock::Host }
    }
}

/// Returns the number of processors: the one that was asked for, or the default.
///
/// # Errors
/// Fails if the clock does not allow that number. The message says what to change.
pub fn check(cpus: Option<u32>, clock: Clock) -> Result<u32> {
    match (cpus, clock) {
        (Some(cpus), Clock::Host) => check_cpus(cpus),
        (None, Clock::Host) => Ok(2),
        (Some(cpus), _) if cpus != 1 => {
            bail!("--icount counts the instructions of one processor: leave --cpus {cpus} out")
        }
        (_, Clock::Instructions | Clock::InstructionsAndIdle) => Ok(1),
    }
}

/// Refuses no processor at all.
///
/// # Errors
/// With what to change.
pub fn check_cpus(cpus: u32) -> Result<u32> {
    if cpus == 0 {
        bail!("--cpus must be at least 1");
    }
    Ok(cpus)
}
