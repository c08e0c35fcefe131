//! [`Rules`]: the rules that choose the routing table of a packet (ip-rule(8)).
//!
//! A list of a family is in the order of priorities. The list of a new stack is not stored: lookups that find none use the tables in
//! their usual order at once.
use super::{
    interface::{Interface, InterfaceIndex},
    routes::TableId,
};
use crate::base::address::{Family, Prefix};
use alloc::{sync::Arc, vec::Vec};
use core::net::IpAddr;
use interfaces::{
    marshal::Marshal,
    sockets::{EntryMode, RuleRecord, number},
};

/// Priorities of the rules for the tables of local addresses, of users and of defaults.
const OF_LOCAL: u32 = 0;
const OF_MAIN: u32 = 32_766;
const OF_DEFAULTS: u32 = 32_767;
/// The bits of a type of service that routes of IPv4 look at (`IPTOS_RT_MASK`), and those of a class of IPv6.
const SERVICE4: u8 = 0x1c;
const SERVICE6: u8 = 0xfc;

/// Properties of a packet that come from its socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderTraits {
    /// The mark (`SO_MARK`).
    pub mark: u32,
    /// User id of the sender.
    pub user: u32,
    /// Ports of the source and of the destination.
    pub ports: (u16, u16),
}

/// The properties of a packet of this host that choose its route.
#[derive(Clone, Copy, Debug)]
pub struct RouteFlow {
    /// The receiver.
    pub destination: IpAddr,
    /// The sender, if it is chosen already.
    pub source: Option<IpAddr>,
    /// The only interface by which it may leave.
    pub interface: Option<InterfaceIndex>,
    /// The protocol above IP.
    pub protocol: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// Properties of its socket.
    pub sender: SenderTraits,
}

impl RouteFlow {
    /// Returns the flow to `destination` without further properties.
    pub fn new(destination: IpAddr, interface: Option<InterfaceIndex>) -> RouteFlow {
        RouteFlow {
            destination,
            source: None,
            interface,
            protocol: 0,
            traffic_class: 0,
            sender: SenderTraits::default(),
        }
    }
}

/// The reason why a packet has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No table has one, or a rule says that there is none.
    Missing,
    /// A rule forbids it.
    Prohibited,
    /// A rule swallows it.
    Swallowed,
}

/// The error of a change of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It is there.
    Exists,
    /// It is not there.
    Missing,
    /// It makes no sense.
    Invalid,
    /// All tables are in use.
    NoTable,
    /// It cannot be removed.
    Permanent,
}

/// The rules of both families.
#[derive(Clone, Debug, Default, Marshal)]
pub struct Rules {
    pub(crate) version4: Option<Arc<[RuleRecord]>>,
    pub(crate) version6: Option<Arc<[RuleRecord]>>,
    /// A rule of IPv4 was changed once.
    pub(crate) has_changed4: bool,
}

/// Returns the rules of a new stack. IPv6 has no table for defaults.
fn first(family: Family) -> Vec<RuleRecord> {
    let is_version6 = family == Family::V6;
    let one = |priority, table| RuleRecord { is_version6, ..RuleRecord::of_table(priority, table) };
    let mut all = Vec::from([one(OF_LOCAL, number::TABLE_LOCAL), one(OF_MAIN, number::TABLE_MAIN)]);
    if family == Family::V4 {
        all.push(one(OF_DEFAULTS, number::TABLE_DEFAULT));
    }
    all
}

fn priority(rule: &RuleRecord) -> u32 {
    rule.priority.unwrap_or(0)
}

/// Returns the place of the first rule of a priority.
fn place_of(list: &[RuleRecord], target: u32) -> Option<usize> {
    let place = list.partition_point(|rule| priority(rule) < target);
    list.get(place).filter(|rule| priority(rule) == target).map(|_| place)
}

