//! The call memfd_create.
use super::entry::Entry;
use alloc::{sync::Arc, vec::Vec};
use linux_raw_sys::general as raw;
use objects::file_systems::{self, Writes};
use process::{
    call::Call,
    files::{OnExec, Scope, install::install},
};
use rt::sync::Once;
use vfs::{Credentials, Errno, Mount, Seals};

/// The system calls that this file implements.
pub const CALLS: &[Entry] =
    &[Entry::partial(raw::__NR_memfd_create, "memfd_create", "MFD_HUGETLB", memfd_create)];

const FLAGS: u32 = raw::MFD_CLOEXEC | raw::MFD_ALLOW_SEALING | raw::MFD_NOEXEC_SEAL | raw::MFD_EXEC;
/// `MFD_HUGETLB` and the size of its pages.
const HUGE: u32 = raw::MFD_HUGETLB | raw::MFD_HUGE_MASK << raw::MFD_HUGE_SHIFT;
/// The prefix of the link text of such a file.
const PREFIX: &[u8] = b"memfd:";
/// The longest name with the NUL after it.
const NAME_BYTES: usize = vfs::NAME_MAX - PREFIX.len() + 1;
const MODE: u16 = 0o777;
const MODE_NO_EXEC: u16 = 0o666;

/// Returns the file system of these files, which only memory limits.
fn mount() -> Result<&'static Arc<Mount>, Errno> {
    static MOUNT: Once<Arc<Mount>> = Once::new();
    MOUNT.get_or_try_init(|| {
        let options = (b"mode=1777,size=0,nr_inodes=0".as_slice(), &Credentials::root());
        let active =
            file_systems::activate("tmpfs", file_systems::no_disk, Writes::Possible, options)?;
        Ok(Mount::unseen("tmpfs", active))
    })
}

fn memfd_create(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(1);
    let has = |flag: u32| flags & flag != 0;
    if flags & !(FLAGS | HUGE) != 0 || has(raw::MFD_EXEC) && has(raw::MFD_NOEXEC_SEAL) {
        return Err(Errno::EINVAL);
    }
    if !has(raw::MFD_HUGETLB) && has(HUGE) {
        return Err(Errno::EINVAL);
    }
    let name = call.memory.read_text(call.word(0), NAME_BYTES).map_err(|error| match error {
        Errno::ENAMETOOLONG => Errno::EINVAL,
        other => other,
    })?;
    if has(raw::MFD_HUGETLB) {
        return Err(Errno::ENOSYS);
    }
    let (mut mode, mut seals) = (MODE, Seals::SEAL);
    if has(raw::MFD_ALLOW_SEALING) {
        seals = Seals::empty();
    }
    if has(raw::MFD_NOEXEC_SEAL) {
        (mode, seals) = (MODE_NO_EXEC, Seals::EXECUTE);
    }
    let label: Vec<u8> = [PREFIX, &name[..]].concat();
    let scope = Scope::of(call.task);
    let file = scope.caller().open_nameless(mount()?, &label, mode, seals)?;
    install(call.task, file, OnExec::from_flag(flags, raw::MFD_CLOEXEC))
}
