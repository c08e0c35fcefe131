//! Passes the kernel's linker script to the linker, and finds the archive of the components whose messages are
//! measured (`$SKERRY_PROBES`; without it they are left out).
use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=SKERRY_PROBES");
    let none =
        format!("{}/src/costs/none.archive", env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let probes = env::var("SKERRY_PROBES").unwrap_or(none);
    println!("cargo:rerun-if-changed={probes}");
    println!("cargo:rustc-env=SKERRY_PROBES={probes}");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|target| target == "none") {
        let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rerun-if-changed={root}/../../image/kernel.ld");
        println!("cargo:rustc-link-arg-bins=-T{root}/../../image/kernel.ld");
    }
}
