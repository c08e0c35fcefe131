//! `./x crash --audit`: QEMU is killed while programs wait until their audit records are on the medium. Each record of a call that had
//! returned must be there, once. All rounds have the same medium, so that each machine goes on with the log that the one before left.
use super::{Options, kill_after, life, seed_of};
use anyhow::{Context, Result};
use audit_log::{
    BLOCK_BYTES, HEADS, LogBlock, LogHead, PieceJoiner, RING, is_new, newer_head, pieces,
};
use harness::{
    build::{self, Features},
    disk, guest,
    qemu::{Config, Disk, Medium},
    shell,
    tally::Tally,
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

const SYSTEM: &str = "mls";
const MEDIUM_BYTES: u64 = 64 << 20;

/// A record on the medium: its number, and its text.
type Record = (u64, String);

/// The machine of the rounds, and what programs were told in them.
struct Rounds {
    config: Config,
    medium: PathBuf,
    seed: u64,
    /// Numbers of records of which each round's program was told.
    told: BTreeMap<u64, u64>,
}

impl Rounds {
    fn prepare(options: &Options) -> Result<Rounds> {
        let kernel = build::image(SYSTEM, &Features::default())?;
        let image = disk::programs_image()?;
        let medium = shell::build_path("crash-audit.medium")?;
        let _ = fs::remove_file(&medium);
        File::create(&medium)?.set_len(MEDIUM_BYTES)?;
        let machine = guest::machine(&kernel, &image, "crash-audit.log")?;
        let config = Config {
            cpus: options.cpus,
            memory: options.memory,
            disks: vec![Disk { image: medium.clone(), medium: Medium::Kept }],
            append: format!("{} audit.medium=vdb", machine.append),
            ..machine
        };
        Ok(Rounds { config, medium, seed: options.seed, told: BTreeMap::new() })
    }

    /// Boots, kills and compares once.
    fn one(&mut self, round: u64) -> Result<Result<(), String>> {
        let seed = seed_of(self.seed, round);
        let command = format!(
            "echo synchronous on > /proc/skerry/audit; echo enable > /proc/skerry/audit; \
             exec /abi/audit_load r{round} 0"
        );
        let text = kill_after(&self.config, &command, (life(seed), &|text| !text.is_empty()))?;
        // A last line that was cut does not count.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        self.told.insert(round, lines.count() as u64);
        let records = records(&self.medium)?;
        Ok(self.judge(&records))
    }

    fn judge(&self, records: &[Record]) -> Result<(), String> {
        for (at, (number, _)) in records.iter().enumerate() {
            if *number != at as u64 + 1 {
                return Err(format!("record {number} is at the place of {}", at + 1));
            }
        }
        let mut found: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, text) in records {
            let name = text.split("comm=\"").nth(1).and_then(|rest| rest.split('"').next());
            *found.entry(name.unwrap_or_default()).or_default() += 1;
        }
        for (round, told) in &self.told {
            for number in 0..*told {
                let name = format!("r{round}-{number}");
                match found.get(name.as_str()) {
                    Some(1) => {}
                    count => return Err(format!("{name} of {told} is there {count:?} times")),
                }
            }
        }
        Ok(())
    }
}

/// Returns the records of a medium, by their numbers.
fn records(medium: &Path) -> Result<Vec<Record>> {
    let bytes = fs::read(medium)?;
    let blocks = bytes.as_chunks::<BLOCK_BYTES>().0;
    let length = blocks.len() as u64;
    let heads = blocks.iter().take(HEADS as usize).map(|block| LogHead::decode(block, length));
    let head = heads.fold(None, newer_head).context("the medium has no head")?;
    let of_log = blocks.iter().skip(RING as usize).filter_map(|it| LogBlock::decode(it, head.id));
    let mut kept: Vec<LogBlock<'_>> =
        of_log.filter(|block| block.number < head.end || is_new(&head, block)).collect();
    kept.sort_by_key(|block| block.number);
    let mut joiner = PieceJoiner::default();
    let all = kept.iter().flat_map(|block| pieces(block.list));
    let whole = all.filter_map(|piece| joiner.take(&piece));
    Ok(whole
        .map(|(number, _, text)| (number, String::from_utf8_lossy(&text).into_owned()))
        .collect())
}

/// Runs the campaign.
///
/// # Errors
/// Fails if something does not build or start. Failed rounds are printed and give status 1.
pub(super) fn run(options: &Options) -> Result<u8> {
    let mut rounds = Rounds::prepare(options)?;
    let mut failed = 0;
    for round in 0..options.count {
        if let Err(why) = rounds.one(round)? {
            failed += 1;
            println!("FAILED round {round}: {why}");
        }
    }
    let told: u64 = rounds.told.values().sum();
    println!("{} kills, {told} records: {failed} rounds failed", options.count);
    Ok(u8::from(failed > 0))
}

/// Runs a few rounds as tests.
///
/// # Errors
/// Fails if something does not build or start.
pub(super) fn tested(tally: &mut Tally, options: &Options) -> Result<()> {
    const ROUNDS: u64 = 3;
    let mut rounds = Rounds::prepare(options)?;
    for round in 0..ROUNDS {
        let name = format!("crash: audit records are on their medium, round {round} ({SYSTEM})");
        tally.count(&name, rounds.one(round)?);
    }
    Ok(())
}
