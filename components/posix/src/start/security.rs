//! The policy of a system with a monitor: it is enforced from the moment when the root is mounted, before the first program runs.
//!
//! Kernel parameter: `monitor.defcontext=CONTEXT` gives a context to the files of the root that have none.
//!
//! Source: SELinux's `load_policy(8)` and `mount(8)`; the place is libselinux's for a policy that is called `skerry`.
use alloc::{format, string::String, vec::Vec};
use linux_raw_sys::general as raw;
use vfs::{Base, Caller, Errno, OpenHow, Walk, io::SliceSink, security};

/// The policy's file.
const POLICY: &str = "/etc/selinux/skerry/policy";

/// Loads the policy of the root, or keeps the one that the monitor ships if there is none, and enforces it.
///
/// # Errors
/// The reason in words: a system with a monitor does not start with a policy that is refused.
pub(super) fn load_policy(caller: &Caller<'_>) -> Result<(), String> {
    if security::monitor().is_none() {
        return Ok(());
    }
    match read(caller, POLICY) {
        Ok(text) => security::load(&text)
            .map_err(|fault| format!("the policy {POLICY} is refused: {fault}"))?,
        Err(Errno::ENOENT) => log::info!("there is no {POLICY}: the shipped policy holds"),
        Err(errno) => return Err(format!("the policy {POLICY} cannot be read: {errno:?}")),
    }
    security::enforce();
    objects::socket::internet::label_network();
    if let Some(context) = rt::system::parameter("monitor.defcontext") {
        let label = security::named(context.as_bytes());
        let label = label.map_err(|_| format!("monitor.defcontext: `{context}` is no context"))?;
        caller.root.mount.instance().labels().set_fallback(label);
    }
    Ok(())
}

/// Gives devices, and directories in memory, the labels that the policy names.
pub(super) fn label_places<'p>(caller: &Caller<'_>, paths: impl Iterator<Item = &'p str>) {
    for path in paths {
        let Some(label) = security::of_device(path) else { continue };
        match caller.walk(Base::Cwd, path.as_bytes(), Walk::empty()) {
            Ok(place) => place.vnode().assign(label),
            Err(errno) => log::warn!("{path} has no label: {errno:?}"),
        }
    }
}

/// Returns the bytes of a file.
fn read(caller: &Caller<'_>, path: &str) -> Result<Vec<u8>, Errno> {
    let file = caller.open(Base::Cwd, path.as_bytes(), OpenHow::new(raw::O_RDONLY))?;
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        bytes.resize(start + rt::PAGE_BYTES, 0);
        let count = file.read(&mut SliceSink::new(bytes.get_mut(start..).unwrap_or_default()))?;
        bytes.truncate(start + count);
        if count == 0 {
            return Ok(bytes);
        }
    }
}
