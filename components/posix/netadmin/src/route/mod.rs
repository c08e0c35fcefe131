//! NETLINK_ROUTE (rtnetlink(7)): interfaces, addresses, routes, neighbours, rules and settings.
mod address;
mod inquiry;
mod link;
mod neighbour;
mod notice;
mod query;
mod routes;
mod rule;
mod settings;

pub use link::{CHANGEABLE, is_valid_name};
#[cfg(test)]
pub(crate) use notice::notification;
pub use notice::{Notification, notifications};

use crate::{
    NetErrno,
    base::{ExplainedErrno, INET, INET6, UNSPEC},
    request::{Asker, NetlinkOutcome, NetlinkWorld},
    wire::{NetlinkMessage, Reply, flag},
};
use alloc::vec::Vec;
use inquiry::{Inquiry, kind};

/// Does a request.
///
/// # Errors
/// `EPERM`, `EOPNOTSUPP`, and those of the request.
pub(crate) fn handle(
    message: &NetlinkMessage<'_>,
    asker: &Asker,
    world: &dyn NetlinkWorld,
    reply: Reply,
) -> Result<NetlinkOutcome, ExplainedErrno> {
    if message.kind > kind::LAST {
        return Err(NetErrno::EOPNOTSUPP.into());
    }
    let Some(family) = message.body.first().copied() else {
        return Ok(NetlinkOutcome::Done(Vec::new()));
    };
    let is_question = message.kind & kind::OPERATION == kind::GET;
    if !is_question && !asker.may_administer {
        return Err(NetErrno::EPERM.into());
    }
    let network = world.network().ok_or(NetErrno::EOPNOTSUPP)?;
    let inquiry = Inquiry { message, family, asker, network, reply };
    if is_question && message.flags & flag::DUMP != 0 { dump(&inquiry) } else { act(&inquiry) }
}

fn dump(inquiry: &Inquiry<'_>) -> Result<NetlinkOutcome, ExplainedErrno> {
    let is_known = matches!(inquiry.family, UNSPEC | INET | INET6);
    let messages = match inquiry.message.kind {
        kind::GET_LINK => link::dump(inquiry),
        kind::GET_ADDRESS => address::dump(inquiry),
        kind::GET_ROUTE => routes::dump(inquiry),
        kind::GET_NEIGHBOUR => neighbour::dump(inquiry),
        kind::GET_RULE if is_known => rule::dump(inquiry),
        kind::GET_SETTINGS if is_known => Ok(settings::dump(inquiry)),
        kind::GET_NEIGHBOUR_TABLE => Ok(settings::dump_tables(inquiry)),
        // There are no objects for next hops: routes have their own.
        kind::GET_NEXT_HOP | kind::GET_NEXT_HOP_BUCKET if is_known => Ok(Vec::new()),
        _ => return Err(NetErrno::EOPNOTSUPP.into()),
    };
    // An error ends the dump.
    Ok(messages.map_or_else(NetlinkOutcome::Failed, NetlinkOutcome::Dump))
}

fn act(inquiry: &Inquiry<'_>) -> Result<NetlinkOutcome, ExplainedErrno> {
    let is_internet = matches!(inquiry.family, INET | INET6);
    let done = |()| NetlinkOutcome::Done(Vec::new());
    match inquiry.message.kind {
        kind::GET_LINK => link::get(inquiry).map(NetlinkOutcome::Done),
        kind::NEW_LINK => link::new(inquiry).map(done),
        kind::SET_LINK => link::set(inquiry).map(done),
        kind::DELETE_LINK => link::delete(inquiry).map(done),
        kind::GET_ADDRESS if inquiry.family == INET6 => {
            address::get(inquiry).map(NetlinkOutcome::Done)
        }
        kind::NEW_ADDRESS if is_internet => address::new(inquiry).map(done),
        kind::DELETE_ADDRESS if is_internet => address::delete(inquiry).map(done),
        kind::GET_ROUTE if is_internet => query::get(inquiry).map(NetlinkOutcome::Done),
        kind::NEW_ROUTE if is_internet => routes::new(inquiry).map(done),
        kind::DELETE_ROUTE if is_internet => routes::delete(inquiry).map(done),
        kind::GET_NEIGHBOUR => neighbour::get(inquiry).map(NetlinkOutcome::Done),
        kind::NEW_NEIGHBOUR => neighbour::new(inquiry).map(done),
        kind::DELETE_NEIGHBOUR => neighbour::delete(inquiry).map(done),
        kind::GET_SETTINGS if is_internet => settings::get(inquiry).map(NetlinkOutcome::Done),
        kind::GET_NEXT_HOP => Err(NetErrno::ENOENT.into()),
        kind::NEW_RULE => rule::new(inquiry).map(done),
        kind::DELETE_RULE => rule::delete(inquiry).map(done),
        _ => Err(NetErrno::EOPNOTSUPP.into()),
    }
}
