//! `./x campaign`: the runs that are too long for `./x test`: many forks, parallel loops, random
//! system calls, mutated programs, mutated disks, and the time from QEMU's start to the prompt.
pub mod arguments;
mod disk_campaign;
mod miri;
mod returns;
mod stress;

use crate::test::{noninterference, nucleus_tests};
use anyhow::{Context, Result};
use disk_campaign::Pressure;
use harness::{
    build::{self, Features},
    disk,
    guest::{self, Outcome},
    linux, packages,
    qemu::{Config, Disk, Medium},
    session::Ended,
    shell,
    until::{linux_until, skerry_until},
};
use std::{fs, path::Path};

/// Options of `campaign`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The campaign
    #[arg(value_enum)]
    pub what: What,
    /// Number of forks, calls, programs, races, filters, packets, images or boots; seconds of the loops
    #[arg(long)]
    pub count: Option<u64>,
    /// The start of the random ones
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Processors
    #[arg(long, default_value_t = 4)]
    pub cpus: u32,
    /// Of the stressors these alone; of the calls of `rights` those whose name holds the first; of `returns` and `arguments` this family; of `hostile` `hostile` or `personality`
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Build the checks of locks into the kernel of `hostile`
    #[arg(long)]
    pub check: bool,
    /// Write docs/stress.md, docs/arguments.md
    #[arg(long)]
    pub record: bool,
}

/// The campaigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// fork with exec, object counts and free frames before and after (10,000)
    Forks,
    /// Four parallel shell loops (60 seconds)
    Loops,
    /// Random system calls from unprivileged processes (10,000,000)
    Calls,
    /// The same beside programs that take all memory and fill the disk, half with few descriptors (10,000,000)
    Starved,
    /// Random calls of programs at several labels, which look for flows that the lattice forbids (10,000,000)
    Flows,
    /// Seeds of the test of noninterference: a program at a low level sees the same, whatever one at a high level does (1,000)
    Noninterference,
    /// Mutated ELF files through exec (1,000)
    Programs,
    /// Races of what an exec decides by and of looks into processes, as an unprivileged user (400)
    Rights,
    /// Random BPF programs through their check and their interpreter on the host (2,000,000)
    Filters,
    /// Hostile packets through the network's parsers and a whole stack on the host, and a tenth as many requests of programs (10,000,000)
    Packets,
    /// Mutated ext4 images through the ext4 component on the host (10,000)
    Images,
    /// Power cuts while a volume recovers from a power cut, through the ext4 component on the host (500)
    Recovery,
    /// A few of them under Miri, about a minute each (12)
    Miri,
    /// A tree, many files, holes and random operations on a disk that the other system then reads
    Disk,
    /// The same with 64 MiB and a program that takes all memory beside it
    Memory,
    /// Random kernel calls and messages of a component, and of one that runs programs, beside others that must not notice (10,000,000 each)
    Hostile,
    /// A disk driver that misbehaves in 26 ways, beside programs that must not notice (1 round)
    HostileDriver,
    /// Every call with every combination of flags: each must return, as on Linux (all)
    Returns,
    /// Every described call with every class of arguments: answers and effects, beside Linux (all)
    Arguments,
    /// Every stressor of stress-ng, beside Linux (all)
    Stress,
    /// QEMU's start to the prompt, beside Linux (7 boots of each)
    Boot,
}

/// Runs one campaign.
///
/// # Errors
/// Fails if the system does not build or start. A fault that the campaign finds is printed and gives status 1.
pub fn run(options: &Options) -> Result<u8> {
    packages::ensure(packages::Need::Test)?;
    match options.what {
        What::Forks => on_skerry(options, &forks(options.count.unwrap_or(10_000))),
        What::Loops => on_skerry(options, &loops(options.count.unwrap_or(60))),
        What::Calls => on_skerry(options, &calls(options, Rivals::None)),
        What::Starved => on_skerry(options, &calls(options, Rivals::Starving)),
        What::Flows => flows(options),
        What::Noninterference => {
            noninterference::campaign(options.seed, options.count.unwrap_or(1_000))
        }
        What::Programs => on_skerry(
            options,
            &format!("/abi/mutated_exec {} {}", options.count.unwrap_or(1_000), options.seed),
        ),
        What::Rights => on_skerry(options, &rights(options)),
        What::Filters => filters(options),
        What::Packets => packets(options),
        What::Images => images(options),
        What::Recovery => recovery(options),
        What::Miri => miri::run(options),
        What::Disk => disk_campaign::run(options.cpus, 512, Pressure::None),
        What::Memory => disk_campaign::run(options.cpus, 64, Pressure::Hog),
        What::Hostile => hostile(options),
        What::HostileDriver => hostile_driver(options),
        What::Returns => returns::run(options),
        What::Arguments => arguments::run(options),
        What::Stress => stress::run(options),
        What::Boot => boot(options),
    }
}

