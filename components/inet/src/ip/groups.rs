//! Membership in groups: join and leave, queries and reports of IGMP (RFC 2236, RFC 3376) and MLD (RFC 2710, RFC 3810).
use super::{
    path::{HeaderExtension, SendRequest},
    stack::{Delivery, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        address::{AddressScope, Family},
        buffer::{Buffer, BufferChain},
        packets::Departure,
    },
    tables::{
        configuration::ChangeError,
        interface::{Interface, InterfaceIndex},
        memberships::{ReportKind, ReportVersion},
    },
};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use interfaces::sockets::Ipv4OptionList;
use packet::{
    Full, HeaderWriter, Sum,
    groups::{GroupRecord, RecordKind},
    igmp::{self, IgmpMessage, IgmpVersion},
    mld::{self, MldMessage, MldVersion},
    protocol,
};

const NS_PER_MS: u64 = 1_000_000;
/// Bytes of a report of one group.
const REPORT_MAX: usize = 32;

impl<B: Buffer> Stack<B> {
    /// Joins a group on an interface. The first member on this host makes it known on the link.
    ///
    /// # Errors
    /// [`ChangeError::Missing`] if there is no such interface or the address is no group.
    pub fn join_group(
        &self,
        run: &mut StackRun<'_, B>,
        index: InterfaceIndex,
        group: IpAddr,
    ) -> Result<(), ChangeError> {
        if self.configure(|all| all.join_group(index, group))? {
            self.plan_report(run.now_ns, (index, group), ReportKind::Joined);
        }
        Ok(())
    }
    /// Leaves a group on an interface. The last member on this host makes it known on the link.
    ///
    /// # Errors
    /// [`ChangeError::Missing`] if this host is no member.
    pub fn leave_group(
        &self,
        run: &mut StackRun<'_, B>,
        index: InterfaceIndex,
        group: IpAddr,
    ) -> Result<(), ChangeError> {
        if self.configure(|all| all.leave_group(index, group))? {
            self.plan_report(run.now_ns, (index, group), ReportKind::Left);
        }
        Ok(())
    }
    /// Plans the report of a change, unless the group is one of which none is told.
    fn plan_report(&self, now_ns: u64, (index, group): (InterfaceIndex, IpAddr), kind: ReportKind) {
        if is_reported(group) {
            self.memberships.lock().change(index, group, kind, now_ns);
        }
    }
    pub(crate) fn input_igmp(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let index = delivery.origin.interface;
        let Some(Ok(message)) = delivery.payload.whole().map(IgmpMessage::parse) else {
            return self.dropped(DropReason::Transport);
        };
        match message {
            IgmpMessage::Query { version, group, response_ms, .. } => {
                let version = match version {
                    IgmpVersion::V1 => ReportVersion::First,
                    IgmpVersion::V2 => ReportVersion::Second,
                    IgmpVersion::V3 => ReportVersion::Third,
                };
                self.hear_query(run, index, version, group.into(), response_ms);
            }
            IgmpMessage::Report { group, .. } => {
                self.memberships.lock().suppress(index, group.into());
            }
            IgmpMessage::Leave { .. } | IgmpMessage::Records(_) => {}
        }
    }
    pub(crate) fn input_mld(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let index = delivery.origin.interface;
        let is_near =
            delivery.hop_limit == 1 && AddressScope::of(delivery.source) == AddressScope::Link;
        let message = delivery.payload.whole().map(MldMessage::parse);
        let Some(Ok(Some(message))) = message.filter(|_| is_near) else {
            return self.dropped(DropReason::Discovery);
        };
        match message {
            MldMessage::Query { version, group, response_ms, .. } => {
                let version = match version {
                    MldVersion::V1 => ReportVersion::Second,
                    MldVersion::V2 => ReportVersion::Third,
                };
                self.hear_query(run, index, version, group.into(), response_ms);
            }
            MldMessage::Report { group } => {
                self.memberships.lock().suppress(index, group.into());
            }
            MldMessage::Done { .. } | MldMessage::Records(_) => {}
        }
    }
    /// Plans the reports that a query asks for: about all groups, or one.
    fn hear_query(
        &self,
        run: &mut StackRun<'_, B>,
        index: InterfaceIndex,
        version: ReportVersion,
        group: IpAddr,
        response_ms: u32,
    ) {
        let Some(interface) = run.configuration.interface(index) else { return };
        let family = Family::of(group);
        let is_asked = |one: &&IpAddr| {
            Family::of(**one) == family && (group.is_unspecified() || group == **one)
        };
        let limit = u64::from(response_ms) * NS_PER_MS;
        let mut memberships = self.memberships.lock();
        memberships.hear(index, family, version, run.now_ns);
        for one in interface.groups.keys().filter(is_asked).filter(|one| is_reported(**one)) {
            let at_ns = run.now_ns.saturating_add(self.random.below(limit));
            memberships.answer(index, *one, at_ns);
        }
    }
    /// Does what time demands for groups.
    pub(crate) fn poll_groups(&self, run: &mut StackRun<'_, B>) {
        let due = {
            let mut memberships = self.memberships.lock();
            if run.now_ns < memberships.earliest_ns() {
                return;
            }
            memberships.poll(run.now_ns, |end| self.random.below(end))
        };
        for (index, group, kind) in due {
            let Some(interface) = self.up(run, index) else { continue };
            let version = self.memberships.lock().version(index, Family::of(group), run.now_ns);
            // A report that does not fit is none: its buffer fits all.
            let _ = match group {
                IpAddr::V4(group) => self.report4(run, interface, group, kind, version),
                IpAddr::V6(group) => self.report6(run, interface, group, kind, version),
            };
        }
    }
    fn report4(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        group: Ipv4Addr,
        kind: ReportKind,
        version: ReportVersion,
    ) -> Result<(), Full> {
        let mut bytes = [0; REPORT_MAX];
        let mut writer = HeaderWriter::new(&mut bytes);
        let destination = match (version, kind) {
            (ReportVersion::Third, _) => {
                let mut body = [0; REPORT_MAX];
                let mut records = HeaderWriter::new(&mut body);
                record(kind, group.octets()).write(&mut records)?;
                igmp::write_report(&mut writer, 1, Sum::of(records.written()))?;
                writer.put(records.written())?;
                igmp::REPORTS
            }
            // Version 1 has no message for it.
            (ReportVersion::First, ReportKind::Left) => return Ok(()),
            (ReportVersion::Second, ReportKind::Left) => {
                writer.put(&igmp::leave(group))?;
                igmp::ALL_ROUTERS
            }
            (ReportVersion::First, _) => {
                writer.put(&igmp::report(IgmpVersion::V1, group))?;
                group
            }
            (ReportVersion::Second, _) => {
                writer.put(&igmp::report(IgmpVersion::V2, group))?;
                group
            }
        };
        let request = SendRequest {
            interface: Some(interface.index),
            hop_limit: Some(1),
            traffic_class: 0xc0,
            is_looped: false,
            ..SendRequest::new(destination.into(), protocol::IGMP)
        };
        if let Some(packet) = Departure::new(writer.written(), BufferChain::default()) {
            let _ = self.send_with_options(run, &request, &Ipv4OptionList::ROUTER_ALERT, packet);
        }
        Ok(())
    }
    fn report6(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        group: Ipv6Addr,
        kind: ReportKind,
        version: ReportVersion,
    ) -> Result<(), Full> {
        let mut bytes = [0; REPORT_MAX];
        let mut writer = HeaderWriter::new(&mut bytes);
        let destination = match (version, kind) {
            (ReportVersion::Third, _) => {
                mld::write_report(&mut writer, 1)?;
                record(kind, group.octets()).write(&mut writer)?;
                mld::REPORTS
            }
            (_, ReportKind::Left) => {
                mld::write_done(&mut writer, group)?;
                packet::ipv6::ALL_ROUTERS
            }
            _ => {
                mld::write_report_v1(&mut writer, group)?;
                group
            }
        };
        // While the link-local address is probed, reports come from no address (RFC 3590).
        let source = interface.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED);
        let request = SendRequest {
            source: Some(source.into()),
            interface: Some(interface.index),
            hop_limit: Some(1),
            extension: HeaderExtension {
                bytes: packet::ipv6::ROUTER_ALERT_MLD.len() as u16,
                first: protocol::HOP_BY_HOP,
                repeated: packet::ipv6::ROUTER_ALERT_MLD.len() as u16,
            },
            is_looped: false,
            ..SendRequest::new(destination.into(), protocol::ICMPV6)
        };
        self.send_icmpv6(run, &request, writer.written(), BufferChain::default());
        Ok(())
    }
}

/// Returns the record of a report. A member without a list of sources excludes none.
fn record<const N: usize>(kind: ReportKind, group: [u8; N]) -> GroupRecord<'static, N> {
    let kind = match kind {
        ReportKind::Joined => RecordKind::ToExclude,
        ReportKind::Left => RecordKind::ToInclude,
        ReportKind::Member => RecordKind::IsExclude,
    };
    GroupRecord { kind, group, sources: &[] }
}

/// Returns whether membership in a group is told: not in that of all hosts, nor in groups that stay in the host.
fn is_reported(group: IpAddr) -> bool {
    group != IpAddr::V4(igmp::ALL_HOSTS)
        && group != IpAddr::V6(packet::ipv6::ALL_NODES)
        && AddressScope::of(group) > AddressScope::Host
}
