//! `crash_load FOLDER SEED WORKERS`: does the steps of [`workload`] for ever, each worker in a process
//! and folder of its own, and prints `WORKER STEP` once a step is durable. In a system with a monitor it makes each file with a label
//! that follows from the name.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};
use workload::{Change, Model, Step, replacement_name};

fn main() {
    let word = |at: usize| std::env::args().nth(at).expect("crash_load FOLDER SEED WORKERS");
    let folder = PathBuf::from(word(1));
    let (seed, workers): (u64, u64) =
        (word(2).parse().expect("a seed"), word(3).parse().expect("a number of workers"));
    let children: Vec<i32> = (0..workers)
        .map(|number| {
            let folder = folder.join(format!("w{number}"));
            abi::fork(move || work(&folder, seed, number).expect("the workload"))
        })
        .collect();
    for child in children {
        abi::wait(child);
    }
}

fn work(folder: &Path, seed: u64, number: u64) -> io::Result<()> {
    for part in 0..4 {
        fs::create_dir_all(folder.join(format!("d{part}")))?;
    }
    let mut model = Model::new(seed, number);
    for count in 0u64.. {
        take(folder, &model.step())?;
        io::stdout().write_all(format!("{number} {count}\n").as_bytes())?;
        io::stdout().flush()?;
    }
    Ok(())
}

fn take(folder: &Path, step: &Step) -> io::Result<()> {
    if abi::mls::is_here() {
        fs::write("/proc/thread-self/attr/fscreate", workload::label_of(&step.name))?;
    }
    let path = folder.join(&step.name);
    let parent = path.parent().unwrap_or(folder);
    match &step.change {
        Change::Write(bytes) => {
            write(OpenOptions::new().create(true).truncate(true), &path, 0, bytes)
        }
        Change::Append(bytes) => {
            write(OpenOptions::new().create(true).append(true), &path, 0, bytes)
        }
        Change::Overwrite(at, bytes) => write(&mut OpenOptions::new(), &path, *at as u64, bytes),
        Change::Replace(bytes) => {
            let new = folder.join(replacement_name(&step.name));
            write(OpenOptions::new().create(true).truncate(true), &new, 0, bytes)?;
            fs::rename(&new, &path)?;
            File::open(parent)?.sync_all()
        }
        Change::Truncate(length) => {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(*length as u64)?;
            file.sync_all()
        }
        Change::Delete => {
            fs::remove_file(&path)?;
            File::open(parent)?.sync_all()
        }
    }
}

fn write(how: &mut OpenOptions, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
    let mut file = how.write(true).open(path)?;
    if at > 0 {
        file.seek(SeekFrom::Start(at))?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}