/// Takes all memory, and all of both file systems, again and again, until the shell's jobs are ended.
const STARVED: &str = "(while :; do tail /dev/zero; done) >/dev/null 2>&1 & \
    (while :; do for d in /tmp /var/tmp; do dd if=/dev/zero of=$d/full bs=64k; rm -f $d/full; done; done) \
    >/dev/null 2>&1 & ";
/// Ends the jobs that [`STARVED`] started, and removes the files that it and random calls have left.
const TIDIED: &str = "for job in $(jobs -p); do kill $job; done 2>/dev/null; killall -q -9 tail dd; wait; \
    rm -rf /tmp/* /tmp/.[!.]* /var/tmp/* /var/tmp/.[!.]*; [ ! -e /run/failed ]";
/// Number of calls made before objects are counted, so that objects made at a first use and kept exist then.
const FIRST_CALLS: u64 = 200_000;

/// Other programs beside random calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rivals {
    None,
    /// Programs that take all memory and fill the disk.
    Starving,
}

/// Returns the command that runs one process of random calls for each processor, with all resources taken beside them or not,
/// and that counts the objects they leave behind in the kernel.
fn calls(options: &Options, rivals: Rivals) -> String {
    let is_starved = rivals == Rivals::Starving;
    let count = options.count.unwrap_or(10_000_000);
    let all = |count: u64| {
        let each = count / u64::from(options.cpus);
        let start = |number: u32| {
            let limit = if is_starved && number % 2 == 1 { "ulimit -n 12; " } else { "" };
            let seed = options.seed + u64::from(number);
            format!(
                "({limit}/abi/random_calls {each} {seed} || touch /run/failed) & all=\"$all $!\"; "
            )
        };
        let beside = if is_starved { STARVED } else { "" };
        let all: String = (0..options.cpus).map(start).collect();
        format!("{beside} all=; {all} wait $all; {TIDIED}")
    };
    counted_after(&all(count.min(FIRST_CALLS)), &all(count))
}

/// Returns the command of the races, of all calls or of a named one.
fn rights(options: &Options) -> String {
    let only = options.only.first().map(String::as_str).unwrap_or_default();
    format!("/abi/rights {} {} '{only}'", options.count.unwrap_or(400), options.seed)
}

/// Wraps a command in `counted` (tests/abi), which fails if the command leaves objects behind.
fn counted(command: &str) -> String {
    format!("/abi/counted '{command}'")
}

/// Wraps a command in the same way, after a smaller one, which creates the objects that are made at a first use and kept.
pub fn counted_after(first: &str, command: &str) -> String {
    format!("/abi/counted --after '{first}' '{command}'")
}

fn forks(count: u64) -> String {
    counted(&format!(
        "i=0; while [ $i -lt {count} ]; do /bin/true || echo lost; i=$((i+1)); done; echo $i forks"
    ))
}

fn loops(seconds: u64) -> String {
    counted(&format!(
        "work() {{ i=0; while [ $(date +%s) -lt $end ]; do x=$(echo $i | cat); \
         [ \"$x\" = $i ] || echo lost; i=$((i+1)); done; echo $i rounds; }}; \
         end=$(($(date +%s) + {seconds})); work & work & work & work & wait"
    ))
}

/// Runs the hostile components of each kind.
fn hostile(options: &Options) -> Result<u8> {
    let features = Features { check: options.check, ..Features::default() };
    let calls = (options.count.unwrap_or(10_000_000), options.seed);
    let mut status = 0;
    for kind in nucleus_tests::HOSTILE {
        if options.only.is_empty() || options.only.iter().any(|one| one == kind) {
            status |= nucleus_tests::hostile(kind, calls, options.cpus, &features)?;
        }
    }
    Ok(status)
}

/// Size of the part of the disk by which a hostile driver is told how to behave.
const EAR_BYTES: u64 = 16 << 20;

/// The device whose interrupts and registers a hostile driver uses.
const SPARE_DEVICE: &str = "virtio-rng-pci,disable-legacy=on,iommu_platform=on";

/// Runs every behaviour of `tests/components/hostile-blk` so many times. Objects left behind in the kernel are counted.
fn hostile_driver(options: &Options) -> Result<u8> {
    let kernel = build::image("hostile", &Features::default())?;
    let ear = shell::build_path("hostile-ear.img")?;
    fs::File::create(&ear)?.set_len(EAR_BYTES)?;
    let config = Config {
        cpus: options.cpus,
        disks: vec![Disk { image: ear, medium: Medium::Kept }],
        extra: ["-device", SPARE_DEVICE].map(str::to_owned).to_vec(),
        ..guest::machine(&kernel, &disk::programs_image()?, "campaign-hostile.log")?
    };
    let only = options.only.join(" ");
    let play = |rounds| format!("/abi/hostile_driver {rounds} {} /hostile {only}", options.seed);
    let command = counted_after(&play(1), &play(options.count.unwrap_or(1)));
    on_machine(&config, &command)
}

