//! `replace_load FOLDER SEED WORKERS SECONDS`: repeats the patterns of [`workload::patterns`], each worker in a process
//! and folder of its own, and prints `WORKER STEP` once a step is known to be committed.
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use workload::patterns::{LINKS_KEPT, Pattern, STEPS_A_MARK, contents};

fn main() {
    let word =
        |at: usize| std::env::args().nth(at).expect("replace_load FOLDER SEED WORKERS SECONDS");
    let number = |at: usize| -> u64 { word(at).parse().expect("a number") };
    let (folder, seed) = (PathBuf::from(word(1)), number(2));
    let end = Instant::now() + Duration::from_secs(number(4));
    let children: Vec<i32> = (0..number(3))
        .map(|worker| {
            let folder = folder.join(format!("w{worker}"));
            abi::fork(move || work(&folder, seed, worker, end).expect("the workload"))
        })
        .collect();
    for child in children {
        abi::wait(child);
    }
}

fn work(folder: &Path, seed: u64, worker: u64, end: Instant) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut mark = OpenOptions::new().create(true).append(true).open(folder.join("mark"))?;
    for version in 1.. {
        if Instant::now() > end {
            break;
        }
        step(folder, Pattern::of(worker), version, &contents(seed, worker, version))?;
        if version % STEPS_A_MARK == 0 {
            mark.write_all(b"x")?;
            mark.sync_all()?;
            io::stdout().write_all(format!("{worker} {version}\n").as_bytes())?;
            io::stdout().flush()?;
        }
    }
    Ok(())
}

fn step(folder: &Path, pattern: Pattern, version: u64, bytes: &[u8]) -> io::Result<()> {
    let (file, new) = (folder.join("file"), folder.join("new"));
    match pattern {
        Pattern::Rename => {
            fs::write(&new, bytes)?;
            fs::rename(&new, &file)
        }
        Pattern::SyncedRename => {
            let mut written = fs::File::create(&new)?;
            written.write_all(bytes)?;
            written.sync_all()?;
            fs::rename(&new, &file)
        }
        Pattern::Emptied => fs::write(&file, bytes),
        Pattern::Append => {
            OpenOptions::new().create(true).append(true).open(&file)?.write_all(bytes)
        }
        Pattern::Link => {
            let names =
                |version| ["made", "link"].map(|name| folder.join(format!("{name}-{version}")));
            let [made, link] = names(version);
            fs::write(&made, bytes)?;
            fs::hard_link(&made, &link)?;
            match version.checked_sub(LINKS_KEPT).filter(|old| *old > 0) {
                Some(old) => names(old).iter().try_for_each(fs::remove_file),
                None => Ok(()),
            }
        }
        Pattern::Recreate => {
            if version > 1 {
                fs::remove_file(&file)?;
            }
            fs::write(&file, bytes)
        }
    }
}
