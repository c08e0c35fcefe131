//! What exec does to credentials: setuid, setgid, capabilities (credentials(7), capabilities(7)).
use super::{ExecRequest, file::Executable};
use crate::{files::Sharing, memory::Dumpable};
use vfs::{Capabilities, Credentials, credentials::Ids, permission::SetIds};

/// `SECBIT_NOROOT`: user id 0 gives no capabilities.
const SECBIT_NOROOT: u32 = 1;
/// `SECBIT_KEEP_CAPS`, cleared by exec.
const SECBIT_KEEP_CAPS: u32 = 1 << 4;

/// Whether the program has more rights than its caller (`AT_SECURE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secure {
    /// It has.
    Yes,
    /// It has not.
    No,
}

/// The rights of a program.
pub struct Rights {
    /// Its credentials.
    pub credentials: Credentials,
    /// Whether it has more than its caller.
    pub secure: Secure,
    /// Its file gives it ids, if only those that its caller has: its caller does not choose how it is laid out.
    pub is_set_id: bool,
}

/// The rights that a program runs with.
pub fn after_exec(request: &ExecRequest<'_>, program: &Executable) -> Rights {
    let old = request.credentials;
    let mut new = old.clone();
    let given = match request.has_no_new_privileges {
        true => SetIds::default(),
        false => program.set_ids(old),
    };
    new.user.effective = given.user.unwrap_or(new.user.effective);
    new.group.effective = given.group.unwrap_or(new.group.effective);
    let has_changed_ids =
        new.user.effective != old.user.real || new.group.effective != old.group.real;
    set_capabilities(&mut new, old, has_changed_ids);
    let had = old.capabilities.permitted;
    let has_more = has_changed_ids || !had.contains(new.capabilities.permitted);
    let is_unsafe = request.has_no_new_privileges || request.sharing == Sharing::Shared;
    if has_more && is_unsafe {
        if request.has_no_new_privileges || !old.has(Capabilities::SETUID) {
            new.user.effective = new.user.real;
            new.group.effective = new.group.real;
        }
        new.capabilities.permitted &= had;
        new.capabilities.effective &= had;
    }
    settle(&mut new.user);
    settle(&mut new.group);
    new.secure_bits &= !SECBIT_KEEP_CAPS;
    let has_gained =
        new.user.real != 0 && !new.capabilities.ambient.contains(new.capabilities.permitted);
    Rights {
        credentials: new,
        secure: if has_changed_ids || has_gained { Secure::Yes } else { Secure::No },
        is_set_id: given != SetIds::default(),
    }
}

/// Whether others of the caller's user may look into the program, by its credentials.
pub fn dumpable(old: &Credentials, new: &Credentials) -> Dumpable {
    let was_set_id = old.user.effective != old.user.real || old.group.effective != old.group.real;
    if was_set_id || new.departs_from(old) { Dumpable::No } else { Dumpable::Yes }
}

fn settle(ids: &mut Ids) {
    ids.saved = ids.effective;
    ids.fs = ids.effective;
}

fn set_capabilities(new: &mut Credentials, old: &Credentials, has_changed_ids: bool) {
    let is_root_special = new.secure_bits & SECBIT_NOROOT == 0;
    let is_root = is_root_special && (new.user.effective == 0 || new.user.real == 0);
    let sets = &mut new.capabilities;
    if has_changed_ids {
        sets.ambient = Capabilities::empty();
    }
    let from_file = match is_root {
        true => old.capabilities.inheritable | old.capabilities.bounding,
        false => Capabilities::empty(),
    };
    sets.permitted = from_file | sets.ambient;
    let is_effective = is_root_special && new.user.effective == 0;
    sets.effective = if is_effective { sets.permitted } else { sets.ambient };
}
