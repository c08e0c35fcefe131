//! [`StackAdministration`]: the tables of a stack, as users see and change them.
//!
//! | file | contents |
//! | --- | --- |
//! | `records` | entries of the tables in the form of the interface |
//! | `links`, `addresses`, `routes`, `neighbours` | changes, with Linux's rules and errors |
//! | `notices` | what has changed between two configurations, for observers |
//! | `observers` | the list of observers |
//! | `sockets` | tables of sockets |
//! | `parameters` | settings |
//! | `counters` | counters of packets and events, and drops by reason |
mod addresses;
mod counters;
pub(super) mod links;
mod neighbours;
mod notices;
pub(crate) mod observers;
mod parameters;
pub(super) mod records;
mod routes;
mod sockets;
#[cfg(test)]
mod tests;

use super::inet::Inet;
use crate::{
    base::address::Family,
    tables::{
        configuration::{Configuration, ConfigurationWatcher},
        routes::TableId,
        rules::RuleError,
    },
};
use alloc::{
    borrow::Cow,
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::sockets::{
    AddressRecord, AdministrationError, AdministrationObserver, LinkRecord, MembershipRecord,
    NeighbourRecord, NetworkAdministration, NetworkChange, NetworkParameter, RouteQuery,
    RouteRecord, RuleRecord, SocketProtocol, SocketRecord, StackDrops, TableRecord,
};

impl From<RuleError> for AdministrationError {
    fn from(error: RuleError) -> AdministrationError {
        match error {
            RuleError::Exists => AdministrationError::Exists,
            RuleError::Missing => AdministrationError::NoEntry,
            RuleError::Invalid => AdministrationError::Invalid,
            RuleError::NoTable => AdministrationError::NoMemory,
            RuleError::Permanent => AdministrationError::NotPermitted,
        }
    }
}

/// The administration of a stack.
pub(crate) struct StackAdministration {
    inet: Weak<Inet>,
}

impl StackAdministration {
    pub(crate) fn new(inet: Weak<Inet>) -> StackAdministration {
        StackAdministration { inet }
    }
    /// Asks the stack, which has nothing to say when it is gone.
    fn ask<T: Default>(&self, question: impl FnOnce(&Inet) -> T) -> T {
        self.inet.upgrade().map_or_else(T::default, |inet| question(&inet))
    }
}

/// The watcher of the configuration that tells the observers.
pub(crate) struct ConfigurationTeller {
    inet: Weak<Inet>,
}

impl ConfigurationTeller {
    pub(crate) fn new(inet: Weak<Inet>) -> ConfigurationTeller {
        ConfigurationTeller { inet }
    }
}

impl ConfigurationWatcher for ConfigurationTeller {
    fn configured(&self, old: &Configuration, new: &Configuration) {
        let Some(inet) = self.inet.upgrade() else { return };
        if inet.observers().is_empty() {
            return;
        }
        for notice in notices::between(&inet, old, new) {
            inet.observers().tell(&notice);
        }
    }
}

impl NetworkAdministration for StackAdministration {
    fn links(&self) -> Vec<LinkRecord> {
        self.ask(|inet| {
            let view = inet.stack().view();
            view.configuration.interfaces().map(|one| records::link(inet, one)).collect()
        })
    }
    fn addresses(&self) -> Vec<AddressRecord> {
        self.ask(|inet| {
            let (view, now_ns) = (inet.stack().view(), inet.now_ns());
            let all = view.configuration.interfaces();
            all.flat_map(|one| records::addresses(one, now_ns)).collect()
        })
    }
    fn routes(&self) -> Vec<RouteRecord> {
        self.ask(|inet| {
            let (view, now_ns) = (inet.stack().view(), inet.now_ns());
            let all = view.configuration.routes.iter();
            let all = all.filter(|(_, route)| route.expires_ns.is_none_or(|end| end > now_ns));
            let mut all: Vec<_> = all.collect();
            all.sort_by_key(|(table, route)| (*table, records::place(route)));
            let all = all.into_iter();
            all.map(|one| records::listed(&view.configuration, one, now_ns)).collect()
        })
    }
    fn tables(&self) -> Vec<TableRecord> {
        self.ask(|inet| {
            let view = inet.stack().view();
            let all = view.configuration.routes.tables();
            let record = |(table, family): (TableId, Family)| TableRecord {
                is_version6: family == Family::V6,
                number: table.0,
            };
            all.map(record).collect()
        })
    }
    fn rules(&self) -> Vec<RuleRecord> {
        self.ask(|inet| {
            let view = inet.stack().view();
            let families = [Family::V4, Family::V6];
            families.into_iter().flat_map(|one| view.configuration.list_rules(one)).collect()
        })
    }
    fn neighbours(&self) -> Vec<NeighbourRecord> {
        self.ask(neighbours::all)
    }
    fn memberships(&self) -> Vec<MembershipRecord> {
        self.ask(|inet| {
            let view = inet.stack().view();
            let all = view.configuration.interfaces();
            all.flat_map(records::memberships).collect()
        })
    }
    fn change(&self, change: &NetworkChange) -> Result<(), AdministrationError> {
        let inet = self.inet.upgrade().ok_or(AdministrationError::NetworkDown)?;
        match change {
            NetworkChange::Link(change) => links::change(&inet, change),
            NetworkChange::RemoveLink(index) => links::remove(&inet, records::index(*index)),
            NetworkChange::Address(record, mode) => addresses::add(&inet, record, *mode),
            NetworkChange::RemoveAddress(selector) => addresses::remove(&inet, selector),
            NetworkChange::Route(record, mode) => routes::add(&inet, record, *mode),
            NetworkChange::RemoveRoute(record) => routes::remove(&inet, record),
            NetworkChange::Rule(record, mode) => {
                let add = |all: &mut Configuration| all.add_rule(record.clone(), *mode);
                Ok(inet.stack().configure(add)?)
            }
            NetworkChange::RemoveRule(wanted) => {
                Ok(inet.stack().configure(|all| all.remove_rule(wanted))?)
            }
            NetworkChange::Neighbour(record, mode) => {
                neighbours::set(&inet, record, *mode).inspect(|()| inet.keep())
            }
            NetworkChange::RemoveNeighbour { interface, address } => {
                neighbours::remove(&inet, *interface, *address).inspect(|()| inet.keep())
            }
            NetworkChange::LinkGroup { interface, address } => {
                links::add_group(&inet, *interface, *address)
            }
            NetworkChange::RemoveLinkGroup { interface, address } => {
                links::remove_group(&inet, *interface, *address)
            }
        }
    }
    fn route_to(&self, query: &RouteQuery) -> Result<RouteRecord, AdministrationError> {
        let inet = self.inet.upgrade().ok_or(AdministrationError::NetworkDown)?;
        routes::find(&inet, query)
    }
    fn sockets(&self, protocol: SocketProtocol) -> Vec<SocketRecord> {
        self.ask(|inet| sockets::all(inet, protocol))
    }
    fn counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        self.ask(|inet| {
            let all = counters::all(inet).into_iter();
            all.map(|(name, count)| (name.into(), count)).collect()
        })
    }
    fn drops(&self) -> Vec<StackDrops> {
        self.ask(counters::drops)
    }
    fn parameter(&self, parameter: NetworkParameter) -> Option<Vec<i64>> {
        self.ask(|inet| parameters::get(inet, parameter))
    }
    fn set_parameter(
        &self,
        parameter: NetworkParameter,
        values: &[i64],
    ) -> Result<(), AdministrationError> {
        let inet = self.inet.upgrade().ok_or(AdministrationError::NetworkDown)?;
        parameters::set(&inet, parameter, values).inspect(|()| inet.keep())
    }
    fn observe(&self, observer: Arc<dyn AdministrationObserver>) {
        if let Some(inet) = self.inet.upgrade() {
            inet.observers().add(observer);
        }
    }
}