impl Rules {
    /// Returns the rules of a family; `None` for those of a new stack.
    #[inline]
    pub fn changed(&self, family: Family) -> Option<&[RuleRecord]> {
        match family {
            Family::V4 => self.version4.as_deref(),
            Family::V6 => self.version6.as_deref(),
        }
    }
    /// Returns whether a rule of IPv4 was changed since the start: from then on users see the table of its local addresses.
    pub fn has_changed4(&self) -> bool {
        self.has_changed4
    }
    /// Returns the rules of a family. The flags tell which ones miss an interface, or a rule to go on with.
    pub fn list<'i>(
        &self,
        family: Family,
        interfaces: impl Iterator<Item = &'i Interface>,
    ) -> Vec<RuleRecord> {
        let mut all = self.changed(family).map_or_else(|| first(family), <[RuleRecord]>::to_vec);
        let names: Vec<&str> = interfaces.map(|interface| interface.name.as_str()).collect();
        let is_absent = |name: &str| !name.is_empty() && !names.contains(&name);
        let places: Vec<bool> =
            all.iter().map(|rule| place_of(&all, rule.target).is_some()).collect();
        for (rule, has_target) in all.iter_mut().zip(places) {
            let misses_target = rule.action == number::RULE_GO_TO && !has_target;
            for (is_set, flag) in [
                (misses_target, number::RULE_UNRESOLVED),
                (is_absent(&rule.input), number::RULE_NO_INPUT),
                (is_absent(&rule.output), number::RULE_NO_OUTPUT),
            ] {
                rule.flags |= if is_set { flag } else { 0 };
            }
        }
        all
    }
    /// Adds a rule behind those of its priority. Without one it comes before the second rule (`fib_default_rule_pref`). Without a
    /// table it gets that of `free_table`.
    ///
    /// # Errors
    /// [`RuleError::Invalid`] for a rule that goes back or has no table, [`RuleError::Exists`] in mode `Create`,
    /// [`RuleError::NoTable`].
    pub fn add(
        &mut self,
        mut rule: RuleRecord,
        mode: EntryMode,
        free_table: impl FnOnce() -> Option<TableId>,
    ) -> Result<(), RuleError> {
        let family = if rule.is_version6 { Family::V6 } else { Family::V4 };
        let mut all = self.changed(family).map_or_else(|| first(family), <[RuleRecord]>::to_vec);
        let of_second = all.get(1).map_or(0, priority);
        let own = rule.priority.unwrap_or(of_second.saturating_sub(1));
        rule.priority = Some(own);
        if rule.action == number::RULE_GO_TO && rule.target <= own {
            return Err(RuleError::Invalid);
        }
        if mode == EntryMode::Create && all.iter().any(|other| is_same(other, &rule)) {
            return Err(RuleError::Exists);
        }
        if rule.action == number::RULE_LOOK_UP && rule.table == 0 {
            if family == Family::V6 {
                return Err(RuleError::Invalid);
            }
            rule.table = free_table().ok_or(RuleError::NoTable)?.0;
        }
        let place = all.partition_point(|other| priority(other) <= own);
        all.insert(place, rule);
        self.store(family, all);
        Ok(())
    }
    /// Removes the first rule that matches.
    ///
    /// # Errors
    /// [`RuleError::Missing`], [`RuleError::Permanent`].
    pub fn remove(&mut self, wanted: &RuleRecord) -> Result<(), RuleError> {
        let family = if wanted.is_version6 { Family::V6 } else { Family::V4 };
        let mut all = self.changed(family).map_or_else(|| first(family), <[RuleRecord]>::to_vec);
        let place = all.iter().position(|rule| fits(rule, wanted)).ok_or(RuleError::Missing)?;
        if all.get(place).is_some_and(|rule| rule.flags & number::RULE_PERMANENT != 0) {
            return Err(RuleError::Permanent);
        }
        all.remove(place);
        self.store(family, all);
        Ok(())
    }
    fn store(&mut self, family: Family, all: Vec<RuleRecord>) {
        let changed = (all != first(family)).then(|| all.into());
        match family {
            Family::V4 => (self.version4, self.has_changed4) = (changed, true),
            Family::V6 => self.version6 = changed,
        }
    }
}

/// Returns whether a list has a rule that makes a new one needless (`rule_exists`). Networks and service of the new one match any if it
/// has none.
fn is_same(known: &RuleRecord, new: &RuleRecord) -> bool {
    let plain = RuleRecord {
        target: known.target,
        flags: known.flags,
        source: new.source.and(known.source),
        destination: new.destination.and(known.destination),
        type_of_service: if new.type_of_service == 0 { 0 } else { known.type_of_service },
        ..known.clone()
    };
    plain == RuleRecord { target: known.target, flags: known.flags, ..new.clone() }
}

/// Returns whether a rule is one that is to be removed (`rule_find`).
fn fits(rule: &RuleRecord, wanted: &RuleRecord) -> bool {
    fn is_any<T: PartialEq>(known: &T, wanted: &T, none: &T) -> bool {
        wanted == none || known == wanted
    }
    is_any(&rule.action, &wanted.action, &0)
        && is_any(&rule.table, &wanted.table, &0)
        && is_any(&rule.priority, &wanted.priority, &None)
        && (wanted.input.is_empty() || rule.input == wanted.input)
        && (wanted.output.is_empty() || rule.output == wanted.output)
        && is_any(&rule.mark, &wanted.mark, &0)
        && is_any(&rule.mark_mask, &wanted.mark_mask, &0)
        && is_any(&rule.suppress_prefix, &wanted.suppress_prefix, &None)
        && is_any(&rule.suppress_group, &wanted.suppress_group, &None)
        && is_any(&rule.users, &wanted.users, &None)
        && is_any(&rule.ip_protocol, &wanted.ip_protocol, &0)
        && is_any(&rule.protocol, &wanted.protocol, &0)
        && is_any(&rule.source_ports, &wanted.source_ports, &None)
        && is_any(&rule.destination_ports, &wanted.destination_ports, &None)
        && is_any(&rule.source, &wanted.source, &None)
        && is_any(&rule.destination, &wanted.destination, &None)
        && is_any(&rule.type_of_service, &wanted.type_of_service, &0)
}

