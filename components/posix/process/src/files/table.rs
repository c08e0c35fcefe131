//! [`DescriptorTable`]: a descriptor table.
use super::{
    notes,
    slots::{OnExec, Slots},
};
use crate::locks;
use alloc::{sync::Arc, vec::Vec};
use core::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
};
use rt::{
    PAGE_BYTES, lock_class,
    sync::{ReadGuard, RwLock},
};
use vfs::{Errno, NOBODY, OpenFile, Principal, file::Survey, security::flows};

lock_class! {
    static TABLE = "files.table";
}

/// The number of the next table.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A descriptor table locked for lookups.
pub struct LookUp<'a>(ReadGuard<'a, Slots<Arc<OpenFile>>>);

/// A descriptor that a call has reserved: it is not open, and no other call gets its number. It is free again when this is
/// dropped.
pub struct ReservedDescriptor<'a> {
    table: &'a DescriptorTable,
    fd: usize,
    on_exec: OnExec,
}

impl ReservedDescriptor<'_> {
    /// Returns the number.
    pub fn number(&self) -> i32 {
        self.fd as i32
    }
    /// Makes it the descriptor of `file`, which cannot fail. Returns the number.
    pub fn fill(self, file: Arc<OpenFile>) -> u64 {
        self.table.slots.write().fill(self.fd, file, self.on_exec);
        let fd = self.fd as u64;
        core::mem::forget(self);
        fd
    }
}

impl Drop for ReservedDescriptor<'_> {
    fn drop(&mut self) {
        self.table.slots.write().release(self.fd);
    }
}

impl LookUp<'_> {
    /// The description of `fd`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn get(&self, fd: i32) -> Result<&Arc<OpenFile>, Errno> {
        let file = self.0.get(index(fd)?).ok_or(Errno::EBADF)?;
        // The object that a generated file shows may have got another label: each read asks again.
        flows::reads(|| file.known_label().filter(|_| file.vnode().node().is_none()));
        Ok(file)
    }
}

/// A descriptor table.
pub struct DescriptorTable {
    id: u64,
    slots: RwLock<Slots<Arc<OpenFile>>>,
}

