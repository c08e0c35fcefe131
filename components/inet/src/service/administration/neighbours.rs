//! Neighbours.
use super::records;
use crate::{
    service::inet::Inet,
    tables::neighbours::{NeighbourKey, NeighbourState},
};
use alloc::vec::Vec;
use core::net::IpAddr;
use interfaces::sockets::{AdministrationError, EntryMode, NeighbourRecord, NetworkNotice, number};

fn state_of(state: NeighbourState) -> u16 {
    match state {
        NeighbourState::Incomplete => number::NEIGHBOUR_INCOMPLETE,
        NeighbourState::Reachable => number::NEIGHBOUR_REACHABLE,
        NeighbourState::Stale => number::NEIGHBOUR_STALE,
        NeighbourState::Delay => number::NEIGHBOUR_DELAY,
        NeighbourState::Probe => number::NEIGHBOUR_PROBE,
        NeighbourState::Permanent => number::NEIGHBOUR_PERMANENT,
    }
}

/// Returns all neighbours.
pub(super) fn all(inet: &Inet) -> Vec<NeighbourRecord> {
    let now_ns = inet.now_ns();
    inet.stack().neighbours.lock().records(now_ns, state_of)
}

fn record(inet: &Inet, key: NeighbourKey) -> Option<NeighbourRecord> {
    all(inet).into_iter().find(|one| (one.interface, one.address) == (key.0.0, key.1))
}

/// Sets a neighbour.
///
/// # Errors
/// `NoDevice`, `Exists`, `NoEntry`, `NoLinkAddress`, `NoMemory`.
pub(super) fn set(
    inet: &Inet,
    wanted: &NeighbourRecord,
    mode: EntryMode,
) -> Result<(), AdministrationError> {
    let key = (records::index(wanted.interface), wanted.address);
    let view = inet.stack().view();
    view.configuration.interface(key.0).ok_or(AdministrationError::NoDevice)?;
    let old = record(inet, key);
    match (mode, &old) {
        (EntryMode::Create, Some(_)) => return Err(AdministrationError::Exists),
        (EntryMode::Change, None) => return Err(AdministrationError::NoEntry),
        _ => {}
    }
    let mac = wanted.mac.or(old.and_then(|old| old.mac));
    match (state_for(wanted.state), mac) {
        (Some(state), Some(mac)) => {
            let is_set = inet.run(|stack, run| stack.set_neighbour(run, key, (state, mac)));
            if !is_set {
                return Err(AdministrationError::NoMemory);
            }
        }
        (Some(_), None) => return Err(AdministrationError::NoLinkAddress),
        (None, _) => {
            inet.run(|stack, run| stack.remove_neighbour(run, key));
        }
    }
    match (record(inet, key), old) {
        (Some(fresh), _) => inet.observers().tell(&NetworkNotice::Neighbour(fresh)),
        (None, Some(old)) => inet.observers().tell(&NetworkNotice::NeighbourGone(old)),
        (None, None) => {}
    }
    Ok(())
}

/// Returns the state that a user asks for with `NUD_*`; `None` for one in which the neighbour's address is not known.
fn state_for(states: u16) -> Option<NeighbourState> {
    let has = |bits: u16| states & bits != 0;
    Some(match states {
        _ if has(number::NEIGHBOUR_PERMANENT | number::NEIGHBOUR_NOARP) => {
            NeighbourState::Permanent
        }
        _ if has(number::NEIGHBOUR_REACHABLE) => NeighbourState::Reachable,
        _ if has(number::NEIGHBOUR_PROBE) => NeighbourState::Probe,
        _ if has(number::NEIGHBOUR_DELAY) => NeighbourState::Delay,
        _ if has(number::NEIGHBOUR_STALE) || states == 0 => NeighbourState::Stale,
        _ => return None,
    })
}

/// Removes a neighbour.
///
/// # Errors
/// `NoDevice`, `NoEntry`.
pub(super) fn remove(
    inet: &Inet,
    interface: u32,
    address: IpAddr,
) -> Result<(), AdministrationError> {
    let key = (records::index(interface), address);
    let view = inet.stack().view();
    view.configuration.interface(key.0).ok_or(AdministrationError::NoDevice)?;
    let old = record(inet, key).ok_or(AdministrationError::NoEntry)?;
    if !inet.run(|stack, run| stack.remove_neighbour(run, key)) {
        return Err(AdministrationError::NoEntry);
    }
    // Linux makes it fail before it goes.
    let gone = NeighbourRecord { mac: None, state: number::NEIGHBOUR_FAILED, ..old };
    if old.state & number::NEIGHBOUR_VALID != 0 {
        inet.observers().tell(&NetworkNotice::Neighbour(gone));
    }
    inet.observers().tell(&NetworkNotice::NeighbourGone(gone));
    Ok(())
}
