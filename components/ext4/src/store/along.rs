//! Data that is written along with a commit: its requests begin with those of the journal, so that a caller that waits for both
//! waits once.
//!
//! Pages that are written for an fsync get their blocks in the running transaction, and their requests are kept. The next commit
//! takes all that are kept, or the next flush where nothing else changed. Either holds `ext4.commit` until they have ended, so
//! that a holder of that lock that finds none of its own kept has nothing to wait for. Where the device refuses data of such a
//! sequence, nothing behind it was begun; data is written once more then, each request by itself, so that it is known of each
//! whether it is refused.
use crate::store::{
    device::{Refusal, VolumeDevice},
    log::{Log, Operation},
    transfer::PageTransfer,
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    block::{BlockError, BlockSink, Request},
    file_system::FsError,
};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static ALONG = "ext4.along";
}

/// The greatest number of pages of a write that is kept.
pub(crate) const PAGES_MAX: usize = 64;
/// The greatest number of kept requests.
pub(crate) const REQUESTS_MAX: usize = 16;

/// A write whose requests are kept.
pub(crate) struct Along {
    /// The transaction that maps its blocks.
    pub(crate) transaction: u64,
    pub(crate) requests: Vec<Request>,
    pub(crate) transfer: Arc<PageTransfer>,
}

impl Along {
    fn end(self, result: Result<(), BlockError>) {
        let Along { requests, transfer, .. } = self;
        let count = requests.len();
        // The frames are released first: a client that is told may look at their reference counts.
        drop(requests);
        transfer.end_along(count, result);
    }

    /// Starts its requests like those of other data.
    fn submit(self, device: &VolumeDevice, log: &Log) {
        log.begin_data(self.transaction, self.requests.len());
        let sink: Arc<dyn BlockSink> = self.transfer;
        device.submit(self.requests, &sink);
    }
}

/// Returns the kept requests, for a commit.
pub(crate) fn requests_of(along: &[Along]) -> Vec<Request> {
    along.iter().flat_map(|along| &along.requests).cloned().collect()
}

/// Ends writes that were kept for a commit: they are durable.
pub(crate) fn end(along: Vec<Along>) {
    along.into_iter().for_each(|along| along.end(Ok(())));
}

/// Writes that wait for the next commit, or the next flush. Its lock (`ext4.along`) is a leaf.
pub(crate) struct KeptWrites {
    writes: Mutex<Vec<Along>>,
}

impl KeptWrites {
    /// Nothing kept.
    pub(crate) fn new() -> KeptWrites {
        KeptWrites { writes: Mutex::new(&ALONG, Vec::new()) }
    }

    /// Keeps data of the running transaction for its commit.
    pub(crate) fn keep(&self, _running: &Operation<'_>, along: Along) {
        self.writes.lock().push(along);
    }

    /// Takes all that is kept. The caller commits.
    pub(crate) fn take(&self) -> Vec<Along> {
        core::mem::take(&mut *self.writes.lock())
    }

    /// Puts kept writes back that were taken.
    pub(crate) fn put_back(&self, taken: Vec<Along>) {
        self.writes.lock().extend(taken);
    }

    /// Fails all that is kept: nothing is written any more. The caller commits.
    pub(crate) fn fail(&self) {
        let failed = Err(BlockError::Device);
        self.take().into_iter().for_each(|along| along.end(failed));
    }

    /// Flushes the device if data was written since the last flush, and writes the kept data before. The caller has begun a
    /// commit.
    ///
    /// # Errors
    /// As [`VolumeDevice::flush`].
    pub(crate) fn flush(&self, device: &VolumeDevice, log: &Log) -> Result<(), FsError> {
        let along = self.take();
        if !along.is_empty() {
            let written = log.written();
            match device.write_and_flush(requests_of(&along)) {
                Ok(()) => {
                    log.note_flushed(written);
                    end(along);
                    return Ok(());
                }
                Err(Refusal::Other(error)) => {
                    log.note_written();
                    end(along);
                    return Err(error);
                }
                Err(Refusal::Data) => write_alone(device, log, along),
            }
        }
        if log.is_flushed() {
            return Ok(());
        }
        let written = log.written();
        device.flush()?;
        log.note_flushed(written);
        Ok(())
    }
}

/// Writes data that was to be taken along by itself, and waits. The caller commits.
pub(crate) fn write_alone(device: &VolumeDevice, log: &Log, along: Vec<Along>) {
    let transactions: Vec<u64> = along.iter().map(|along| along.transaction).collect();
    along.into_iter().for_each(|along| along.submit(device, log));
    transactions.iter().for_each(|id| log.wait_data(*id));
}
