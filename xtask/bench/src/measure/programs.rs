//! Debian's programs for the rows of nginx, redis and iperf3: the unmodified binaries, fetched by apt, with the libraries that
//! they load. `bench/probes/programs.c` starts them.
use anyhow::{Context, Result, ensure};
use harness::{packages, shell};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Name of the suite of `bench/probes` that needs the programs.
pub const SUITE: &str = "programs";
/// The programs, and the packages that hold them and their libraries.
const PROGRAMS: [&str; 3] = ["usr/sbin/nginx", "usr/bin/redis-server", "usr/bin/iperf3"];
const PACKAGES: [&str; 26] = [
    "nginx",
    "redis-server",
    "redis-tools",
    "iperf3",
    "libatomic1",
    "libc6",
    "libcap2",
    "libcrypt1",
    "libgcc-s1",
    "libgcrypt20",
    "libgpg-error0",
    "libiperf0",
    "libjemalloc2",
    "liblua5.1-0",
    "liblz4-1",
    "liblzf1",
    "liblzma5",
    "libpcre2-8-0",
    "libsctp1",
    "libssl3",
    "libstdc++6",
    "libsystemd0",
    "libzstd1",
    "lua-bitop",
    "lua-cjson",
    "zlib1g",
];
/// The program that loads libraries, in a root of Debian.
const LOADER: &str = "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
/// Folders of libraries, in a root of Debian.
const LIBRARIES: [&str; 2] = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];
/// Configuration of nginx: Debian's, as far as it concerns a file of a static site, for a server that stays in the foreground.
const NGINX: &str = "daemon off;
worker_processes 1;
pid /tmp/bench/nginx.pid;
error_log /tmp/bench/nginx.error;
events { worker_connections 768; }
http {
    sendfile on;
    tcp_nopush on;
    access_log /tmp/bench/nginx.access;
    client_body_temp_path /tmp/bench/body;
    proxy_temp_path /tmp/bench/proxy;
    fastcgi_temp_path /tmp/bench/fastcgi;
    uwsgi_temp_path /tmp/bench/uwsgi;
    scgi_temp_path /tmp/bench/scgi;
    keepalive_requests 1000000000;
    server { listen 127.0.0.1:8080; root /bench/site; }
}
";
/// Bytes of the file that nginx serves.
const FILE_BYTES: usize = 1024;

/// Puts the programs into `programs/` of the image's `/bench`, and what nginx serves into `site/`. Without them (they cannot be
/// fetched) it says so, and their rows are left out.
///
/// # Errors
/// Fails if the files cannot be written.
pub fn add(folder: &Path) -> Result<()> {
    let tree = match tree() {
        Ok(tree) => tree,
        Err(why) => {
            let why = format!("{why:#}");
            let first = why.lines().next().unwrap_or_default();
            eprintln!("the rows of nginx, redis and iperf3 are left out: {first}");
            return Ok(());
        }
    };
    let to = folder.join("programs");
    fs::create_dir_all(&to)?;
    let mut files = vec![tree.join(LOADER)];
    for program in PROGRAMS.map(|program| tree.join(program)) {
        files.extend(libraries(&tree, &program)?);
        files.push(program);
    }
    for file in files {
        let name = file.file_name().context("a program has a name")?;
        fs::copy(&file, to.join(name)).with_context(|| format!("copying {}", file.display()))?;
    }
    fs::write(to.join("nginx.conf"), NGINX)?;
    let site = folder.join("site");
    fs::create_dir_all(&site)?;
    fs::write(site.join("1k"), "x".repeat(FILE_BYTES))?;
    Ok(())
}

/// Returns whether the image has the programs.
///
/// # Errors
/// Fails if `build/` cannot be made.
pub fn are_there() -> Result<bool> {
    Ok(super::probes::folder()?.join("programs/nginx.conf").exists())
}

/// Returns a folder with the packages, fetched on first use.
fn tree() -> Result<PathBuf> {
    let tree = shell::build_path("bench-programs/tree")?;
    if tree.exists() {
        return Ok(tree);
    }
    let folder = shell::build_path("bench-programs/packages")?;
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    if fetch(&folder).is_err() {
        // The lists may be missing, or name versions that the archive has no more.
        let mut update = packages::privileged("apt-get update -qq")?;
        shell::quietly("updating Debian's package lists", &mut update)?;
        fetch(&folder)?;
    }
    let partial = tree.with_extension("partial");
    for entry in fs::read_dir(&folder)? {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(entry?.path()).arg(&partial);
        shell::quietly("unpacking it", &mut unpack)?;
    }
    fs::rename(&partial, &tree)?;
    Ok(tree)
}

fn fetch(folder: &Path) -> Result<()> {
    let mut fetch = Command::new("apt-get");
    fetch.args(["download", "-qq"]).args(PACKAGES).current_dir(folder);
    shell::quietly("fetching nginx, redis and iperf3", &mut fetch)?;
    Ok(())
}

/// Returns the libraries that `program` loads, as its own loader finds them.
fn libraries(tree: &Path, program: &Path) -> Result<Vec<PathBuf>> {
    let folders = LIBRARIES.map(|folder| tree.join(folder).display().to_string());
    let mut loader = Command::new(tree.join(LOADER));
    loader.arg("--library-path").arg(folders.join(":")).arg("--list").arg(program);
    let listed = shell::quietly("asking for libraries", &mut loader)?;
    let found = found(&String::from_utf8_lossy(&listed));
    for file in &found {
        ensure!(file.starts_with(tree), "{}: of none of the packages", file.display());
    }
    Ok(found)
}

/// Returns the files in lines `NAME => FILE (ADDRESS)`.
fn found(listed: &str) -> Vec<PathBuf> {
    let file = |line: &str| {
        let (_, rest) = line.split_once(" => ")?;
        Some(PathBuf::from(rest.rsplit_once(" (")?.0))
    };
    listed.lines().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_that_have_files() {
        let listed = "\tlinux-vdso.so.1 (0x7f)\n\tlibz.so.1 => /t/lib/libz.so.1 (0x7f87)\n";
        assert_eq!(found(listed), [PathBuf::from("/t/lib/libz.so.1")]);
    }
}
