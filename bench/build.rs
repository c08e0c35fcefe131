//! Passes the linker script of isolated components to the linker; with `$SKERRY_SERVER`, that of components that run programs.
fn main() {
    println!("cargo:rerun-if-env-changed=SKERRY_SERVER");
    let is_server = std::env::var_os("SKERRY_SERVER").is_some();
    let name = if is_server { "server.ld" } else { "component.ld" };
    let script = format!("{}/../image/{name}", env!("CARGO_MANIFEST_DIR"));
    println!("cargo:rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|target| target == "none") {
        println!("cargo:rustc-link-arg-bins=-T{script}");
    }
}
