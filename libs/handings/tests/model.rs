//! Tests of the counts of handed frames with threads: every interleaving with loom (`RUSTFLAGS="--cfg loom" cargo test -p handings
//! --release`), one run of each without.
use handings::Handings;
#[cfg(loom)]
use loom::{sync::Arc, sync::atomic::AtomicU32, thread};
use std::sync::atomic::Ordering::Relaxed;
#[cfg(not(loom))]
use std::{sync::Arc, sync::atomic::AtomicU32, thread};

fn model(body: impl Fn() + Sync + Send + 'static) {
    #[cfg(loom)]
    loom::model(body);
    #[cfg(not(loom))]
    body();
}

/// Returns the handings that are reported of frame 3.
fn reported(handings: &Handings<1>) -> u32 {
    let mut sum = 0;
    handings.take_dropped(&mut |frame, count| {
        assert_eq!((frame, count > 0), (3, true));
        sum += count;
    });
    sum
}

#[test]
fn a_drop_is_reported_once_whoever_asks_meanwhile() {
    model(|| {
        let handings = Arc::new(Handings::<1>::new());
        handings.hand(3);
        handings.hand(3);
        let drops = [(); 2].map(|()| {
            let theirs = handings.clone();
            thread::spawn(move || {
                theirs.release(3);
                reported(&theirs)
            })
        });
        let early = reported(&handings);
        let reports = drops.map(|drop| drop.join().unwrap());
        let all = early + reports.iter().sum::<u32>() + reported(&handings);
        assert_eq!((all, handings.references(3)), (2, 0));
    });
}

#[test]
fn a_frame_handed_again_is_never_reported_while_it_is_in_use() {
    model(|| {
        let handings = Arc::new(Handings::<1>::new());
        handings.hand(3);
        let theirs = handings.clone();
        let drop = thread::spawn(move || {
            theirs.release(3);
            reported(&theirs)
        });
        // This one is kept until the end.
        handings.hand(3);
        let early = drop.join().unwrap();
        assert!(early <= 1, "the second handing was not dropped");
        assert_eq!(reported(&handings), 0);
        handings.release(3);
        assert_eq!(early + reported(&handings), 2);
    });
}

#[test]
fn what_was_read_before_the_drop_is_read_before_the_report() {
    model(|| {
        let shared = Arc::new((Handings::<1>::new(), AtomicU32::new(0)));
        shared.0.hand(3);
        let theirs = shared.clone();
        let drop = thread::spawn(move || {
            theirs.1.store(1, Relaxed);
            theirs.0.release(3);
        });
        if reported(&shared.0) == 1 {
            assert_eq!(shared.1.load(Relaxed), 1, "the client may use the frame again");
        }
        drop.join().unwrap();
    });
}
