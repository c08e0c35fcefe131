//! Tests of the uses of shown pages with threads: every interleaving with loom (`RUSTFLAGS="--cfg loom" cargo test -p shown
//! --release`), one run of each without.
//!
//! [`Nucleus`] is the nucleus's count of one page, as `nucleus/src/memory/frames.rs` keeps it and `SpaceOperation::OwnPage` tells
//! it. The contents of the page are a word: whoever gets the page free sees what its last user wrote.
#[cfg(loom)]
use loom::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize},
    },
    thread,
};
use shown::{Dropped, Uses};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
#[cfg(not(loom))]
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize},
    },
    thread,
};

fn model(body: impl Fn() + Sync + Send + 'static) {
    #[cfg(loom)]
    loom::model(body);
    #[cfg(not(loom))]
    body();
}

/// The nucleus's references to a page that nobody else has: the region's, and its mapping's.
const REGION_REFERENCES: u32 = 2;
const PAGE: usize = 0;
/// Contents that the last user leaves.
const WRITTEN: u32 = 1;

#[derive(Debug)]
struct Nucleus(AtomicU32);

impl Nucleus {
    /// Maps the page for a program.
    fn map(&self) {
        self.0.fetch_add(1, Relaxed);
    }
    /// Removes the page from a program.
    fn unmap(&self) {
        self.0.fetch_sub(1, AcqRel);
    }
    /// Tells whether anybody has the page, with a reference of the look's own.
    fn is_elsewhere(&self) -> bool {
        self.0.fetch_add(1, Relaxed);
        let references = self.0.load(Acquire) - 1;
        self.0.fetch_sub(1, AcqRel);
        references > REGION_REFERENCES
    }
}

#[derive(Debug)]
struct Pool {
    uses: Uses<1, 1>,
    waiting: AtomicUsize,
    nucleus: Nucleus,
    contents: AtomicU32,
    /// Times that the page became free.
    freed: AtomicU32,
}

impl Pool {
    /// Makes a pool whose page has one reference.
    fn new() -> Arc<Pool> {
        let pool = Pool {
            uses: Uses::default(),
            waiting: AtomicUsize::new(0),
            nucleus: Nucleus(AtomicU32::new(REGION_REFERENCES)),
            contents: AtomicU32::new(0),
            freed: AtomicU32::new(0),
        };
        pool.uses.begin(PAGE);
        Arc::new(pool)
    }

    /// Shows the page to a program.
    fn show(&self) {
        self.uses.show(PAGE);
        self.nucleus.map();
    }

    fn release(&self) {
        if self.uses.release(PAGE, &self.waiting, || self.nucleus.is_elsewhere()) == Dropped::Free {
            self.free();
        }
    }

    /// Looks for pages that wait; one thread at a time does.
    fn collect(&self) {
        if self.uses.take_waiting(PAGE, &self.waiting, || self.nucleus.is_elsewhere()) {
            assert!(self.waiting.load(Relaxed) <= 1, "a page was not counted yet");
            self.free();
        }
    }

    /// A program writes to the page and lets it go.
    fn write_and_unmap(&self) {
        self.contents.store(WRITTEN, Relaxed);
        self.nucleus.unmap();
    }

    /// The page is free: nobody accesses it but its next user.
    fn free(&self) {
        assert_eq!(self.contents.load(Relaxed), WRITTEN, "somebody has yet to write");
        self.freed.fetch_add(1, Relaxed);
    }
}

fn spawn(pool: &Arc<Pool>, act: impl FnOnce(&Pool) + Send + 'static) -> thread::JoinHandle<()> {
    let own = pool.clone();
    thread::spawn(move || act(&own))
}

#[test]
fn a_shown_page_is_free_once_and_after_its_last_user() {
    model(|| {
        let pool = Pool::new();
        pool.show();
        let program = spawn(&pool, |pool| {
            pool.write_and_unmap();
        });
        let holder = spawn(&pool, Pool::release);
        pool.collect();
        program.join().unwrap();
        holder.join().unwrap();
        pool.collect();
        assert_eq!(pool.freed.load(Relaxed), 1);
        assert_eq!(pool.waiting.load(Relaxed), 0);
        assert!(!pool.uses.is_shown(PAGE), "the next user would ask for it");
    });
}

#[test]
fn of_two_holders_the_last_one_finds_what_the_other_showed() {
    model(|| {
        let pool = Pool::new();
        pool.uses.retain(PAGE);
        let other = spawn(&pool, |pool| {
            pool.show();
            pool.release();
        });
        pool.release();
        other.join().unwrap();
        assert_eq!(pool.freed.load(Relaxed), 0, "a program has it");
        pool.write_and_unmap();
        pool.collect();
        assert_eq!(pool.freed.load(Relaxed), 1);
    });
}

#[test]
fn a_page_of_a_run_is_claimed_by_one_and_after_its_last_user() {
    model(|| {
        let pool = Pool::new();
        // The run has one reference, a user the second; a program has the page, too.
        pool.uses.retain(PAGE);
        pool.show();
        let user = spawn(&pool, Pool::release);
        let program = spawn(&pool, |pool| {
            pool.write_and_unmap();
        });
        let claim = |pool: &Pool| {
            let is_ours = pool.uses.claim(PAGE, || pool.nucleus.is_elsewhere());
            if is_ours {
                pool.free();
            }
            is_ours
        };
        let first = claim(&pool);
        user.join().unwrap();
        program.join().unwrap();
        assert!(first != claim(&pool), "claimed by two, or by none");
        assert_eq!(pool.uses.references(PAGE), 2);
    });
}

#[test]
fn who_claims_a_page_sees_what_its_last_user_wrote() {
    model(|| {
        let pool = Pool::new();
        pool.uses.retain(PAGE);
        let user = spawn(&pool, |pool| {
            pool.contents.store(WRITTEN, Relaxed);
            pool.release();
        });
        if pool.uses.claim(PAGE, || pool.nucleus.is_elsewhere()) {
            pool.free();
        }
        user.join().unwrap();
    });
}

#[test]
fn one_of_two_who_claim_gets_the_page() {
    model(|| {
        let pool = Pool::new();
        pool.contents.store(WRITTEN, Relaxed);
        let claim = |pool: &Pool| {
            if pool.uses.claim(PAGE, || pool.nucleus.is_elsewhere()) {
                pool.free();
            }
        };
        let other = spawn(&pool, move |pool| claim(pool));
        claim(&pool);
        other.join().unwrap();
        assert_eq!((pool.freed.load(Relaxed), pool.uses.references(PAGE)), (1, 2));
    });
}
