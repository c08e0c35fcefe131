//! `/proc/sysrq-trigger`: a letter asks the kernel for something, whoever else is stuck.
//!
//! Of Linux's letters there are `t` (log every thread) and `s` (sync); any other logs the list.
//! No lock of the personality is taken for `t`, so it answers while others hang.
//! Source: Linux `Documentation/admin-guide/sysrq.rst`.
use vfs::Errno;

/// Does what the first letter of `data` asks for.
pub fn trigger(data: &[u8]) -> Result<(), Errno> {
    match data.first() {
        Some(b't') => rt::system::log_threads("sysrq t"),
        Some(b's') => vfs::sync_all()?,
        Some(_) => log::info!("sysrq: HELP : sync(s) show-task-states(t)"),
        None => {}
    }
    Ok(())
}
