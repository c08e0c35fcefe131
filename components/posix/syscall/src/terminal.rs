//! The call vhangup; all other operations on terminals are ioctls.
use super::entry::Entry;
use linux_raw_sys::general as raw;
use objects::tty::job;
use process::call::Call;
use vfs::{Errno, credentials::Capabilities};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[Entry::whole(raw::__NR_vhangup, "vhangup", vhangup)];

fn vhangup(call: &mut Call<'_>) -> Result<u64, Errno> {
    if !call.task.credentials().has(Capabilities::SYS_TTY_CONFIG) {
        return Err(Errno::EPERM);
    }
    job::hang_up_own(call.task);
    Ok(0)
}
