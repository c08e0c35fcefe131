//! The settings and features of audit, which auditctl(8) changes ([`AuditSettings`], [`AuditFeatures`]).
use super::backlog::{self, STATE};

/// Whether calls are audited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enabling {
    /// They are not.
    #[default]
    Off,
    /// They are.
    On,
    /// They are, and nothing can be changed until the machine starts again.
    Locked,
}

impl Enabling {
    /// Returns the state that a program names by its number.
    pub fn of_number(number: u32) -> Option<Enabling> {
        [Enabling::Off, Enabling::On, Enabling::Locked].into_iter().find(|it| *it as u32 == number)
    }
}

/// The settings of audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Whether calls are audited.
    pub enabled: Enabling,
    /// The treatment of a record without room. 0 and 1: it is counted as lost. 2: its task waits without a time limit.
    pub failure: u32,
    /// The greatest number of records in a second; 0 for no limit.
    pub rate_limit: u32,
    /// The greatest number of records that wait; 0 for no limit.
    pub backlog_limit: u32,
    /// The longest time for which a task waits for room, in hundredths of a second.
    pub wait_time: u32,
}

impl AuditSettings {
    /// The settings at boot.
    pub(super) const AT_BOOT: AuditSettings = AuditSettings {
        enabled: Enabling::Off,
        failure: 1,
        rate_limit: 0,
        backlog_limit: 64,
        wait_time: 60 * 100,
    };
}

/// The features of audit, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditFeatures {
    /// Those that are on.
    pub on: u32,
    /// Those that cannot be changed any more.
    pub locked: u32,
}

impl AuditFeatures {
    /// Only a login uid that is not set can be set.
    pub const ONLY_UNSET_LOGIN: u32 = 1;
    /// A login uid that is set stays.
    pub const LOGIN_IMMUTABLE: u32 = 2;
    /// All of them.
    pub const ALL: u32 = 3;
}

/// Loses no record from now on while audit is on: tasks wait for room without a time limit (`auditctl -f 2`).
pub fn keep_all() {
    change(|settings| settings.failure = 2);
}

/// Returns the settings.
pub fn settings() -> AuditSettings {
    STATE.lock().settings
}

/// Changes the settings, and wakes the tasks that waited for room under the old ones.
pub fn change(step: impl FnOnce(&mut AuditSettings)) {
    backlog::change_state(|state| step(&mut state.settings));
}

/// Returns the features.
pub fn features() -> AuditFeatures {
    STATE.lock().features
}

/// Sets the features.
pub fn set_features(features: AuditFeatures) {
    STATE.lock().features = features;
}
