//! Does one request and waits for it, for callers that cannot go on without the answer.
use alloc::{sync::Arc, vec::Vec};
use interfaces::block::{Block, BlockError, BlockSink, Operation, Request, Segment};
use rt::{
    lock_class,
    sync::{Event, Mutex},
};

lock_class! {
    static ANSWER = "disk.answer";
}

struct DiskWaiter {
    answer: Mutex<Option<Result<(), BlockError>>>,
    news: Event,
}

impl BlockSink for DiskWaiter {
    fn completed(&self, _: u64, result: Result<(), BlockError>) {
        *self.answer.lock() = Some(result);
        self.news.signal();
    }
}

/// Does one request and waits for its end.
///
/// # Errors
/// Errors of the device.
pub fn run(
    disk: &Arc<dyn Block>,
    operation: Operation,
    sector: u64,
    segments: Vec<Segment>,
) -> Result<(), BlockError> {
    let waiter = Arc::new(DiskWaiter { answer: Mutex::new(&ANSWER, None), news: Event::new() });
    let sink: Arc<dyn BlockSink> = waiter.clone();
    disk.submit(&mut alloc::vec![Request { tag: 0, operation, sector, segments }], &sink);
    loop {
        let ticket = waiter.news.ticket();
        if let Some(answer) = *waiter.answer.lock() {
            return answer;
        }
        waiter.news.wait(ticket, None);
    }
}
