//! A mounted file system gives memory back: clean pages of its files, and names nobody holds.
use super::{Instance, SHARDS};
use crate::pages::stores::{Goal, Store};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The part of the vnode table at which the next search for pages begins.
static HAND: AtomicUsize = AtomicUsize::new(0);

impl Store for Instance {
    fn shrink(&self, goal: &mut Goal) {
        goal.note_names(self.names().shrink());
        for _ in 0..SHARDS {
            if goal.left() == 0 {
                return;
            }
            self.shrink_part(HAND.fetch_add(1, Ordering::Relaxed), goal);
        }
        if let Ok(fs) = self.file_system() {
            goal.note_pages(fs.shrink(goal.left()));
        }
    }
    fn wake_flusher(&self) {
        self.throttle().wake().signal();
    }
    fn hurry_flusher(&self) {
        self.throttle().hurry();
    }
}

impl Instance {
    fn shrink_part(&self, part: usize, goal: &mut Goal) {
        for vnode in self.batches_of(part).flatten() {
            if goal.left() == 0 {
                break;
            }
            goal.note_pages(vnode.pages().map_or(0, |cache| cache.shrink(goal.left())));
        }
    }
}
