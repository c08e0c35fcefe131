//! Records of the monitor's refusals, of new labels and of new policies.
use super::{
    backlog::{self, AuditRecord},
    facts::{command, ids},
    rules,
};
use crate::{object::Process, task::Task, tree};
use alloc::string::String;
use audit::{DenialFacts, RecordText, kind};
use interfaces::{file_system::FileType, monitor::ObjectAccess};
use vfs::security::{Label, SecuritySubject, Witnessed, WitnessedEvent};

/// Hears of an event of vfs ([`vfs::security::witness`]).
pub fn witnessed(event: &Witnessed<'_>) {
    let Some(task) = tree::running() else { return };
    let (verdict, access) = match event.event {
        WitnessedEvent::Refused(access) => ("denied", name_of(access)),
        WitnessedEvent::RefusedMount => {
            return refuse(&task, ("mount", "filesystem"), event.label, event.subject);
        }
        WitnessedEvent::Relabelled => ("granted", "relabelto"),
    };
    let denial = DenialFacts {
        verdict,
        access,
        command: &command(&task),
        inode: Some(event.inode),
        subject: &text(event.subject.label()),
        object: &text(event.label),
        class: class_of(event.file_type),
    };
    write(&task, &denial);
}

/// Writes the record of an access to another process that the monitor refused.
pub fn refused_process(task: &Task, access: &str, target: &Process, subject: &SecuritySubject) {
    refuse(task, (access, "process"), target.label(), subject);
}

/// Writes the record of an access to an object without an inode, of a class, that the monitor refused to the calling thread's task.
pub fn refused_object(class: &str, access: ObjectAccess, object: &Label, who: &SecuritySubject) {
    let Some(task) = tree::running() else { return };
    refuse(&task, (name_of(access), class), object, who);
}

fn refuse(task: &Task, (access, class): (&str, &str), object: &Label, subject: &SecuritySubject) {
    let denial = DenialFacts {
        verdict: "denied",
        access,
        command: &command(task),
        inode: None,
        subject: &text(subject.label()),
        object: &text(object),
        class,
    };
    write(task, &denial);
}

/// Writes the record of a program whose execution the monitor refused: the subject may not enter the domain.
pub(crate) fn refused_transition(subject: &SecuritySubject, file: &Label) {
    let Some(task) = tree::running() else { return };
    refuse(&task, ("transition", "process"), file, subject);
}

/// Writes the record of a policy that was loaded.
pub fn policy_loaded(task: &Task) {
    super::write(task, kind::MAC_POLICY_LOAD, |text, facts| {
        text.put(format_args!("auid={} ses={} lsm=selinux res=1", facts.login, facts.session));
    });
}

/// Writes a refusal. Locks of vfs may be held, so the path of the program is not asked for.
fn write(task: &Task, denial: &DenialFacts<'_>) {
    if !rules().writes(kind::AVC, &ids(task)) {
        return;
    }
    let mut record = RecordText::new(task.audit.stamp());
    record.put_denial(task.process.id(), denial);
    backlog::push(task, AuditRecord::new(task, kind::AVC, &record.finish()));
}

fn text(label: &Label) -> String {
    let text = label.text();
    String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(text)).into_owned()
}

fn name_of(access: ObjectAccess) -> &'static str {
    match access {
        ObjectAccess::Read => "read",
        ObjectAccess::Write => "write",
        ObjectAccess::Execute => "execute",
    }
}

fn class_of(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Fifo => "fifo_file",
        FileType::Character => "chr_file",
        FileType::Directory => "dir",
        FileType::Block => "blk_file",
        FileType::Symlink => "lnk_file",
        FileType::Socket => "sock_file",
        FileType::Regular => "file",
    }
}
