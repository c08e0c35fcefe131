//! Counts of the frames of all pools. The only test of its process, because the counts are of the whole world.
#![cfg(not(target_os = "none"))]
use rt::memory::{self, FramePool, PoolUsage};

#[test]
fn the_frames_of_all_pools_are_counted() {
    let [first, second] = [5, 3].map(|pages| FramePool::new(pages).unwrap());
    let taken = [first.take(), first.take(), second.take()];
    assert_eq!(memory::pool_usage(), PoolUsage { frames: 8, used: 3 });
    drop((taken, second));
    assert_eq!(memory::pool_usage(), PoolUsage { frames: 5, used: 0 });
    drop(first);
    assert_eq!(memory::pool_usage(), PoolUsage::default());
}
