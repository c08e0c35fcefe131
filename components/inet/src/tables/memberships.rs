//! Timers of group membership (RFC 2236, RFC 3376, RFC 2710, RFC 3810). The groups themselves are part of the configuration.
use super::interface::InterfaceIndex;
use crate::base::address::Family;
use alloc::{collections::BTreeMap, vec::Vec};
use core::net::IpAddr;

/// Time for which a router of an old version counts (RFC 3376 section 8.12: twice 125 s, and 10 s), in nanoseconds.
const OLD_ROUTER_NS: u64 = 260 * 1_000_000_000;
/// Time between the reports of a change, at most.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Reports of a change (the robustness variable).
const ROBUSTNESS: u8 = 2;

/// The version of the reports that a router understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportVersion {
    /// IGMPv1.
    First,
    /// IGMPv2, MLDv1.
    Second,
    /// IGMPv3, MLDv2.
    Third,
}

/// The content of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// This host has joined the group.
    Joined,
    /// This host has left it.
    Left,
    /// This host is a member, and was asked.
    Member,
}

#[derive(Clone, Copy, Debug)]
struct PlannedReport {
    kind: ReportKind,
    at_ns: u64,
    left: u8,
}

/// A report that is due.
pub type DueReport = (InterfaceIndex, IpAddr, ReportKind);

/// The timers.
#[derive(Debug, Default)]
pub struct Memberships {
    reports: BTreeMap<(InterfaceIndex, IpAddr), PlannedReport>,
    old_routers: BTreeMap<(InterfaceIndex, Family), (ReportVersion, u64)>,
}

impl Memberships {
    /// Begins to report a change: the first time is now, the next after a delay that `random` draws below its argument.
    pub fn change(
        &mut self,
        interface: InterfaceIndex,
        group: IpAddr,
        kind: ReportKind,
        now_ns: u64,
    ) {
        let report = PlannedReport { kind, at_ns: now_ns, left: ROBUSTNESS };
        self.reports.insert((interface, group), report);
    }
    /// Plans a report that a query asks for, at `at_ns`, unless an earlier one is planned.
    pub fn answer(&mut self, interface: InterfaceIndex, group: IpAddr, at_ns: u64) {
        let fresh = PlannedReport { kind: ReportKind::Member, at_ns, left: 1 };
        let report = self.reports.entry((interface, group)).or_insert(fresh);
        report.at_ns = report.at_ns.min(at_ns);
    }
    /// Hears that another member has reported. A router of an old version needs no second report.
    pub fn suppress(&mut self, interface: InterfaceIndex, group: IpAddr) {
        let key = (interface, group);
        if self.reports.get(&key).is_some_and(|report| report.kind == ReportKind::Member) {
            self.reports.remove(&key);
        }
    }
    /// Hears a query of a version.
    pub fn hear(
        &mut self,
        interface: InterfaceIndex,
        family: Family,
        version: ReportVersion,
        now_ns: u64,
    ) {
        if version < ReportVersion::Third {
            let present = self.version(interface, family, now_ns);
            let until = now_ns.saturating_add(OLD_ROUTER_NS);
            if version <= present {
                self.old_routers.insert((interface, family), (version, until));
            }
        }
    }
    /// Returns the version of reports on an interface.
    pub fn version(&self, interface: InterfaceIndex, family: Family, now_ns: u64) -> ReportVersion {
        let old = self.old_routers.get(&(interface, family));
        old.filter(|(_, until)| now_ns < *until).map_or(ReportVersion::Third, |(one, _)| *one)
    }
    /// Returns the time before which nothing is to do.
    pub fn earliest_ns(&self) -> u64 {
        self.reports.values().map(|report| report.at_ns).min().unwrap_or(u64::MAX)
    }
    /// Returns the reports that are due. `random` draws a number below its argument.
    pub fn poll(&mut self, now_ns: u64, random: impl Fn(u64) -> u64) -> Vec<DueReport> {
        let mut due = Vec::new();
        self.reports.retain(|(interface, group), report| {
            if now_ns < report.at_ns {
                return true;
            }
            due.push((*interface, *group, report.kind));
            report.left = report.left.saturating_sub(1);
            report.at_ns = now_ns.saturating_add(random(INTERVAL_NS)).saturating_add(1);
            report.left > 0
        });
        due
    }
}
