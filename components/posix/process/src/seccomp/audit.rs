//! Audit's records of calls that a guard refused or was to log: for the actions in `/proc/sys/kernel/seccomp/actions_logged`.
use super::filter::action;
use crate::{audit, task::Task};
use ::audit::kind;
use alloc::{format, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};
use vfs::{Errno, Principal, credentials::Capabilities};

/// A call that is logged.
pub(super) struct AuditedCall {
    pub number: u32,
    /// Address after its instruction.
    pub pointer: u64,
    /// The signal that the task gets for it; 0 if none.
    pub signal: u8,
    pub action: u32,
}

/// The actions, in Linux's order and with Linux's names.
const ACTIONS: [(&str, u32); 8] = [
    ("kill_process", action::KILL_PROCESS),
    ("kill_thread", action::KILL_THREAD),
    ("trap", action::TRAP),
    ("errno", action::ERRNO),
    ("user_notif", action::USER_NOTIF),
    ("trace", action::TRACE),
    ("log", action::LOG),
    ("allow", action::ALLOW),
];
const ALLOW_BIT: u32 = 1 << (ACTIONS.len() - 1);

/// A bit for each of [`ACTIONS`] that is logged: all except `allow`, which never is.
static LOGGED: AtomicU32 = AtomicU32::new(ALLOW_BIT - 1);

fn position(action: u32) -> Option<usize> {
    ACTIONS.iter().position(|(_, known)| *known == action)
}

/// Returns whether filters may return `action`.
pub fn is_available(action: u32) -> bool {
    position(action).is_some()
}

fn names(is_told: impl Fn(usize) -> bool) -> Vec<u8> {
    let told = ACTIONS.iter().enumerate().filter(|(at, _)| is_told(*at));
    let names: Vec<&str> = told.map(|(_, (name, _))| *name).collect();
    format!("{}\n", names.join(" ")).into_bytes()
}

/// Returns the content of `actions_avail`.
pub fn available() -> Vec<u8> {
    names(|_| true)
}

/// Returns the content of `actions_logged`.
pub fn logged() -> Vec<u8> {
    let logged = LOGGED.load(Ordering::Relaxed);
    names(|at| logged >> at & 1 != 0)
}

/// Sets `actions_logged`.
pub fn set_logged(data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
    if !writer.has(Capabilities::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    LOGGED.store(decode(data)?, Ordering::Relaxed);
    Ok(())
}

fn decode(data: &[u8]) -> Result<u32, Errno> {
    let line = data.split(|byte| matches!(byte, b'\n' | 0)).next().unwrap_or_default();
    let names = line.split(|byte| *byte == b' ').take_while(|name| !name.is_empty());
    let mut bits = 0;
    for name in names {
        let at = ACTIONS.iter().position(|(known, _)| known.as_bytes() == name);
        bits |= 1 << at.ok_or(Errno::EINVAL)?;
    }
    if bits & ALLOW_BIT != 0 { Err(Errno::EINVAL) } else { Ok(bits) }
}

/// Writes the record of `call` if its action is one of those logged.
pub(super) fn tell(task: &Task, call: &AuditedCall) {
    // An unknown action ends the process.
    let at = position(call.action).unwrap_or(0);
    if LOGGED.load(Ordering::Relaxed) >> at & 1 == 0 {
        return;
    }
    let AuditedCall { number, pointer, signal, action } = *call;
    audit::write(task, kind::SECCOMP, |text, facts| {
        let ([user, ..], [group, ..]) = (facts.users, facts.groups);
        text.put(format_args!("auid={} uid={user} gid={group} ses={}", facts.login, facts.session));
        text.put_subject(facts);
        text.put(format_args!(" pid={} comm=", facts.process));
        text.put_untrusted(&audit::command(task));
        text.put(format_args!(" exe="));
        text.put_untrusted(&facts.program);
        text.put(format_args!(
            " sig={signal} arch={:x} syscall={} compat=0 ip={pointer:#x} code={action:#x}",
            bpf::ARCHITECTURE,
            number as i32,
        ));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_names_in_a_row() {
        let all = "kill_process kill_thread trap errno user_notif trace log";
        assert_eq!(available(), format!("{all} allow\n").into_bytes());
        assert_eq!(logged(), format!("{all}\n").into_bytes());
        assert_eq!(decode(b"trap log\n"), Ok(0b100_0100));
        assert_eq!(decode(b"log  trap"), Ok(0b100_0000), "ends at nothing");
        assert_eq!(decode(b"\n"), Ok(0));
        for wrong in [&b"allow"[..], b"trap allow", b"Trap", b"trap,log"] {
            assert_eq!(decode(wrong), Err(Errno::EINVAL));
        }
    }
}
