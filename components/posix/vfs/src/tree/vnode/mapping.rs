//! A vnode as something to be mapped: the pages of a regular file.
use super::Vnode;
use crate::base::{
    errno::Errno,
    file::{Mappable, PageUse, Watcher},
    principal::Principal,
    security::flows,
};
use alloc::sync::Weak;
use rt::memory::Frame;

impl Mappable for Vnode {
    fn page(&self, index: u64, wanted: PageUse, caller: &dyn Principal) -> Result<Frame, Errno> {
        let pages = self.pages.as_ref().ok_or(Errno::ENXIO)?;
        let frame = pages.page(index, wanted, caller)?;
        flows::reads(|| self.known_label());
        if wanted == PageUse::Store {
            flows::writes(|| self.known_label());
            self.touch_modified();
            pages.balance();
        }
        Ok(frame)
    }
    fn resident(&self, first: u64, count: usize, visit: &mut dyn FnMut(u64, &Frame)) {
        flows::reads(|| self.known_label());
        if let Some(pages) = &self.pages {
            pages.resident(first, count, visit);
        }
    }
    fn watch(&self, watcher: Weak<dyn Watcher>) {
        if let Some(pages) = &self.pages {
            pages.watch(watcher);
        }
    }
    fn forget_ended_watchers(&self) {
        if let Some(pages) = &self.pages {
            pages.forget_ended_watchers();
        }
    }
    fn refuses_stores(&self) -> bool {
        self.refuses_stores()
    }
    fn discard(&self, first: u64, count: u64) -> bool {
        // This is done without the `contents` lock: the caller holds its address space's lock, which comes below it.
        let Some(pages) = &self.pages else { return false };
        let byte = |page: u64| page.saturating_mul(rt::PAGE_BYTES as u64).min(pages.size());
        pages.punch(byte(first)..byte(first.saturating_add(count))).is_ok()
    }
    fn identity(&self) -> u64 {
        self.pages.as_ref().map_or(0, |pages| pages.identity())
    }
}
