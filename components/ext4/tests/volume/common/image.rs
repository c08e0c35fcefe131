//! Images made by the stock tools: mke2fs fills them from a directory, debugfs and e2fsck finish them.
use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    os::unix::fs::symlink,
    path::Path,
    process::Command,
};
use tempfile::TempDir;

/// The recipe for an image.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Options of mke2fs.
    pub options: &'static [&'static str],
    /// Size in KiB.
    pub kib: usize,
    /// Commands for `debugfs -w`.
    pub debugfs: String,
    /// Arguments of `tune2fs`, if any.
    pub tune2fs: &'static [&'static str],
    /// Let `e2fsck -D` build the hash trees.
    pub has_index: bool,
}

impl Recipe {
    /// Returns the recipe for an image of `kib` KiB made with `options`.
    pub fn new(options: &'static [&'static str], kib: usize) -> Recipe {
        Recipe { options, kib, debugfs: String::new(), tune2fs: &[], has_index: false }
    }

    /// Adds hash trees to the recipe.
    pub fn indexed(self) -> Recipe {
        Recipe { has_index: true, ..self }
    }

    /// Adds debugfs commands to the recipe.
    pub fn with(self, commands: &str) -> Recipe {
        Recipe { debugfs: format!("{}{commands}\n", self.debugfs), ..self }
    }

    /// Makes the image, filled from `source`.
    pub fn make(&self, source: &Path) -> Vec<u8> {
        let folder = TempDir::new().unwrap();
        let image = folder.path().join("image");
        let image = image.to_str().unwrap();
        let mut mke2fs = vec!["-q", "-F", "-t", "ext4", "-d", source.to_str().unwrap()];
        mke2fs.extend(self.options);
        let size = format!("{}k", self.kib);
        run("mke2fs", &[&mke2fs[..], &[image, &size]].concat(), &[0]);
        if !self.tune2fs.is_empty() {
            run("tune2fs", &[self.tune2fs, &[image]].concat(), &[0]);
        }
        if !self.debugfs.is_empty() {
            let script = folder.path().join("script");
            fs::write(&script, &self.debugfs).unwrap();
            run("debugfs", &["-w", "-f", script.to_str().unwrap(), image], &[0]);
        }
        if self.has_index {
            run("e2fsck", &["-f", "-y", "-D", image], &[0, 1]);
        }
        fs::read(image).unwrap()
    }
}

/// Runs a tool of e2fsprogs.
pub fn run(tool: &str, arguments: &[&str], good: &[i32]) -> String {
    let output = Command::new(format!("/usr/sbin/{tool}")).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(code.is_some_and(|code| good.contains(&code)), "{tool} {arguments:?}: {text}{errors}");
    text
}

/// Returns bytes that depend on their positions.
pub fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|at| ((at / 7) ^ (at >> 9) ^ salt.wrapping_mul(31)) as u8 | 1).collect()
}

/// Makes a folder with a file of every interesting size, holes, links and a directory of `names`
/// files.
pub fn source(names: usize) -> TempDir {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    let sizes = [0, 1, 59, 60, 61, 100, 159, 160, 500, 1023, 1024, 2049, 4095, 4096, 4097, 49_153];
    for size in sizes {
        fs::write(root.join(format!("size-{size}")), pattern(size, size)).unwrap();
    }
    fs::write(root.join("long"), pattern(700_001, 3)).unwrap();
    holes(&root.join("holes"), 400);
    let mut late = fs::File::create(root.join("late")).unwrap();
    late.seek(SeekFrom::Start(5 << 30)).unwrap();
    late.write_all(b"beyond four gigabytes").unwrap();
    symlink("size-60", root.join("fast")).unwrap();
    symlink("x".repeat(59), root.join("link-59")).unwrap();
    symlink("y".repeat(60), root.join("link-60")).unwrap();
    symlink("z/y".repeat(300), root.join("link-900")).unwrap();
    fs::create_dir_all(root.join("deep/er/still")).unwrap();
    fs::write(root.join("deep/er/still/leaf"), b"leaf").unwrap();
    fs::hard_link(root.join("long"), root.join("deep/hard")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::create_dir(root.join("small")).unwrap();
    fs::write(root.join("small/a"), b"a").unwrap();
    fs::create_dir(root.join("many")).unwrap();
    for number in 0..names {
        fs::write(root.join("many").join(name(number)), b"").unwrap();
    }
    folder
}

/// Returns the name of file `number` of the large directory; some have characters beyond 127.
pub fn name(number: usize) -> String {
    format!("{number:05}-name-{}-{}", "é".repeat(number % 5), "n".repeat(number % 40))
}

/// Makes a file of `count` pieces of 4 KiB with holes of 4 KiB between them.
fn holes(path: &Path, count: usize) {
    let mut file = fs::File::create(path).unwrap();
    for piece in 0..count {
        file.seek(SeekFrom::Start(piece as u64 * 8192)).unwrap();
        file.write_all(&pattern(4096, piece)).unwrap();
    }
}
