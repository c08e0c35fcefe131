//! Log lines about calls that a guard refused or was to log: in the format of Linux's audit, for the actions in
//! `/proc/sys/kernel/seccomp/actions_logged`, and limited in number, because programs can cause them.
use super::filter::action;
use crate::task::Task;
use alloc::{format, string::String, vec::Vec};
use core::{
    fmt::Write,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};
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

/// Logs `call` if its action is one of those logged.
pub(super) fn tell(task: &Task, call: &AuditedCall) {
    // An unknown action ends the process.
    let at = position(call.action).unwrap_or(0);
    let is_wanted = LOGGED.load(Ordering::Relaxed) >> at & 1 != 0;
    if is_wanted && has_turn() {
        log::info!("{}", line(task, call));
    }
}

/// Returns whether another line may be logged: ten lines are allowed in five seconds.
fn has_turn() -> bool {
    const SPAN_NS: u64 = 5_000_000_000;
    const LINES: u32 = 10;
    static SPAN: AtomicU64 = AtomicU64::new(u64::MAX);
    static SAID: AtomicU32 = AtomicU32::new(0);
    let span = rt::time::now().0 / SPAN_NS;
    if SPAN.swap(span, Ordering::Relaxed) != span {
        SAID.store(0, Ordering::Relaxed);
    }
    SAID.fetch_add(1, Ordering::Relaxed) < LINES
}

fn line(task: &Task, call: &AuditedCall) -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let now_ms = rt::time::wall_ns() / 1_000_000;
    let credentials = task.credentials();
    let program = task.process.try_memory().and_then(|memory| memory.executable());
    let path = program.map(|file| file.path().describe(&task.fs().root()).text);
    let AuditedCall { number, pointer, signal, action } = *call;
    let mut text = format!(
        "audit: type=1326 audit({}.{:03}:{serial}): auid=4294967295 uid={} gid={} ses=4294967295 pid={} comm=",
        now_ms / 1000,
        now_ms % 1000,
        credentials.user.real,
        credentials.group.real,
        task.id(),
    );
    let command = task.command();
    write_untrusted(&mut text, command.split(|byte| *byte == 0).next().unwrap_or_default());
    text.push_str(" exe=");
    write_untrusted(&mut text, path.as_deref().unwrap_or(b"?"));
    let _ = write!(
        text,
        " sig={signal} arch={:x} syscall={} compat=0 ip={pointer:#x} code={action:#x}",
        bpf::ARCHITECTURE,
        number as i32,
    );
    text
}

/// Writes text that a program chose: in quotes, or in hexadecimal digits if it could be confused with the log's own
/// text.
fn write_untrusted(text: &mut String, bytes: &[u8]) {
    match core::str::from_utf8(bytes) {
        Ok(plain) if bytes.iter().all(|byte| matches!(byte, b'!' | b'#'..=b'~')) => {
            let _ = write!(text, "\"{plain}\"");
        }
        _ => {
            for byte in bytes {
                let _ = write!(text, "{byte:02X}");
            }
        }
    }
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

    #[test]
    fn names_of_programs_cannot_pass_for_more() {
        let written = |bytes: &[u8]| {
            let mut text = String::new();
            write_untrusted(&mut text, bytes);
            text
        };
        assert_eq!(written(b"/bin/sh"), "\"/bin/sh\"");
        assert_eq!(written(b"a b"), "612062");
        assert_eq!(written(b"a\"\n"), "61220A");
        assert_eq!(written(b"\xff"), "FF");
    }
}
