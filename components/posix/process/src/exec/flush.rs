//! Descriptors that a new subject may not have ([`arrival`]): at exec `/dev/null` takes their place, so that a program finds its
//! standard descriptors open, as on Linux (`flush_unauthorized_files`).
use crate::{
    files::{DescriptorTable, OnExec, Scope, arrival},
    task::Task,
};
use alloc::{sync::Arc, vec::Vec};
use core::ops::ControlFlow;
use linux_raw_sys::general as raw;
use vfs::{Base, OpenFile, OpenHow, security::flows};

/// Takes the descriptors away that the subject of a task may not have, after an exec that gave the task the subject. Those of one
/// description still share one.
#[cold]
pub(super) fn flush(task: &Task) {
    // Descriptions that end here end with the old subject, others are the new one's.
    flows::act_for_nobody();
    let (files, who) = (task.files(), task.credentials());
    let mut null = None;
    let mut replaced: Vec<(Arc<OpenFile>, Option<Arc<OpenFile>>)> = Vec::new();
    for fd in used(&files) {
        let Ok(file) = files.get(fd) else { continue };
        let known = replaced.iter().find(|(old, _)| Arc::ptr_eq(old, &file));
        let new = match known {
            Some((_, new)) => new.clone(),
            None => {
                let admitted = arrival::admit(&file, &who).ok();
                let null = || null.get_or_insert_with(|| open_null(task)).clone();
                let new = admitted.or_else(null);
                replaced.push((file.clone(), new.clone()));
                new
            }
        };
        if new.as_ref().is_some_and(|new| Arc::ptr_eq(new, &file)) {
            continue;
        }
        let on_exec = files.on_exec(fd).unwrap_or(OnExec::Keep);
        let put = new.is_some_and(|new| files.put(new, fd, usize::MAX, on_exec, task).is_ok());
        if !put {
            let _ = files.close(fd, task);
        }
    }
    drop(replaced);
    flows::act_as(|| task.process.label());
}

fn used(files: &DescriptorTable) -> Vec<i32> {
    let mut used = Vec::new();
    let _ = files.visit_descriptors(0, &mut |fd| {
        used.extend(i32::try_from(fd));
        ControlFlow::Continue(())
    });
    used
}

/// Opens `/dev/null`, if the task may.
fn open_null(task: &Task) -> Option<Arc<OpenFile>> {
    let scope = Scope::of(task);
    let how = OpenHow::new(raw::O_RDWR);
    scope.caller().open(Base::Cwd, b"/dev/null", how).ok()
}
