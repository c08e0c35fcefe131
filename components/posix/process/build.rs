//! Builds the vDSO (`vdso/vdso.rs`) into `OUT_DIR/vdso.so`, which `exec::vdso` embeds.
//!
//! The object is compiled for the kernel's target, which has no library beneath it, and linked by
//! the toolchain's own `rust-lld` into a shared object as the linker script says.
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Names under which a C library looks the functions up, besides `__vdso_NAME`.
const ALIASES: [&str; 5] = ["clock_gettime", "gettimeofday", "time", "clock_getres", "getcpu"];

fn main() {
    let source = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("../../../vdso");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed={}", source.display());
    let object = compile(&source, &out);
    link(&source, &object, &out);
}

fn rustc() -> Command {
    let mut command = Command::new(env::var_os("RUSTC").expect("set by cargo"));
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    command
}

fn compile(source: &Path, out: &Path) -> PathBuf {
    let object = out.join("vdso.o");
    let mut command = rustc();
    command.args(["--edition=2024", "--crate-name=vdso", "--crate-type=lib", "--emit=obj"]);
    command.args(["--target=x86_64-unknown-none", "-Copt-level=3", "-Cpanic=abort"]);
    command.args(["-Crelocation-model=pic", "-Ccodegen-units=1", "-Cforce-unwind-tables=no"]);
    run(command.arg("-o").arg(&object).arg(source.join("vdso.rs")));
    object
}

fn link(source: &Path, object: &Path, out: &Path) {
    let mut linker = Command::new(linker());
    linker.args(["-flavor", "gnu", "-shared", "-nostdlib", "-soname", "linux-vdso.so.1"]);
    linker.args(["--hash-style=both", "--build-id=none", "-Bsymbolic", "-znorelro", "-zrodynamic"]);
    linker.args(["-zmax-page-size=4096", "--strip-all", "--no-undefined", "--gc-sections"]);
    for name in ALIASES {
        linker.arg(format!("--defsym={name}=__vdso_{name}"));
    }
    linker.arg("-T").arg(source.join("vdso.lds"));
    run(linker.arg("-o").arg(out.join("vdso.so")).arg(object));
}

/// Returns the path of the linker that comes with the toolchain.
fn linker() -> PathBuf {
    let output = rustc().args(["--print", "sysroot"]).output().expect("rustc runs");
    let sysroot = String::from_utf8(output.stdout).expect("a path");
    let host = env::var("HOST").expect("set by cargo");
    Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/rust-lld")
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?} failed");
}
