//! Hands the linker script of isolated components to the linker.
fn main() {
    println!("cargo:rerun-if-changed=component.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|target| target == "none") {
        println!("cargo:rustc-link-arg-bins=-T{}/component.ld", env!("CARGO_MANIFEST_DIR"));
    }
}
