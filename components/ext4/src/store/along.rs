//! Data that a commit takes along: its requests begin with those of the journal, so that a caller that waits for both waits once.
//!
//! Pages that are written for an fsync ([`crate::files::write::write_along`]) get their blocks in the running transaction, and their
//! requests are kept. The next commit takes all that are kept ([`Volume::commit`]), or the next flush where nothing else
//! changed. Either holds `ext4.commit` until they have ended, so that a holder of that lock that finds none of its own kept has
//! nothing to wait for. Where the device refuses data of such a sequence, nothing behind it was begun; data is written once more then, each
//! request by itself, so that it is known of each whether it is refused.
use crate::{
    layout::volume::Volume,
    store::{
        device::{Device, Refusal},
        log::Log,
        transfer::Transfer,
    },
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    block::{BlockError, BlockSink, Request},
    file_system::FsError,
};

/// Most pages of a write that is kept.
pub(crate) const PAGES_MAX: usize = 64;
/// Most requests of it.
pub(crate) const REQUESTS_MAX: usize = 16;

/// A write that is kept.
pub(crate) struct Along {
    /// The transaction that maps its blocks.
    pub(crate) transaction: u64,
    pub(crate) requests: Vec<Request>,
    pub(crate) transfer: Arc<Transfer>,
}

impl Along {
    fn end(self, result: Result<(), BlockError>) {
        let Along { requests, transfer, .. } = self;
        let count = requests.len();
        // The frames are given back first: a client told may look at their reference counts.
        drop(requests);
        transfer.end_along(count, result);
    }

    /// Begins its requests as those of other data.
    fn submit(self, device: &Device, log: &Log) {
        log.begin_data(self.transaction, self.requests.len());
        let sink: Arc<dyn BlockSink> = self.transfer;
        device.submit(self.requests, &sink);
    }
}

/// The same requests, to be taken along.
pub(crate) fn requests_of(along: &[Along]) -> Vec<Request> {
    along.iter().flat_map(|along| &along.requests).cloned().collect()
}

/// Ends writes that were taken along: they are durable.
pub(crate) fn end(along: Vec<Along>) {
    along.into_iter().for_each(|along| along.end(Ok(())));
}

impl Volume {
    /// Writes data that was to be taken along by itself, and waits. The caller commits.
    pub(crate) fn write_alone(&self, along: Vec<Along>) {
        let transactions: Vec<u64> = along.iter().map(|along| along.transaction).collect();
        along.into_iter().for_each(|along| along.submit(&self.device, &self.log));
        transactions.iter().for_each(|id| self.log.wait_data(*id));
    }

    /// Fails all writes that are kept: nothing is written any more. The caller commits.
    pub(crate) fn fail_along(&self) {
        let failed = Err(BlockError::Device);
        self.log.take_along().into_iter().for_each(|along| along.end(failed));
    }

    /// A flush, where data was written that none followed, with the data that is kept. The caller commits.
    pub(crate) fn flush_data(&self) -> Result<(), FsError> {
        let along = self.log.take_along();
        if !along.is_empty() {
            let written = self.log.written();
            match self.device.write_and_flush(requests_of(&along)) {
                Ok(()) => {
                    self.log.note_flushed(written);
                    end(along);
                    return Ok(());
                }
                Err(Refusal::Other(error)) => {
                    self.log.note_written();
                    end(along);
                    return Err(error);
                }
                Err(Refusal::Data) => self.write_alone(along),
            }
        }
        if self.log.is_flushed() {
            return Ok(());
        }
        let written = self.log.written();
        self.device.flush()?;
        self.log.note_flushed(written);
        Ok(())
    }
}