impl DescriptorTable {
    /// Makes an empty table.
    pub fn new() -> DescriptorTable {
        DescriptorTable::with(Slots::new())
    }
    fn with(slots: Slots<Arc<OpenFile>>) -> DescriptorTable {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        DescriptorTable { id, slots: RwLock::new(&TABLE, slots) }
    }
    /// Returns its number, which is never used again: the owner of POSIX file locks.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// The same descriptors again, for fork.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn duplicate(&self) -> Result<DescriptorTable, Errno> {
        let slots = self.slots.read().duplicate()?;
        Ok(DescriptorTable::with(slots))
    }
    /// The description of `fd`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn get(&self, fd: i32) -> Result<Arc<OpenFile>, Errno> {
        self.look_up().get(fd).cloned()
    }
    /// Locks the table for looking up several descriptors: it does not change in between.
    pub fn look_up(&self) -> LookUp<'_> {
        LookUp(self.slots.read())
    }
    /// Puts `file` at the lowest free descriptor from `lowest` below `limit`.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn insert_from(
        &self,
        file: Arc<OpenFile>,
        lowest: usize,
        limit: usize,
        on_exec: OnExec,
    ) -> Result<u64, Errno> {
        let fd = self.slots.write().insert(file, lowest, limit, on_exec)?;
        Ok(fd as u64)
    }
    /// Reserves the lowest free descriptor below `limit`, for a call that then makes or consumes something.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    #[inline]
    pub fn reserve(&self, limit: usize, on_exec: OnExec) -> Result<ReservedDescriptor<'_>, Errno> {
        let fd = self.slots.write().reserve(limit)?;
        Ok(ReservedDescriptor { table: self, fd, on_exec })
    }
    /// Returns the two lowest free descriptors below `limit`, which stay free.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn free_pair(&self, limit: usize) -> Result<[i32; 2], Errno> {
        let slots = self.slots.read();
        let first = slots.free_from(0);
        let second = slots.free_from(first + 1);
        if second >= limit {
            return Err(Errno::EMFILE);
        }
        Ok([first as i32, second as i32])
    }
    /// Makes `to` refer to the description of `from`, in one step (`dup2`); the old description of
    /// `to` is closed for `caller`.
    ///
    /// # Errors
    /// `EBADF` if `from` is not open or `to` is not below `limit`, `EBUSY` if `to` is reserved, `ENOMEM`.
    pub fn replace(
        &self,
        (from, to): (i32, i32),
        limit: usize,
        on_exec: OnExec,
        caller: &dyn Principal,
    ) -> Result<(), Errno> {
        let (from, to) = (index(from)?, index(to)?);
        if to >= limit {
            return Err(Errno::EBADF);
        }
        let before = {
            let mut slots = self.slots.write();
            let file = slots.get(from).cloned().ok_or(Errno::EBADF)?;
            slots.replace(to, file, on_exec)?
        };
        self.closed(before, caller);
        Ok(())
    }
    /// Makes `to` refer to `file`; its old description is closed for `caller`.
    ///
    /// # Errors
    /// `EBADF` if `to` is not below `limit`, `EBUSY` if it is reserved, `ENOMEM`.
    pub fn put(
        &self,
        file: Arc<OpenFile>,
        to: i32,
        limit: usize,
        on_exec: OnExec,
        caller: &dyn Principal,
    ) -> Result<u64, Errno> {
        let to = index(to)?;
        if to >= limit {
            return Err(Errno::EBADF);
        }
        let before = self.slots.write().replace(to, file, on_exec)?;
        self.closed(before, caller);
        Ok(to as u64)
    }
    /// Closes `fd` for `caller`.
    ///
    /// # Errors
    /// `EBADF`.
    #[inline]
    pub fn close(&self, fd: i32, caller: &dyn Principal) -> Result<(), Errno> {
        let fd = index(fd)?;
        let file = self.slots.write().take(fd).ok_or(Errno::EBADF)?;
        flows::tells(|| file.known_label().filter(|_| file.leaves_traces()));
        self.release(file, caller);
        Ok(())
    }
    /// Closes every descriptor of `first ..= last` for `caller`.
    pub fn close_range(&self, first: usize, last: usize, caller: &dyn Principal) {
        let mut removed = Vec::new();
        {
            let mut slots = self.slots.write();
            let mut from = first;
            while let Some(fd) = slots.next_used(from).filter(|fd| *fd <= last) {
                removed.extend(slots.take(fd));
                from = fd + 1;
            }
        }
        self.closed(removed, caller);
    }
    /// Releases files that left the table, with no lock held.
    fn closed(&self, files: impl IntoIterator<Item = Arc<OpenFile>>, caller: &dyn Principal) {
        files.into_iter().for_each(|file| self.release(file, caller));
    }
    #[inline]
    fn release(&self, file: Arc<OpenFile>, caller: &dyn Principal) {
        notes::descriptor_closed(self.id, &file);
        file.file().descriptor_closed(caller);
        locks::descriptor_closed(self.id, file, caller);
    }
    /// Closes every descriptor of `first ..= last` at the next exec.
    pub fn close_range_on_exec(&self, first: usize, last: usize) {
        let mut slots = self.slots.write();
        let mut from = first;
        while let Some(fd) = slots.next_used(from).filter(|fd| *fd <= last) {
            slots.set_on_exec(fd, OnExec::Close);
            from = fd + 1;
        }
    }
    /// The fate of `fd` at exec.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn on_exec(&self, fd: i32) -> Result<OnExec, Errno> {
        let fd = index(fd)?;
        let slots = self.slots.read();
        slots.get(fd).map(|_| slots.on_exec(fd)).ok_or(Errno::EBADF)
    }
    /// Says what exec shall do with `fd`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn set_on_exec(&self, fd: i32, on_exec: OnExec) -> Result<(), Errno> {
        let fd = index(fd)?;
        let mut slots = self.slots.write();
        if slots.get(fd).is_none() {
            return Err(Errno::EBADF);
        }
        slots.set_on_exec(fd, on_exec);
        Ok(())
    }
    /// Closes the descriptors that exec closes, for `caller`.
    pub fn close_on_exec(&self, caller: &dyn Principal) {
        let mut removed = Vec::new();
        {
            let mut slots = self.slots.write();
            while let Some(fd) = slots.next_closing(0) {
                match slots.take(fd) {
                    Some(file) => removed.push(file),
                    None => slots.set_on_exec(fd, OnExec::Keep),
                }
            }
        }
        self.closed(removed, caller);
    }
    /// Returns the number of pages of memory that are freed with its descriptors
    /// ([`Survey::share_of`]).
    pub fn held_pages(&self) -> u64 {
        let slots = self.slots.read();
        let used = core::iter::successors(slots.next_used(0), |fd| slots.next_used(fd + 1));
        let files = used.filter_map(|fd| slots.get(fd));
        let mut survey = Survey::default();
        let bytes: usize = files.map(|file| survey.share_of(file)).sum();
        (bytes / PAGE_BYTES) as u64
    }
    /// Returns the number of descriptors for which there has been room so far.
    pub fn size(&self) -> usize {
        self.slots.read().size()
    }
    /// Passes the descriptors in use from `from` on to `visit`, until it breaks (`/proc/PID/fd`).
    pub fn visit_descriptors(
        &self,
        from: usize,
        visit: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let slots = self.slots.read();
        let mut next = slots.next_used(from);
        while let Some(fd) = next {
            if slots.get(fd).is_some() {
                visit(fd)?;
            }
            next = slots.next_used(fd + 1);
        }
        ControlFlow::Continue(())
    }
}

impl Drop for DescriptorTable {
    fn drop(&mut self) {
        self.close_range(0, usize::MAX, NOBODY);
    }
}

impl Default for DescriptorTable {
    fn default() -> Self {
        DescriptorTable::new()
    }
}

fn index(fd: i32) -> Result<usize, Errno> {
    usize::try_from(fd).map_err(|_| Errno::EBADF)
}
