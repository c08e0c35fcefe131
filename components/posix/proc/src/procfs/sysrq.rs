//! `/proc/sysrq-trigger`: a letter asks the kernel for an action, even while other threads hang.
//!
//! Of Linux's letters there are `t` (log every thread) and `s` (sync); any other logs the list. No
//! lock of the personality is taken for `t`, so it works while other threads hang. Source: Linux
//! `Documentation/admin-guide/sysrq.rst`.
use vfs::Errno;

/// Does the action of the first letter of `data`.
pub fn trigger(data: &[u8]) -> Result<(), Errno> {
    match data.first() {
        Some(b't') => rt::system::log_threads("sysrq t"),
        Some(b's') => vfs::sync_all()?,
        Some(_) => log::info!("sysrq: HELP : sync(s) show-task-states(t)"),
        None => {}
    }
    Ok(())
}
