//! Checks the system description (`systems/$SKERRY_SYSTEM.toml`, `default` if unset) and turns it
//! into the table that `main.rs` includes; finds the archive of isolated components (`$SKERRY_ARCHIVE`, empty
//! if unset); hands the linker script to the linker.
mod system;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
};

fn generate() -> Result<(), String> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(|error| error.to_string())?;
    let name = env::var("SKERRY_SYSTEM").unwrap_or_else(|_| "default".to_owned());
    let path = Path::new(&root).join("../systems").join(format!("{name}.toml"));
    println!("cargo:rerun-if-changed={}", path.display());
    println!("cargo:rerun-if-env-changed=SKERRY_SYSTEM");
    println!("cargo:rerun-if-changed=kernel.ld");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let system = system::parse(&text).map_err(|wrong| format!("systems/{name}.toml: {wrong}"))?;
    let out = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    fs::write(Path::new(&out).join("system.rs"), system::table(&name, &system))
        .map_err(|error| error.to_string())?;
    println!("cargo:rerun-if-env-changed=SKERRY_ARCHIVE");
    let archive = match env::var("SKERRY_ARCHIVE") {
        Ok(path) => PathBuf::from(path),
        Err(_) => {
            let empty = Path::new(&out).join("empty.archive");
            fs::write(&empty, archive::pack(&[])).map_err(|error| error.to_string())?;
            empty
        }
    };
    println!("cargo:rerun-if-changed={}", archive.display());
    println!("cargo:rustc-env=SKERRY_ARCHIVE={}", archive.display());
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|target| target == "none") {
        println!("cargo:rustc-link-arg-bins=-T{root}/kernel.ld");
    }
    Ok(())
}

fn main() {
    if let Err(wrong) = generate() {
        eprintln!("{wrong}");
        process::exit(1);
    }
}
