//! `/proc/PID/attr`: the contexts of a thread, and those that it sets for itself. A system without a monitor has no such directory.
//! Source: Linux `fs/proc/base.c` (`proc_pid_attr_write`), `security/selinux/hooks.c` (`selinux_setprocattr`).
use super::process::Subject;
use crate::listing;
use alloc::{
    format,
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::{
    file_system::{Attributes, FileType, TakeEntry},
    monitor::{Denial, ObjectAccess},
};
use labels::Context;
use memory::AddressSpace;
use process::{Task, exec};
use vfs::{
    Credentials, Errno, Principal,
    file::{File, Places},
    generated::{self, Child, GENERATED_END, Node, Viewer, attributes},
    security::{self, Label, OwnContext},
};

/// The meaning of a file.
#[derive(Clone, Copy)]
enum Shown {
    Previous,
    Own(OwnContext),
}

/// The files in Linux's order.
const FILES: [(&str, Shown); 6] = [
    ("current", Shown::Own(OwnContext::Current)),
    ("prev", Shown::Previous),
    ("exec", Shown::Own(OwnContext::Exec)),
    ("fscreate", Shown::Own(OwnContext::File)),
    ("keycreate", Shown::Own(OwnContext::Key)),
    ("sockcreate", Shown::Own(OwnContext::Socket)),
];

/// The directory.
pub struct ContextDirectory {
    subject: Subject,
    inode: u64,
}

impl ContextDirectory {
    /// Makes that of `subject`.
    pub fn new(subject: Subject, inode: u64) -> ContextDirectory {
        ContextDirectory { subject, inode }
    }
    fn inode_of(&self, index: usize) -> u64 {
        const SHIFT: u32 = 40;
        self.inode ^ (index as u64 + 1) << SHIFT
    }
}

/// Returns the label of a thread as an object.
fn label_of(subject: &Subject) -> Option<&'static Label> {
    subject.known_task().map(|task| task.credentials().subject.label())
}

impl Node for ContextDirectory {
    fn attributes(&self) -> Attributes {
        attributes(self.inode, FileType::Directory, 0o555, self.subject.owner())
    }
    fn permissions(&self) -> u16 {
        0o555
    }
    fn label(&self) -> Option<&'static Label> {
        label_of(&self.subject)
    }
    fn lookup(&self, wanted: &[u8], viewer: &Viewer<'_>) -> Result<Child, Errno> {
        let mut files = FILES.iter().enumerate();
        let found = files.find(|(_, (name, _))| name.as_bytes() == wanted);
        let (index, &(_, shown)) = found.ok_or(Errno::ENOENT)?;
        self.subject.check_known(viewer.task, Errno::ENOENT)?;
        let (subject, inode) = (self.subject.clone(), self.inode_of(index));
        Ok(Arc::new(ContextFile { subject, inode, shown, opener: None }))
    }
    fn entries(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        self.subject.check_known(caller, Errno::ENOENT)?;
        let named = FILES
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (self.inode_of(index), FileType::Regular, name.as_bytes()));
        let _ = listing::list(named, position, take);
        Ok(())
    }
}

#[derive(Clone)]
struct ContextFile {
    subject: Subject,
    inode: u64,
    shown: Shown,
    /// The memory of the program that has opened the file: no other program may write to it, so that one cannot have another
    /// write to a descriptor that it inherits.
    opener: Option<Weak<AddressSpace>>,
}

impl Node for ContextFile {
    fn attributes(&self) -> Attributes {
        let permissions = if matches!(self.shown, Shown::Previous) { 0o444 } else { 0o666 };
        attributes(self.inode, FileType::Regular, permissions, self.subject.owner())
    }
    fn label(&self) -> Option<&'static Label> {
        label_of(&self.subject)
    }
    fn places(&self) -> Places {
        Places::UpTo(GENERATED_END)
    }
    fn open(&self, _: u32, opener: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        let memory = Task::of(opener).and_then(|task| task.process.try_memory());
        let opener = memory.map(|memory| Arc::downgrade(&memory));
        Ok(Some(generated::file_of(Arc::new(ContextFile { opener, ..self.clone() }))))
    }
    /// Returns the text with a NUL at its end; nothing if the context is not set.
    fn generate(&self, reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
        self.subject.check_known(reader, Errno::ESRCH)?;
        let who = self.subject.known_task().ok_or(Errno::ESRCH)?.credentials();
        if let Some(reader) = Task::of(reader) {
            let reader = reader.credentials();
            security::check(&reader.subject, who.subject.label(), ObjectAccess::Read)?;
        }
        Ok(text_of(&who, self.shown))
    }
    fn write_at(&self, offset: u64, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
        let task = Task::of(writer).ok_or(Errno::EACCES)?;
        let programs = self.opener.as_ref().zip(task.process.try_memory());
        if programs.is_none_or(|(opener, own)| opener.as_ptr() != Arc::as_ptr(&own)) {
            return Err(Errno::EPERM);
        }
        self.subject.check_known(writer, Errno::ESRCH)?;
        let thread = self.subject.thread.as_ref().map(|thread| thread.id());
        if task.id() != thread.unwrap_or(self.subject.process.id()) {
            return Err(Errno::EACCES);
        }
        let Shown::Own(of) = self.shown else { return Err(Errno::EINVAL) };
        if offset != 0 {
            return Err(Errno::EINVAL);
        }
        // Threads of one process have one subject.
        if of == OwnContext::Current && task.process.task_count() > 1 {
            return Err(Errno::EACCES);
        }
        let new =
            task.credentials().with_context(of, written(data)).map_err(|denial| match denial {
                Denial::Privilege => Errno::EACCES,
                other => other.into(),
            })?;
        if of == OwnContext::Current {
            return exec::replace::change_subject(task, new);
        }
        task.set_credentials(Arc::new(new));
        Ok(())
    }
}

/// Returns the context in what a program writes, which may end with a newline or a NUL; `None` if it is empty.
fn written(data: &[u8]) -> Option<&[u8]> {
    let data = data.strip_suffix(b"\n").unwrap_or(data);
    data.split(|byte| *byte == 0).next().filter(|text| !text.is_empty())
}

/// Returns the text of a context that is kept as a context, with a NUL at its end.
fn ended(context: Option<&Arc<Context>>) -> Vec<u8> {
    context.map_or_else(Vec::new, |context| format!("{context}\0").into_bytes())
}

fn text_of(who: &Credentials, shown: Shown) -> Vec<u8> {
    let asked = who.asked.as_deref();
    let label = match shown {
        Shown::Previous => who.previous,
        Shown::Own(OwnContext::Current) => Some(who.subject.label()),
        Shown::Own(OwnContext::Exec) => return ended(asked.and_then(|asked| asked.exec.as_ref())),
        Shown::Own(OwnContext::Key) => return ended(asked.and_then(|asked| asked.key.as_ref())),
        Shown::Own(OwnContext::File) => asked.and_then(|asked| asked.file),
        Shown::Own(OwnContext::Socket) => asked.and_then(|asked| asked.socket),
    };
    label.map_or_else(Vec::new, |label| label.text().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_ends_with_its_text() {
        for text in [&b"u:r:t:s0"[..], b"u:r:t:s0\n", b"u:r:t:s0\0", b"u:r:t:s0\0rest"] {
            assert_eq!(written(text), Some(&b"u:r:t:s0"[..]));
        }
        for nothing in [&b""[..], b"\n", b"\0", b"\0rest"] {
            assert_eq!(written(nothing), None);
        }
    }
}