/// Goes through the rules for a packet of this host. `named` returns the number of the interface of a name, and `look_up` the route
/// that a table has.
///
/// # Errors
/// [`NoRoute`].
pub fn choose<T>(
    list: &[RuleRecord],
    flow: &RouteFlow,
    named: impl Fn(&str) -> Option<InterfaceIndex>,
    mut look_up: impl FnMut(&RuleRecord) -> Option<T>,
) -> Result<T, NoRoute> {
    let mut place = 0;
    // A rule goes on with one behind it, so this ends.
    while let Some(rule) = list.get(place) {
        place += 1;
        let is_inverted = rule.flags & number::RULE_INVERTED != 0;
        if matches(rule, flow, &named) == is_inverted {
            continue;
        }
        match rule.action {
            number::RULE_GO_TO => place = place_of(list, rule.target).unwrap_or(place),
            number::RULE_NOTHING => {}
            number::RULE_LOOK_UP => {
                if let Some(found) = look_up(rule) {
                    return Ok(found);
                }
            }
            number::RULE_UNREACHABLE => return Err(NoRoute::Missing),
            number::RULE_PROHIBIT => return Err(NoRoute::Prohibited),
            _ => return Err(NoRoute::Swallowed),
        }
    }
    Err(NoRoute::Missing)
}

