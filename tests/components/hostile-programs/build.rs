//! Passes the linker script of isolated components to the linker.
fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../image/component.ld");
    println!("cargo:rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|target| target == "none") {
        println!("cargo:rustc-link-arg-bins=-T{script}");
    }
}
