//! Operations begun: each is one atomic change, part of the running transaction.
use crate::{layout::groups::Account, store::log::Operation, transactions::mount::Mount};
use interfaces::file_system::FsError;
use rt::memory::Charge;

/// The greatest number of blocks that an operation may allocate for metadata.
pub(crate) const METADATA_BLOCKS: u64 = 64;

/// Memory that must be free before an operation begins: more than one usually needs.
const OPERATION_BYTES: usize = 128 * 1024;

impl Mount {
    /// Runs one atomic change.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] if the volume may not be written, else the change's own error. If it fails because
    /// of a structure on the medium, or half done, the volume is marked as having errors.
    pub(crate) fn operate<T>(
        &self,
        change: impl FnOnce(&Operation<'_>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.operate_with((0, Account::Pool), change)
    }

    /// As [`Mount::operate`], of a change that claims up to `blocks` blocks beside its metadata from
    /// `account`: blocks just freed are made durable first where it needs them.
    ///
    /// # Errors
    /// As [`Mount::operate`].
    pub(crate) fn operate_with<T>(
        &self,
        (blocks, account): (u64, Account),
        change: impl FnOnce(&Operation<'_>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.volume.store.health.check_writable()?;
        // A refusal here comes before any change; an operation that has begun may use the reserve.
        Charge::take(OPERATION_BYTES).map_err(|_| FsError::NoMemory)?;
        self.limit_running()?;
        let needed = blocks.saturating_add(METADATA_BLOCKS);
        if self.volume.groups()?.must_wait_for(needed, account) {
            self.commit(self.volume.store.log.running_id())?;
        }
        self.operate_now(change)
    }

    /// As [`Mount::operate`], for who commits: does not itself end the running transaction.
    ///
    /// # Errors
    /// As [`Mount::operate`].
    pub(crate) fn operate_now<T>(
        &self,
        change: impl FnOnce(&Operation<'_>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let store = &self.volume.store;
        let operation = store.log.begin();
        let result = rt::memory::with_reserve(|| change(&operation));
        if let Err(error) = &result {
            let is_expected = !matches!(error, FsError::Corrupt | FsError::Io | FsError::NoMemory);
            let is_whole = !operation.has_changed();
            if *error == FsError::Corrupt || !(is_expected || is_whole) {
                store.report(*error);
            }
        }
        result
    }

    /// Keeps the running transaction from growing beyond its limit, before an operation joins it: requests a commit at three
    /// quarters of the limit, and at the limit waits until the next transaction has begun.
    ///
    /// # Errors
    /// The error of the commit if there is no thread and the commit fails; [`FsError::ReadOnly`] if the volume has become
    /// read-only.
    fn limit_running(&self) -> Result<(), FsError> {
        let log = &self.volume.store.log;
        let (blocks, limit) = (log.running().blocks.len(), log.limit());
        if blocks < limit / 4 * 3 {
            return Ok(());
        }
        let id = log.running_id();
        if !self.requests.is_there() {
            return if blocks < limit { Ok(()) } else { self.commit(id) };
        }
        self.requests.want(id);
        if blocks < limit { Ok(()) } else { self.wait_for_next(id) }
    }

    /// Waits until transaction `id`, whose commit was requested, has ended.
    fn wait_for_next(&self, id: u64) -> Result<(), FsError> {
        let store = &self.volume.store;
        loop {
            let ticket = store.log.started.ticket();
            if store.log.running_id() > id {
                return Ok(());
            }
            store.health.check_writable()?;
            store.log.started.wait(ticket, None);
        }
    }
}
