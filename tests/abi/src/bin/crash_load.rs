//! `crash_load FOLDER SEED WORKERS [SHARED]`: does the steps of [`workload`] for ever, each worker in a process
//! and folder of its own, and prints `WORKER STEP` once a step is durable. In a system with a monitor it makes each file with a label
//! that follows from the name. With `SHARED` it makes a multilevel directory of that name, in which a program of each of
//! [`workload::LEVELS`] works, too; all use the same names there.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    os::{
        fd::AsRawFd,
        unix::{fs::PermissionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::Command,
};
use workload::{Change, Model, Step, replacement_name};

/// The program that enters the domain of the workers of levels.
const PROGRAM: &str = "/crash-program";
/// The first word of its arguments.
const LEVEL: &str = "level";
/// The folder of each level in the multilevel directory.
const SHARED_NAME: &str = "work";

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, first, folder, seed, number] = &words[..]
        && first == LEVEL
    {
        let (seed, number) = (seed.parse().expect("a seed"), number.parse().expect("a number"));
        let labels = Labels::OfLevel;
        return work(&Path::new(folder).join(SHARED_NAME), seed, number, labels)
            .expect("the workload");
    }
    let word = |at: usize| std::env::args().nth(at).expect("crash_load FOLDER SEED WORKERS");
    let folder = PathBuf::from(word(1));
    let (seed, workers): (u64, u64) =
        (word(2).parse().expect("a seed"), word(3).parse().expect("a number of workers"));
    let mut children: Vec<i32> = (0..workers)
        .map(|number| {
            let folder = folder.join(format!("w{number}"));
            let labels = if abi::mls::is_here() { Labels::OfName } else { Labels::None };
            abi::fork(move || work(&folder, seed, number, labels).expect("the workload"))
        })
        .collect();
    if let Some(shared) = words.get(4) {
        children
            .extend(start_levels(Path::new(shared), seed, workers).expect("the workers of levels"));
    }
    for child in children {
        abi::wait(child);
    }
}

/// The labels with which a worker makes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Labels {
    /// There are no labels.
    None,
    /// The one that follows from the name.
    OfName,
    /// The one that the system gives.
    OfLevel,
}

/// Makes the multilevel directory, and starts a program of each level in it.
fn start_levels(shared: &Path, seed: u64, first: u64) -> io::Result<Vec<i32>> {
    fs::create_dir_all(shared)?;
    fs::set_permissions(shared, fs::Permissions::from_mode(0o1777))?;
    abi::mls::label(shared, workload::SHARED_LABEL);
    fs::copy("/proc/self/exe", PROGRAM)?;
    abi::mls::label(Path::new(PROGRAM), "system_u:object_r:shell_exec_t:s0");
    let start = |(number, level): (u64, &&str)| {
        abi::fork(|| {
            fs::write("/proc/self/attr/exec", workload::subject_at(level))
                .expect("asking for a level");
            let mut command = Command::new(PROGRAM);
            command.arg(LEVEL).arg(shared).args([seed.to_string(), number.to_string()]);
            panic!("{}", command.exec());
        })
    };
    Ok((first..).zip(&workload::LEVELS).map(start).collect())
}

fn work(folder: &Path, seed: u64, number: u64, labels: Labels) -> io::Result<()> {
    for part in 0..4 {
        fs::create_dir_all(folder.join(format!("d{part}")))?;
    }
    let mut model = Model::new(seed, number);
    for count in 0u64.. {
        take(folder, &model.step(), labels)?;
        io::stdout().write_all(format!("{number} {count}\n").as_bytes())?;
        io::stdout().flush()?;
    }
    Ok(())
}

fn take(folder: &Path, step: &Step, labels: Labels) -> io::Result<()> {
    if labels == Labels::OfName {
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
            // An even length is reached by allocation, if it is a greater one: what is not written yet is zero there, too.
            match *length as u64 > file.metadata()?.len() && length % 2 == 0 {
                true => allocate(&file, *length)?,
                false => file.set_len(*length as u64)?,
            }
            file.sync_all()
        }
        Change::Delete => {
            fs::remove_file(&path)?;
            File::open(parent)?.sync_all()
        }
    }
}

fn allocate(file: &File, length: usize) -> io::Result<()> {
    // SAFETY: takes no pointers.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length as i64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
