//! [`RecordText`]: the texts of records.
use crate::{
    ARCHITECTURE, AuditRule, CallEnd, CallFacts, InodeFacts, NameFacts, NameRole, TaskFacts,
};
use alloc::string::String;
use core::fmt::{self, Write};

/// Bytes of a command line that a record has (`MAX_PROCTITLE_AUDIT_LEN`).
const TITLE_MAX: usize = 128;

/// The stamp of an event: its time, and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampedTime {
    /// Milliseconds since 1970-01-01 UTC.
    pub wall_ms: u64,
    /// Number of the event.
    pub serial: u32,
}

impl fmt::Display for StampedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StampedTime { wall_ms, serial } = self;
        write!(f, "audit({}.{:03}:{serial}): ", wall_ms / 1000, wall_ms % 1000)
    }
}

/// Returns whether bytes can be put in quotes: no byte could be confused with the record's own text.
pub fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'!' | b'#'..=b'~'))
}

/// The text of a record that is being written.
#[derive(Clone, Debug, Default)]
pub struct RecordText(String);

impl RecordText {
    /// Begins a record.
    pub fn new(stamp: StampedTime) -> RecordText {
        let mut text = RecordText(String::with_capacity(256));
        text.put(format_args!("{stamp}"));
        text
    }
    /// Adds text of the kernel's.
    pub fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(text);
    }
    /// Adds text that a program chose: in quotes, or in hexadecimal digits.
    pub fn put_untrusted(&mut self, bytes: &[u8]) {
        match core::str::from_utf8(bytes) {
            Ok(plain) if is_plain(bytes) => self.put(format_args!("\"{plain}\"")),
            _ => self.put_hexadecimal(bytes),
        }
    }
    fn put_hexadecimal(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.put(format_args!("{byte:02X}")));
    }
    /// Ends the record, and returns its text.
    pub fn finish(self) -> String {
        self.0
    }
    /// Adds the key of a rule.
    pub fn put_key(&mut self, key: Option<&[u8]>) {
        self.put(format_args!(" key="));
        match key {
            Some(key) => self.put_untrusted(key),
            None => self.put(format_args!("(null)")),
        }
    }
    /// Adds the label of a task, if it has one.
    pub fn put_subject(&mut self, task: &TaskFacts) {
        if let Some(context) = &task.context {
            self.put(format_args!(" subj={context}"));
        }
    }
    /// Adds a task: `terminal` is the name of its terminal, and `command` its name.
    fn put_task(&mut self, task: &TaskFacts, terminal: &str, command: &[u8]) {
        let [uid, euid, suid, fsuid] = task.users;
        let [gid, egid, sgid, fsgid] = task.groups;
        self.put(format_args!(
            " ppid={} pid={} auid={} uid={uid} gid={gid} euid={euid} suid={suid} fsuid={fsuid} \
             egid={egid} sgid={sgid} fsgid={fsgid} tty={terminal} ses={} comm=",
            task.parent, task.process, task.login, task.session
        ));
        self.put_untrusted(command);
        self.put(format_args!(" exe="));
        self.put_untrusted(&task.program);
        self.put_subject(task);
    }
    /// Writes a system call that a rule selected, or that another record is about (`SYSCALL`).
    pub fn put_call(
        &mut self,
        call: &CallFacts<'_>,
        task: &TaskFacts,
        (terminal, command): (&str, &[u8]),
        rule: Option<&AuditRule>,
    ) {
        self.put(format_args!("arch={ARCHITECTURE:x} syscall={}", call.number));
        if task.personality != 0 {
            self.put(format_args!(" per={:x}", task.personality));
        }
        if let CallEnd::Returned(result) = call.end {
            let success = if result < 0 { "no" } else { "yes" };
            self.put(format_args!(" success={success} exit={result}"));
        }
        let [a0, a1, a2, a3] = call.arguments;
        let items = call.names.len();
        self.put(format_args!(" a0={a0:x} a1={a1:x} a2={a2:x} a3={a3:x} items={items}"));
        self.put_task(task, terminal, command);
        self.put_key(rule.and_then(AuditRule::key));
    }
    /// Writes a file that a call named (`PATH`).
    pub fn put_name(&mut self, item: usize, name: &NameFacts) {
        self.put(format_args!("item={item} name="));
        match name.name.is_empty() {
            true => self.put(format_args!("(null)")),
            false => self.put_untrusted(&name.name),
        }
        if let Some(file) = &name.file {
            self.put_file(file);
        }
        let role = if name.file.is_none() && name.role == NameRole::Normal {
            NameRole::Unknown
        } else {
            name.role
        };
        self.put(format_args!(
            " nametype={} cap_fp=0 cap_fi=0 cap_fe=0 cap_fver=0 cap_frootid=0",
            role.text()
        ));
    }
    fn put_file(&mut self, file: &InodeFacts) {
        let InodeFacts { inode, device, mode, user, group, special, context } = file;
        self.put(format_args!(
            " inode={inode} dev={:02x}:{:02x} mode=0{mode:o} ouid={user} ogid={group} \
             rdev={:02x}:{:02x}",
            device.0, device.1, special.0, special.1
        ));
        if let Some(context) = context {
            self.put(format_args!(" obj={context}"));
        }
    }
    /// Writes the working directory (`CWD`).
    pub fn put_directory(&mut self, path: &[u8]) {
        self.put(format_args!("cwd="));
        self.put_untrusted(path);
    }
    /// Writes the command line of a process (`PROCTITLE`): its arguments, with a zero after each.
    pub fn put_title(&mut self, line: &[u8]) {
        let line = line.strip_suffix(&[0]).unwrap_or(line);
        let line = line.get(..TITLE_MAX).unwrap_or(line);
        self.put(format_args!("proctitle="));
        match line.is_empty() {
            true => self.put(format_args!("(null)")),
            false => self.put_untrusted(line),
        }
    }
}
