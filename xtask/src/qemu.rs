//! The QEMU command line, the same for every command, and which accelerator to use.
use crate::shell;
use anyhow::{Result, bail};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
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

/// How QEMU executes the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Accel {
    /// Hardware virtualisation.
    Kvm,
    /// Translation; works everywhere.
    Tcg,
}

/// A machine to start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Model.
    pub machine: Machine,
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory: u32,
    /// One nanosecond an instruction.
    pub is_counting_instructions: bool,
    /// Overrides the choice of accelerator.
    pub accel: Option<Accel>,
    /// Kernel to boot.
    pub kernel: PathBuf,
    /// Its initial ramdisk, if any.
    pub initrd: Option<PathBuf>,
    /// Its parameters.
    pub append: String,
    /// Root disk.
    pub root: PathBuf,
    /// Writes to the disk are dropped at the end.
    pub is_snapshot: bool,
    /// Where the first serial port (the kernel's log) goes.
    pub log: PathBuf,
    /// Further arguments.
    pub extra: Vec<String>,
}

impl Config {
    /// Builds the command line.
    pub fn command(&self) -> Command {
        let mut command = Command::new("qemu-system-x86_64");
        let bus = if self.machine == Machine::Microvm { "device" } else { "pci,disable-legacy=on" };
        command.args(self.processor_arguments());
        command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        if self.machine == Machine::Microvm {
            // QEMU's virtio-mmio transports are of the legacy kind unless told otherwise.
            command.args(["-global", "virtio-mmio.force-legacy=off"]);
        }
        command.args(["-m", &self.memory.to_string(), "-smp", &self.cpus.to_string()]);
        command.arg("-kernel").arg(&self.kernel).args(["-append", &self.append]);
        if let Some(initrd) = &self.initrd {
            command.arg("-initrd").arg(initrd);
        }
        command.args(["-serial", &format!("file:{}", escaped(&self.log))]);
        command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
        let snapshot = if self.is_snapshot { "on" } else { "off" };
        command.args([
            "-drive",
            &format!("if=none,id=root,format=raw,snapshot={snapshot},file={}", escaped(&self.root)),
            "-device",
            &format!("virtio-blk-{bus},drive=root"),
            "-device",
            &format!("virtio-serial-{bus},max_ports=8"),
        ]);
        command.args(&self.extra);
        command
    }

    fn processor_arguments(&self) -> Vec<String> {
        let machine = match self.machine {
            Machine::Q35 => "q35",
            Machine::Pc => "pc",
            Machine::Microvm => "microvm,rtc=on",
        };
        let accel = if self.is_counting_instructions {
            Accel::Tcg
        } else {
            self.accel.unwrap_or_else(|| if kvm_works() { Accel::Kvm } else { Accel::Tcg })
        };
        // The model is pinned: with ERMS, copies are by string instructions, which TCG executes a byte at a time.
        let (accel, cpu) = match accel {
            Accel::Kvm => ("kvm", "host"),
            Accel::Tcg => ("tcg", "max,-erms,-fsrm"),
        };
        let mut words = vec!["-machine", machine, "-accel", accel, "-cpu", cpu];
        if self.is_counting_instructions {
            words.extend(["-icount", "shift=0,sleep=off"]);
        }
        words.into_iter().map(str::to_owned).collect()
    }
}

/// A file name as a QEMU option value: commas doubled.
pub fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// A boot sector that writes 0x10 to the exit device: `mov al,0x10; out 0xf4,al; hlt`.
const PROBE_CODE: [u8; 5] = [0xb0, 0x10, 0xe6, 0xf4, 0xf4];
/// What QEMU exits with then: `value << 1 | 1`.
const PROBE_EXIT: i32 = 0x21;
const PROBE_LIMIT: Duration = Duration::from_secs(4);

/// Whether KVM really runs a guest here: tried once a boot of the host, with a time limit.
fn kvm_works() -> bool {
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return false;
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let Ok(cache) = shell::build_path("kvm.probe") else { return false };
    if let Ok(known) = std::fs::read_to_string(&cache)
        && let Some(answer) = known.strip_prefix(boot.trim())
    {
        return answer.trim() == "works";
    }
    let works = probe_kvm().unwrap_or(false);
    let answer = if works { "works" } else { "does not work" };
    let _ = std::fs::write(&cache, format!("{} {answer}\n", boot.trim()));
    works
}

fn probe_kvm() -> Result<bool> {
    let sector = shell::build_path("kvm-probe.img")?;
    let mut bytes = [0u8; 512];
    bytes[..PROBE_CODE.len()].copy_from_slice(&PROBE_CODE);
    bytes[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(&sector, bytes)?;
    let mut child = Command::new("qemu-system-x86_64")
        .args(["-accel", "kvm", "-machine", "pc", "-nodefaults", "-display", "none", "-m", "16"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"])
        .args(["-drive", &format!("if=ide,format=raw,snapshot=on,file={}", escaped(&sector))])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let start = Instant::now();
    while start.elapsed() < PROBE_LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code() == Some(PROBE_EXIT));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

/// Refuses combinations that cannot be.
///
/// # Errors
/// With what to change.
pub fn check(cpus: Option<u32>, is_counting_instructions: bool) -> Result<u32> {
    match (cpus, is_counting_instructions) {
        (Some(cpus), true) if cpus != 1 => {
            bail!("--icount counts the instructions of one processor: leave --cpus {cpus} out")
        }
        (_, true) => Ok(1),
        (Some(0), false) => bail!("--cpus must be at least 1"),
        (Some(cpus), false) => Ok(cpus),
        (None, false) => Ok(2),
    }
}
