//! The texts of records that are not about system calls, and the arguments of programs.
use crate::{RecordText, StampedTime, TaskFacts, is_plain, kind};
use alloc::{format, string::String, vec::Vec};

/// Bytes of a program's message that a record has (`AUDIT_MESSAGE_TEXT_MAX`).
const MESSAGE_MAX: usize = 8560;
/// Bytes of arguments that a record has (`MAX_EXECVE_AUDIT_LEN`).
const ARGUMENTS_MAX: usize = 7500;

/// A decision of the monitor that is told.
#[derive(Clone, Copy, Debug)]
pub struct DenialFacts<'a> {
    /// The decision: `denied`, or `granted` for what is told although it is allowed.
    pub verdict: &'a str,
    /// The access, by the name that SELinux has for it.
    pub access: &'a str,
    /// Name of the task.
    pub command: &'a [u8],
    /// Inode number of the object, if it is a file.
    pub inode: Option<u64>,
    /// Context of the subject.
    pub subject: &'a str,
    /// Context of the object.
    pub object: &'a str,
    /// Class of the object.
    pub class: &'a str,
}

impl RecordText {
    /// Adds login uid, session and label of a task.
    pub fn put_session(&mut self, task: &TaskFacts) {
        self.put(format_args!("auid={} ses={}", task.login, task.session));
        self.put_subject(task);
    }
    /// Writes the message of a program, cut at its first zero.
    pub fn put_message(&mut self, number: u16, task: &TaskFacts, bytes: &[u8]) {
        let [user, ..] = task.users;
        self.put(format_args!("pid={} uid={user} ", task.process));
        self.put_session(task);
        if number == kind::USER_TTY {
            let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
            self.put(format_args!(" data="));
            return self.put_untrusted(bytes.get(..MESSAGE_MAX).unwrap_or(bytes));
        }
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = text.get(..MESSAGE_MAX).unwrap_or(text);
        // A new line would look like another record.
        let text: String = String::from_utf8_lossy(text).replace(['\n', '\r'], " ");
        self.put(format_args!(" msg='{text}'"));
    }
    /// Writes a decision of the monitor (`AVC`).
    pub fn put_denial(&mut self, process: u32, denial: &DenialFacts<'_>) {
        let DenialFacts { verdict, access, subject, object, class, .. } = denial;
        self.put(format_args!("avc:  {verdict}  {{ {access} }} for  pid={process} comm="));
        self.put_untrusted(denial.command);
        if let Some(inode) = denial.inode {
            self.put(format_args!(" ino={inode}"));
        }
        self.put(format_args!(" scontext={subject} tcontext={object} tclass={class} permissive=0"));
    }
}

/// Returns the texts of the records of a program's arguments (`EXECVE`): more than one if they are long.
pub fn arguments(stamp: StampedTime, all: &[Vec<u8>]) -> Vec<String> {
    let mut records = Vec::new();
    let mut current = RecordText::new(stamp);
    current.put(format_args!("argc={}", all.len()));
    let mut length = 0;
    for (number, argument) in all.iter().enumerate() {
        for (name, part) in parts(number, argument) {
            let cost = name.len() + encoded(part);
            if length + cost > ARGUMENTS_MAX {
                let full = core::mem::replace(&mut current, RecordText::new(stamp));
                records.push(full.finish());
                length = 0;
            }
            length += cost;
            current.put(format_args!(" {name}="));
            current.put_untrusted(part);
        }
    }
    records.push(current.finish());
    records
}

/// Returns the bytes that an argument takes in a record.
fn encoded(argument: &[u8]) -> usize {
    if is_plain(argument) { argument.len() + 2 } else { argument.len() * 2 }
}

/// Returns the pieces of an argument, each with its name. The name of the first of several has the length of the whole.
fn parts(number: usize, argument: &[u8]) -> Vec<(String, &[u8])> {
    const PIECE: usize = ARGUMENTS_MAX / 4;
    let whole = encoded(argument);
    if whole <= ARGUMENTS_MAX / 2 {
        return [(format!("a{number}"), argument)].into();
    }
    let named = |(piece, part)| {
        let length = match piece {
            0 => format!("a{number}_len={whole} "),
            _ => String::new(),
        };
        (format!("{length}a{number}[{piece}]"), part)
    };
    argument.chunks(PIECE).enumerate().map(named).collect()
}
