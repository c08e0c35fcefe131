//! Descriptors that a new subject may not have ([`arrival`]): at exec `/dev/null` takes their place, so that a program finds its
//! standard descriptors open, as on Linux (`flush_unauthorized_files`).
use crate::{
    files::{DescriptorTable, OnExec, Scope, arrival},
    task::Task,
};
use alloc::{sync::Arc, vec::Vec};
use core::ops::ControlFlow;
use linux_raw_sys::general as raw;
use vfs::{Base, Credentials, OpenFile, OpenHow};

/// Takes the descriptors away that the subject of a task may not have, after an exec that gave the task the subject.
#[cold]
pub(super) fn flush(task: &Task) {
    let (files, who) = (task.files(), task.credentials());
    let mut null = None;
    for fd in refused(&files, &who) {
        let null = null.get_or_insert_with(|| open_null(task));
        let put = null.as_ref().is_some_and(|null| {
            let on_exec = files.on_exec(fd).unwrap_or(OnExec::Keep);
            files.put(null.clone(), fd, usize::MAX, on_exec, task).is_ok()
        });
        if !put {
            let _ = files.close(fd, task);
        }
    }
}

fn refused(files: &DescriptorTable, who: &Credentials) -> Vec<i32> {
    let mut used = Vec::new();
    let _ = files.visit_descriptors(0, &mut |fd| {
        used.extend(i32::try_from(fd));
        ControlFlow::Continue(())
    });
    let is_refused =
        |fd: &i32| files.get(*fd).is_ok_and(|file| arrival::check(&file, who).is_err());
    used.into_iter().filter(is_refused).collect()
}

/// Opens `/dev/null`, if the task may.
fn open_null(task: &Task) -> Option<Arc<OpenFile>> {
    let scope = Scope::of(task);
    let how = OpenHow::new(raw::O_RDWR);
    scope.caller().open(Base::Cwd, b"/dev/null", how).ok()
}