/// Runs subjects at several labels beside each other on the system with a monitor.
fn flows(options: &Options) -> Result<u8> {
    let count = options.count.unwrap_or(10_000_000);
    let kernel = build::image(noninterference::SYSTEM, &Features::for_tests(true))?;
    on_kernel(&kernel, options, &format!("/abi/flows {count} {}", options.seed))
}

fn on_skerry(options: &Options, command: &str) -> Result<u8> {
    let kernel = build::image("default", &Features::default())?;
    on_kernel(&kernel, options, command)
}

fn on_kernel(kernel: &Path, options: &Options, command: &str) -> Result<u8> {
    let image = disk::programs_image()?;
    let config = Config { cpus: options.cpus, ..guest::machine(kernel, &image, "campaign.log")? };
    on_machine(&config, command)
}

fn on_machine(config: &Config, command: &str) -> Result<u8> {
    let bar = shell::progress("the campaign on Skerry");
    let (outcome, output, error) = guest::run_captured(config, command, "", 3600)?;
    bar.finish_and_clear();
    print!("{}{}", String::from_utf8_lossy(&output), String::from_utf8_lossy(&error));
    println!("{outcome}; log in {}", config.log.display());
    Ok(u8::from(outcome != Outcome::Session(Ended::Exited(0))))
}

fn filters(options: &Options) -> Result<u8> {
    on_host(options, "bpf", "damaged_programs", ("random BPF programs", 2_000_000))
}

fn images(options: &Options) -> Result<u8> {
    on_host(options, "ext4", "mutated", ("mutated images", 10_000))
}

fn recovery(options: &Options) -> Result<u8> {
    let what = ("points of recovery cut", 500);
    on_host(options, "ext4", "mounted_at_random_points_of_recovery", what)
}

/// Sends packets to the parsers, then to whole hosts, and a tenth as many requests to the administration and to sockets.
fn packets(options: &Options) -> Result<u8> {
    let count = options.count.unwrap_or(10_000_000);
    let requests = count.div_ceil(10);
    // A socket gets some ten options and messages.
    let sockets = requests.div_ceil(20);
    let mut status = 0;
    for (package, name, what, count) in [
        ("packet", "no_packet_makes", "packets for each parser", count),
        ("labels", "no_label_of_a_packet", "labels of packets", count),
        ("inet", "a_host_outlives_hostile_packets", "packets for whole hosts", count),
        ("netadmin", "mutated_messages_do_no_harm", "messages of netlink", requests),
        ("netadmin", "any_argument_of_an_ioctl", "arguments of ioctls", requests),
        ("objects", "random_requests_of_a_datagram_socket", "sockets of datagrams", sockets),
        ("objects", "random_options_of_a_stream", "connections with random options", sockets),
    ] {
        let options = Options { count: Some(count), ..options.clone() };
        status |= on_host(&options, package, name, (what, count))?;
    }
    Ok(status)
}

/// Runs the test called `name` of a crate, with as many inputs as the options or `count` say.
fn on_host(options: &Options, package: &str, name: &str, (what, count): (&str, u64)) -> Result<u8> {
    let count = options.count.unwrap_or(count).to_string();
    let status = shell::cargo()
        .args(["test", "--locked", "--release", "-p", package, name, "--", "--nocapture"])
        .env("SKERRY_FUZZ_COUNT", &count)
        .env("SKERRY_FUZZ_SEED", options.seed.to_string())
        // The kernel's arithmetic wraps; here a number that does is a fault.
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
        .status()
        .context("starting cargo")?;
    println!("{count} {what}: {}", if status.success() { "held" } else { "failed" });
    Ok(u8::from(!status.success()))
}

/// Measures the milliseconds from QEMU's start to the prompt: alternating, medians and their ratio (acceptance 5).
fn boot(options: &Options) -> Result<u8> {
    let rounds = options.count.unwrap_or(7).max(1);
    let kernel = build::image("default", &Features::default())?;
    let root = disk::default_root()?;
    let linux = linux::prepare()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let bar = shell::progress("booting Skerry and Linux in turn");
    for _ in 0..rounds {
        ours.push(skerry_until(&kernel, &root, "", "skerry:")?.as_millis());
        theirs.push(linux_until(&linux, &root, "skerry.prompt", "prompt")?.as_millis());
    }
    bar.finish_and_clear();
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!("QEMU's start to the prompt, q35, 1 processor, median of {rounds}:");
    println!("Skerry, from disk       {ours:>6} ms");
    println!("Linux, from initramfs   {theirs:>6} ms");
    println!("ratio                   {:>6.3} (at most 0.167)", ours as f64 / theirs as f64);
    Ok(0)
}

fn median(times: &mut [u128]) -> u128 {
    times.sort_unstable();
    times[times.len() / 2]
}
