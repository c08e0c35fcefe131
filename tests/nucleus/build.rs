//! Hands the kernel's linker script to the linker.
use std::env;

fn main() {
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|target| target == "none") {
        let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-T{root}/../../image/kernel.ld");
    }
}
