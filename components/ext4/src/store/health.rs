//! The state of health of a volume: whether it may be written, and the reaction to errors on it
//! (`errors=`).
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::*};
use interfaces::file_system::FsError;

/// `s_state`: unmounted cleanly.
pub(crate) const STATE_VALID: u16 = 1;
/// `s_state`: errors were found.
pub(crate) const STATE_ERRORS: u16 = 2;

/// The effect of an error found on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorPolicy {
    /// The volume is marked, and writing continues.
    Continue = 1,
    /// Writing ends (also for `errors=panic`: a component does not end the system).
    RemountReadOnly = 2,
}

/// The operations that are allowed on the volume now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum HealthState {
    ReadOnly,
    Writable,
    /// Errors forbid writing until the volume was repaired.
    Failed,
}

/// The health of a mounted volume.
pub(crate) struct Health {
    state: AtomicU8,
    policy: ErrorPolicy,
    has_errors: AtomicBool,
    /// `s_state` was "valid" when it was mounted.
    was_valid: bool,
}

impl Health {
    /// Makes the health of a volume that is read-only at first.
    pub(crate) fn new(policy: ErrorPolicy, state: u16) -> Health {
        Health {
            state: AtomicU8::new(HealthState::ReadOnly as u8),
            policy,
            has_errors: AtomicBool::new(state & STATE_ERRORS != 0),
            was_valid: state & STATE_VALID != 0,
        }
    }

    fn is(&self, state: HealthState) -> bool {
        self.state.load(Acquire) == state as u8
    }

    /// # Errors
    /// [`FsError::ReadOnly`].
    pub(crate) fn check_writable(&self) -> Result<(), FsError> {
        if self.is(HealthState::Writable) { Ok(()) } else { Err(FsError::ReadOnly) }
    }

    /// Allows writing from now on.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] if errors forbid it.
    pub(crate) fn allow(&self) -> Result<(), FsError> {
        let result = self.state.compare_exchange(
            HealthState::ReadOnly as u8,
            HealthState::Writable as u8,
            AcqRel,
            Acquire,
        );
        match result {
            Err(state) if state == HealthState::Failed as u8 => Err(FsError::ReadOnly),
            _ => Ok(()),
        }
    }

    /// Forbids writing from now on.
    pub(crate) fn forbid(&self) {
        let (from, to) = (HealthState::Writable as u8, HealthState::ReadOnly as u8);
        let _ = self.state.compare_exchange(from, to, AcqRel, Acquire);
    }

    /// Reports that a structure on the medium is malformed, or that an operation ended half done.
    pub(crate) fn report(&self, name: &str, error: FsError) {
        if !self.has_errors.swap(true, AcqRel) {
            log::error!("ext4: {name}: {error:?}: marked as having errors");
        }
        if self.policy == ErrorPolicy::RemountReadOnly {
            self.fail(name);
        }
    }

    /// Returns whether writing continues after errors (`errors=continue`).
    pub(crate) fn goes_on(&self) -> bool {
        self.policy == ErrorPolicy::Continue
    }

    /// Reports that a commit failed: the medium has only the changes that were durable before.
    pub(crate) fn abort(&self, name: &str, error: FsError) {
        log::error!("ext4: {name}: writing metadata failed: {error:?}");
        self.has_errors.store(true, Release);
        self.fail(name);
    }

    fn fail(&self, name: &str) {
        let (from, to) = (HealthState::Writable as u8, HealthState::Failed as u8);
        if self.state.compare_exchange(from, to, AcqRel, Acquire).is_ok() {
            log::error!("ext4: {name}: read-only from now on");
        }
    }

    /// Returns whether errors were found, now or before the mount.
    pub(crate) fn has_errors(&self) -> bool {
        self.has_errors.load(Acquire)
    }

    /// Returns whether errors forbid writing.
    pub(crate) fn has_failed(&self) -> bool {
        self.is(HealthState::Failed)
    }

    /// Returns the state for the superblock when the volume is unmounted in order.
    pub(crate) fn state_left(&self) -> u16 {
        let valid = if self.was_valid { STATE_VALID } else { 0 };
        valid | if self.has_errors() { STATE_ERRORS } else { 0 }
    }
}
