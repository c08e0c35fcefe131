//! The accelerator of a run: KVM if a whole boot of Skerry works under it, else translation.
//!
//! The device file alone is no proof: some hosts' KVM runs a boot sector and then refuses a register of the processor model,
//! or stops in the middle of a boot. So the very system is booted to its first command under KVM, with a time limit, once
//! after each boot of the host.
use crate::{
    disk,
    guest::{self, Outcome},
    qemu::{Accel, Clock, Config},
    session::Ended,
    shell,
};
use anyhow::Result;
use std::fs;

/// Time limit of a boot, far more than one takes under KVM.
const LIMIT_SECONDS: u64 = 10;
/// Number of boots: on some hosts guests stop only occasionally.
const BOOTS: u32 = 3;

/// Returns TCG if `config` counts instructions, else the accelerator that the user asked for, else KVM if `config` boots under
/// it.
///
/// # Errors
/// Fails if QEMU cannot be started at all.
pub fn choose(asked: Option<Accel>, config: &Config) -> Result<Accel> {
    if config.clock != Clock::Host {
        return Ok(Accel::Tcg);
    }
    match asked {
        Some(accel) => Ok(accel),
        None if kvm_works(config)? => Ok(Accel::Kvm),
        None => Ok(Accel::Tcg),
    }
}

fn kvm_works(config: &Config) -> Result<bool> {
    if fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok(false);
    }
    let host = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let question = format!("{} {:?} {}", host.trim(), config.machine, config.cpus);
    let cache = shell::build_path("kvm.probe")?;
    let known = fs::read_to_string(&cache).unwrap_or_default();
    if let Some(answer) = known.lines().find_map(|line| line.strip_prefix(&question)) {
        return Ok(answer == WORKS);
    }
    let works = probe(config)?;
    fs::write(&cache, format!("{known}{question}{}\n", if works { WORKS } else { FAILS }))?;
    Ok(works)
}

const WORKS: &str = ": works";
const FAILS: &str = ": does not work";

fn probe(config: &Config) -> Result<bool> {
    let bar = shell::progress("trying KVM");
    let config = Config {
        accel: Accel::Kvm,
        is_snapshot: true,
        log: shell::build_path("kvm-probe.log")?,
        // These are the defaults, not the run's own disk and parameters, which are not being tested.
        root: disk::default_root()?,
        append: guest::PARAMETERS.to_owned(),
        extra: Vec::new(),
        ..config.clone()
    };
    let mut works = true;
    for _ in 0..BOOTS {
        let (outcome, ..) = guest::run_captured(&config, "exit 3", "", LIMIT_SECONDS)?;
        works = works && outcome == Outcome::Session(Ended::Exited(3));
        if !works {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(works)
}