/// Returns whether a rule is about a packet (`fib_rule_match`).
fn matches(
    rule: &RuleRecord,
    flow: &RouteFlow,
    named: impl Fn(&str) -> Option<InterfaceIndex>,
) -> bool {
    let family = Family::of(flow.destination);
    let lies = |network: Option<(IpAddr, u8)>, address: Option<IpAddr>| {
        network.is_none_or(|(first, length)| {
            let prefix = Prefix::new(first, length);
            prefix.is_some_and(|prefix| address.is_some_and(|one| prefix.contains(one)))
        })
    };
    // Of IPv4 a packet without a source has the unspecified one.
    let unspecified = (family == Family::V4).then(|| family.unspecified());
    let lets = |ports: Option<(u16, u16)>, port: u16| {
        ports.is_none_or(|(first, last)| (first..=last).contains(&port))
    };
    let service = flow.traffic_class & if family == Family::V4 { SERVICE4 } else { SERVICE6 };
    let sender = &flow.sender;
    let comes = rule.input.is_empty() || named(&rule.input) == Some(InterfaceIndex::LOOPBACK);
    let leaves = rule.output.is_empty()
        || flow.interface.is_some_and(|index| named(&rule.output) == Some(index));
    comes
        && leaves
        && (rule.mark ^ sender.mark) & rule.mark_mask == 0
        && rule.users.is_none_or(|(first, last)| (first..=last).contains(&sender.user))
        && lies(rule.destination, Some(flow.destination))
        && lies(rule.source, flow.source.or(unspecified))
        && (rule.type_of_service == 0 || rule.type_of_service == service)
        && (rule.ip_protocol == 0 || rule.ip_protocol == flow.protocol)
        && lets(rule.source_ports, sender.ports.0)
        && lets(rule.destination_ports, sender.ports.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::iter;

    fn rule(priority: u32, table: u32) -> RuleRecord {
        RuleRecord { protocol: 3, ..RuleRecord::of_table(priority, table) }
    }

    fn add(rules: &mut Rules, rule: RuleRecord) -> Result<(), RuleError> {
        rules.add(rule, EntryMode::Create, || Some(TableId(1)))
    }

    fn flow() -> RouteFlow {
        RouteFlow::new("10.1.2.3".parse().unwrap(), None)
    }

    /// Returns the tables that are looked up for a packet, and the end.
    fn way(rules: &Rules, flow: &RouteFlow) -> (Vec<u32>, NoRoute) {
        let list = rules.list(Family::V4, iter::empty());
        let mut seen = Vec::new();
        let named = |name: &str| (name == "lo").then_some(InterfaceIndex::LOOPBACK);
        let end = choose(&list, flow, named, |rule| {
            seen.push(rule.table);
            None::<()>
        });
        (seen, end.unwrap_err())
    }

    #[test]
    fn rules_are_looked_at_by_priority() {
        let mut rules = Rules::default();
        assert_eq!(way(&rules, &flow()), (vec![255, 254, 253], NoRoute::Missing));
        assert!(rules.changed(Family::V4).is_none());
        add(&mut rules, rule(100, 7)).unwrap();
        assert_eq!(add(&mut rules, rule(100, 7)), Err(RuleError::Exists));
        add(&mut rules, RuleRecord { priority: None, ..rule(0, 8) }).unwrap();
        assert_eq!(rules.list(Family::V4, iter::empty())[1].priority, Some(99));
        assert_eq!(way(&rules, &flow()).0, [255, 8, 7, 254, 253]);
        assert_eq!(way(&rules, &RouteFlow::new("::1".parse().unwrap(), None)).0.len(), 5);
        rules.remove(&RuleRecord { priority: None, ..rule(0, 8) }).unwrap();
        rules.remove(&rule(100, 0)).unwrap();
        assert_eq!(rules.remove(&rule(100, 0)), Err(RuleError::Missing));
        assert!(rules.changed(Family::V4).is_none() && rules.has_changed4());
    }

    #[test]
    fn each_property_chooses_packets() {
        let whole = RouteFlow {
            source: Some("10.9.0.1".parse().unwrap()),
            interface: Some(InterfaceIndex::LOOPBACK),
            protocol: 17,
            traffic_class: 0x10,
            sender: SenderTraits { mark: 0x15, user: 1000, ports: (500, 53) },
            ..flow()
        };
        let network = |text: &str, length| Some((text.parse().unwrap(), length));
        let base = rule(5, 9);
        let cases = [
            (RuleRecord { source: network("10.9.0.0", 16), ..base.clone() }, true),
            (RuleRecord { source: network("10.8.0.0", 16), ..base.clone() }, false),
            (RuleRecord { destination: network("10.1.2.3", 32), ..base.clone() }, true),
            (RuleRecord { destination: network("10.1.2.2", 32), ..base.clone() }, false),
            (RuleRecord { input: "lo".into(), ..base.clone() }, true),
            (RuleRecord { input: "no".into(), ..base.clone() }, false),
            (RuleRecord { output: "lo".into(), ..base.clone() }, true),
            (RuleRecord { output: "no".into(), ..base.clone() }, false),
            (RuleRecord { mark: 5, mark_mask: 0xf, ..base.clone() }, true),
            (RuleRecord { mark: 5, mark_mask: 0xff, ..base.clone() }, false),
            (RuleRecord { users: Some((0, 999)), ..base.clone() }, false),
            (RuleRecord { users: Some((1000, 1000)), ..base.clone() }, true),
            (RuleRecord { ip_protocol: 6, ..base.clone() }, false),
            (RuleRecord { type_of_service: 0x10, ..base.clone() }, true),
            (RuleRecord { type_of_service: 8, ..base.clone() }, false),
            (RuleRecord { source_ports: Some((1, 500)), ..base.clone() }, true),
            (RuleRecord { destination_ports: Some((54, 60)), ..base.clone() }, false),
            (RuleRecord { flags: number::RULE_INVERTED, ..base.clone() }, false),
        ];
        for (one, is_taken) in cases {
            let mut rules = Rules::default();
            add(&mut rules, one.clone()).unwrap();
            assert_eq!(way(&rules, &whole).0.contains(&9), is_taken, "{one:?}");
        }
    }

    #[test]
    fn actions_end_the_way_or_go_on() {
        let mut rules = Rules::default();
        let go = RuleRecord { action: number::RULE_GO_TO, target: 40, ..rule(10, 0) };
        assert_eq!(
            add(&mut rules, RuleRecord { target: 10, ..go.clone() }),
            Err(RuleError::Invalid)
        );
        add(&mut rules, go).unwrap();
        let flags = |rules: &Rules| rules.list(Family::V4, iter::empty())[1].flags;
        assert_eq!(flags(&rules), number::RULE_UNRESOLVED);
        add(&mut rules, rule(20, 7)).unwrap();
        assert_eq!(way(&rules, &flow()).0, [255, 7, 254, 253]);
        let mut end = RuleRecord { action: number::RULE_PROHIBIT, ..rule(40, 0) };
        add(&mut rules, end.clone()).unwrap();
        assert_eq!(flags(&rules), 0);
        assert_eq!(way(&rules, &flow()), (vec![255], NoRoute::Prohibited));
        rules.remove(&end).unwrap();
        end.action = number::RULE_BLACKHOLE;
        add(&mut rules, end).unwrap();
        assert_eq!(way(&rules, &flow()), (vec![255], NoRoute::Swallowed));
    }
}
