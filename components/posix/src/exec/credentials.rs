//! What exec does to credentials: setuid, setgid, capabilities (credentials(7), capabilities(7)).
use super::{ExecRequest, file::Executable};
use vfs::{Capabilities, Credentials, credentials::Ids};

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

/// The credentials a program runs with.
pub fn after_exec(request: &ExecRequest<'_>, program: &Executable) -> (Credentials, Secure) {
    let mut new = request.credentials.clone();
    if !request.has_no_new_privileges {
        let (user, group) = program.set_ids();
        new.user.effective = user.unwrap_or(new.user.effective);
        new.group.effective = group.unwrap_or(new.group.effective);
    }
    let has_changed_ids = new.user.effective != request.credentials.user.real
        || new.group.effective != request.credentials.group.real;
    set_capabilities(&mut new, request.credentials, has_changed_ids);
    let had = request.credentials.capabilities.permitted;
    let has_more = has_changed_ids || !had.contains(new.capabilities.permitted);
    if has_more && request.has_no_new_privileges {
        new.user.effective = new.user.real;
        new.group.effective = new.group.real;
        new.capabilities.permitted &= had;
        new.capabilities.effective &= had;
    }
    settle(&mut new.user);
    settle(&mut new.group);
    new.secure_bits &= !SECBIT_KEEP_CAPS;
    let has_gained =
        new.user.real != 0 && !new.capabilities.ambient.contains(new.capabilities.permitted);
    (new, if has_changed_ids || has_gained { Secure::Yes } else { Secure::No })
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
