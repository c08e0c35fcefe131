//! [`SeenNetwork`]: the administration of the network as a subject sees it, without the sockets that its label does not dominate, and without
//! counts of packets unless it sees all levels.
use super::administration;
use alloc::{borrow::Cow, sync::Arc, vec::Vec};
use interfaces::{
    monitor::Privileges,
    sockets::{
        AddressRecord, AdministrationError, AdministrationObserver, LinkCounts, LinkRecord,
        MembershipRecord, NeighbourRecord, NetworkAdministration, NetworkChange, NetworkParameter,
        RouteQuery, RouteRecord, RuleRecord, SocketProtocol, SocketRecord, StackDrops, TableRecord,
    },
};
use vfs::security::{self, SecuritySubject};

/// The administration, for a subject.
struct SeenNetwork {
    all: Arc<dyn NetworkAdministration>,
    subject: Arc<SecuritySubject>,
}

/// Returns the administration of the network stack as a subject sees it; `None` if there is no stack.
pub fn administration_for(
    subject: &Arc<SecuritySubject>,
) -> Option<Arc<dyn NetworkAdministration>> {
    let all = administration()?;
    match security::is_enforced() {
        true => Some(Arc::new(SeenNetwork { all, subject: subject.clone() })),
        false => Some(all),
    }
}

impl NetworkAdministration for SeenNetwork {
    fn links(&self) -> Vec<LinkRecord> {
        let mut links = self.all.links();
        if !security::has(&self.subject, Privileges::SEE_ALL) {
            // The packets of all levels are counted together (K1).
            links.iter_mut().for_each(|link| link.counts = LinkCounts::default());
        }
        links
    }
    fn addresses(&self) -> Vec<AddressRecord> {
        self.all.addresses()
    }
    fn routes(&self) -> Vec<RouteRecord> {
        self.all.routes()
    }
    fn tables(&self) -> Vec<TableRecord> {
        self.all.tables()
    }
    fn rules(&self) -> Vec<RuleRecord> {
        self.all.rules()
    }
    fn neighbours(&self) -> Vec<NeighbourRecord> {
        self.all.neighbours()
    }
    fn memberships(&self) -> Vec<MembershipRecord> {
        self.all.memberships()
    }
    fn change(&self, change: &NetworkChange) -> Result<(), AdministrationError> {
        self.all.change(change)
    }
    fn route_to(&self, query: &RouteQuery) -> Result<RouteRecord, AdministrationError> {
        self.all.route_to(query)
    }
    fn sockets(&self, protocol: SocketProtocol) -> Vec<SocketRecord> {
        let mut sockets = self.all.sockets(protocol);
        sockets.retain(|socket| security::sees_socket(&self.subject, socket.label));
        sockets
    }
    fn counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        self.all.counters()
    }
    fn drops(&self) -> Vec<StackDrops> {
        self.all.drops()
    }
    fn parameter(&self, parameter: NetworkParameter) -> Option<Vec<i64>> {
        self.all.parameter(parameter)
    }
    fn set_parameter(
        &self,
        parameter: NetworkParameter,
        values: &[i64],
    ) -> Result<(), AdministrationError> {
        self.all.set_parameter(parameter, values)
    }
    fn observe(&self, observer: Arc<dyn AdministrationObserver>) {
        self.all.observe(observer);
    }
}
