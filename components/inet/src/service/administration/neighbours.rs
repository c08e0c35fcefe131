//! Neighbours.
use super::records;
use crate::{
    ip::output::neighbour_times,
    service::inet::Inet,
    tables::neighbours::{Lesson, NeighbourKey, NeighbourState},
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
/// `NoDevice`, `Exists`, `NoEntry`, `Invalid`.
pub(super) fn set(
    inet: &Inet,
    wanted: &NeighbourRecord,
    mode: EntryMode,
) -> Result<(), AdministrationError> {
    let key = (records::index(wanted.interface), wanted.address);
    let view = inet.stack().view();
    let interface = view.configuration.interface(key.0).ok_or(AdministrationError::NoDevice)?;
    let old = record(inet, key);
    match (mode, &old) {
        (EntryMode::Create, Some(_)) => return Err(AdministrationError::Exists),
        (EntryMode::Change, None) => return Err(AdministrationError::NoEntry),
        _ => {}
    }
    let mac = wanted.mac.or(old.and_then(|old| old.mac));
    let is_permanent = wanted.state & (number::NEIGHBOUR_PERMANENT | number::NEIGHBOUR_NOARP) != 0;
    match mac {
        Some(mac) if is_permanent => inet.run(|stack, run| stack.set_neighbour(run, key, mac)),
        Some(mac) if wanted.state & number::NEIGHBOUR_VALID != 0 || wanted.state == 0 => {
            let times = neighbour_times(interface);
            inet.run(|stack, run| {
                // The user's word replaces the entry that is there, also a permanent one.
                stack.neighbours.lock().remove(key);
                let asked = Lesson::Asked;
                let learned =
                    stack.neighbours.lock().learn(key, Some(mac), asked, times, run.now_ns);
                if wanted.state & number::NEIGHBOUR_REACHABLE != 0 {
                    stack.confirm_neighbour(key, run.now_ns);
                }
                for packet in learned.packets {
                    stack.send_frame(run, interface, mac, packet);
                }
            });
        }
        None if wanted.state & number::NEIGHBOUR_VALID != 0 => {
            return Err(AdministrationError::Invalid);
        }
        _ => {
            inet.stack().remove_neighbour(key);
        }
    }
    if let Some(fresh) = record(inet, key) {
        inet.observers().tell(&NetworkNotice::Neighbour(fresh));
    }
    Ok(())
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
    if !inet.stack().remove_neighbour(key) {
        return Err(AdministrationError::NoEntry);
    }
    inet.observers().tell(&NetworkNotice::NeighbourGone(old));
    Ok(())
}
