//! Effects of exec on credentials: setuid, setgid, capabilities (credentials(7), capabilities(7)).
use super::{ExecRequest, file::Executable};
use crate::{audit, files::sharing::Sharing};
use memory::Dumpable;
use vfs::{
    Capabilities, Credentials, Errno,
    credentials::Ids,
    permission::{FileCapabilities, SetIds},
    security,
};

/// `SECBIT_NOROOT`: user id 0 gives no capabilities.
const SECBIT_NOROOT: u32 = 1;
/// `SECBIT_KEEP_CAPS`, cleared by exec.
const SECBIT_KEEP_CAPS: u32 = 1 << 4;

/// Tells whether the program has more rights than its caller (`AT_SECURE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secure {
    /// The program has more rights.
    Yes,
    /// The program has no more rights.
    No,
}

/// The rights of a new program.
pub struct Rights {
    /// Its credentials.
    pub credentials: Credentials,
    /// Whether the program has more rights than its caller.
    pub secure: Secure,
    /// The program's file sets ids or capabilities, even if its caller has them already: its caller must not choose the
    /// program's layout.
    pub is_set_id: bool,
}

/// Returns the rights of a new program (Linux `cap_bprm_creds_from_file`).
///
/// # Errors
/// `EPERM` if the file's capabilities are to be effective from the start and some cannot be given; `EINVAL` if they are
/// malformed.
pub fn after_exec(request: &ExecRequest<'_>, program: &Executable) -> Result<Rights, Errno> {
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
    let from_file = program.capabilities()?;
    let is_effective = take_capabilities(&mut new, old, from_file)?;
    let had = old.capabilities.permitted;
    let has_gained = !had.contains(new.capabilities.permitted);
    let is_unsafe = request.has_no_new_privileges || request.sharing == Sharing::Shared;
    if (has_changed_ids || has_gained) && is_unsafe {
        if request.has_no_new_privileges || !old.has(Capabilities::SETUID) {
            new.user.effective = new.user.real;
            new.group.effective = new.group.real;
        }
        new.capabilities.permitted &= had;
    }
    let sets = &mut new.capabilities;
    if has_changed_ids || from_file.is_some() {
        sets.ambient = Capabilities::empty();
    }
    sets.permitted |= sets.ambient;
    sets.effective = if is_effective { sets.permitted } else { sets.ambient };
    settle(&mut new.user);
    settle(&mut new.group);
    new.secure_bits &= !SECBIT_KEEP_CAPS;
    let changes_domain = enter(&mut new, request, program)?;
    let is_raised = is_effective || !new.capabilities.ambient.contains(new.capabilities.permitted);
    let is_secure = has_changed_ids || changes_domain || new.user.real != 0 && is_raised;
    Ok(Rights {
        credentials: new,
        secure: if is_secure { Secure::Yes } else { Secure::No },
        is_set_id: given != SetIds::default() || has_gained,
    })
}

/// Gives the new program the subject that the policy says, and takes away the capabilities that its domain may not have. Returns
/// whether the subject is another one.
///
/// As on Linux, the domain is that of the file that was executed, although its interpreter runs if it is a script. Both must be
/// executable in the domain.
///
/// # Errors
/// `EACCES`: the monitor refuses the domain, or one of the files in it.
fn enter(
    new: &mut Credentials,
    request: &ExecRequest<'_>,
    program: &Executable,
) -> Result<bool, Errno> {
    let wanted = new.asked.take().and_then(|asked| asked.exec.clone());
    if !security::is_enforced() {
        return Ok(false);
    }
    let old = &request.credentials.subject;
    new.previous = Some(old.label());
    let may_change = !request.has_no_new_privileges && request.program.may_set_ids();
    let file = request.program.label()?;
    if may_change && let Some(file) = file {
        new.subject = old.entered(file, wanted.as_deref()).map_err(|_| {
            audit::refused_transition(old, file);
            Errno::EACCES
        })?;
    }
    request.program.admit(new)?;
    program.admit(new)?;
    let most = new.subject.capabilities();
    let sets = &mut new.capabilities;
    sets.permitted &= most;
    sets.effective &= most;
    sets.ambient &= most;
    Ok(new.subject != *old)
}

/// Returns whether other processes of the caller's user may inspect the program, according to its credentials.
pub fn dumpable(old: &Credentials, new: &Credentials) -> Dumpable {
    let was_set_id = old.user.effective != old.user.real || old.group.effective != old.group.real;
    if was_set_id || new.departs_from(old) { Dumpable::No } else { Dumpable::Yes }
}

fn settle(ids: &mut Ids) {
    ids.saved = ids.effective;
    ids.fs = ids.effective;
}

/// Sets the capabilities that the program gets from its file, or because its user is root. Returns whether they are effective
/// from the start.
fn take_capabilities(
    new: &mut Credentials,
    old: &Credentials,
    from_file: Option<FileCapabilities>,
) -> Result<bool, Errno> {
    let (had, mut is_effective) = (&old.capabilities, false);
    let mut permitted = Capabilities::empty();
    if let Some(file) = from_file {
        permitted = had.bounding & file.permitted | had.inheritable & file.inheritable;
        is_effective = file.is_effective;
        if is_effective && !permitted.contains(file.permitted) {
            return Err(Errno::EPERM);
        }
    }
    let is_root_special = new.secure_bits & SECBIT_NOROOT == 0;
    let (is_real, is_root) = (new.user.real == 0, new.user.effective == 0);
    // A set-user-id root program gets only its file's capabilities, if the file has any.
    let is_mixed = from_file.is_some() && is_root && !is_real;
    if is_root_special && !is_mixed {
        if is_real || is_root {
            permitted = had.bounding | had.inheritable;
        }
        is_effective |= is_root;
    }
    new.capabilities.permitted = permitted;
    Ok(is_effective)
}
