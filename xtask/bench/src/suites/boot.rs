//! The suite `boot`: from QEMU's start to the first program and to the prompt, the memory in use there, and the kernel's size.
//! Skerry starts programs from the root disk; Linux starts them from an initramfs, which is its best case (for the first
//! program, an initramfs with nothing else). Both start Debian's bash from the root disk.
use super::suite::Suite;
use crate::{
    measure::{
        probes,
        side::{Kernel, Side},
    },
    results::{
        bars::{DEBIAN, FIRST, MEMORY, PROMPT},
        comparison::Row,
    },
    values::unit::Unit,
};
use anyhow::{Context, Result};
use harness::{debian, disk, linux::Linux, qemu::Config, shell, until};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Memory of the machine whose use is measured, in MiB.
const MEMORY_MIB: u32 = 512;
const IMAGE: &str = "kernel image, stripped";

/// Measures `sides` in turn, `boots` times; `image` has the probes.
///
/// # Errors
/// Fails if a side does not start, or does not print the text that is waited for.
pub fn rows(sides: &[Side], image: &Path, boots: u32) -> Result<Vec<Row>> {
    let row = |name, unit| Row::new(Suite::Boot.name(), name, unit, 1);
    let mut first = row(FIRST, Unit::Clock);
    let mut prompt = row(PROMPT, Unit::Clock);
    let mut bash = row(DEBIAN, Unit::Clock);
    let mut memory = row(MEMORY, Unit::Kib);
    let mut size = row(IMAGE, Unit::Kib);
    let (root, initrd) = (disk::default_root()?, initrd()?);
    let debian = debian::image(&[])?;
    for boot in 0..boots {
        for side in sides {
            let bar = shell::progress(&format!("boot: {}, boot {}", side.name, boot + 1));
            let (to_first, to_prompt) = times(side, image, &root, &initrd)?;
            first.note(&side.name, to_first);
            prompt.note(&side.name, to_prompt);
            bash.note(&side.name, to_bash(side, &debian)?);
            memory.note(&side.name, memory_kib(side)?);
            let bytes = fs::metadata(side.kernel())?.len();
            size.note(&side.name, bytes as f64 / 1024.0);
            bar.finish_and_clear();
        }
    }
    Ok(vec![first, prompt, bash, memory, size])
}

/// Returns the nanoseconds to the first program and to the prompt.
fn times(side: &Side, image: &Path, root: &Path, initrd: &Path) -> Result<(f64, f64)> {
    let (first, prompt) = match &side.what {
        Kernel::Linux(linux) => {
            let alone = Linux { kernel: linux.kernel.clone(), initrd: initrd.to_owned() };
            (
                until::linux_until(&alone, image, "rdinit=/first -- /dev/ttyS1", "first")?,
                until::linux_until(linux, root, "skerry.prompt", "prompt")?,
            )
        }
        Kernel::Skerry(kernel) => (
            until::skerry_until(kernel, image, "init=/bench/first", "first")?,
            until::skerry_until(kernel, root, "", "skerry:")?,
        ),
    };
    Ok((first.as_nanos() as f64, prompt.as_nanos() as f64))
}

/// Returns the nanoseconds to bash's prompt.
fn to_bash(side: &Side, debian: &Path) -> Result<f64> {
    const PROMPT: &str = ":/# ";
    let taken = match &side.what {
        Kernel::Linux(linux) => until::linux_until(linux, debian, "skerry.bash", PROMPT)?,
        Kernel::Skerry(kernel) => {
            until::skerry_until(kernel, debian, &format!("skerry.shell={}", debian::SHELL), PROMPT)?
        }
    };
    Ok(taken.as_nanos() as f64)
}

/// Makes an initramfs with the first program alone.
fn initrd() -> Result<PathBuf> {
    let path = shell::build_path("linux/first.initramfs")?;
    let folder = probes::folder()?;
    let script = format!(
        "cd '{}' && mkdir -p dev && printf 'first\\ndev\\n' | cpio --quiet -o -H newc > '{}'",
        folder.display(),
        path.display()
    );
    shell::quietly("making an initramfs", Command::new("sh").args(["-c", &script]))?;
    Ok(path)
}

/// Returns the KiB of the machine that are not free once a shell runs, whatever their use.
fn memory_kib(side: &Side) -> Result<f64> {
    let config = Config { memory: MEMORY_MIB, ..side.machine(1)? };
    let said = side.run(config, probes::MEMORY_RUNNER, "")?;
    let free = said.iter().find_map(|(_, line)| free_kib(line)).context("no figure of memory")?;
    Ok(f64::from(MEMORY_MIB * 1024) - free)
}

fn free_kib(line: &str) -> Option<f64> {
    line.strip_prefix("MemFree:")?.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::free_kib;

    #[test]
    fn free_memory_is_read_from_its_line() {
        assert_eq!(free_kib("MemFree:          441536 kB"), Some(441_536.0));
        assert_eq!(free_kib("MemTotal:          441536 kB"), None);
    }
}
