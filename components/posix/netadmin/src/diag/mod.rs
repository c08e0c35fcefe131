//! NETLINK_SOCK_DIAG (sock_diag(7)): the tables of sockets, as ss(8) asks for them.
mod filter;
mod inet;
mod info;
mod local;
mod packet;

pub use crate::request::{LocalRecord, PacketFlags, PacketMembership, PacketRecord};
pub use info::tcp_info;

use crate::{
    NetErrno,
    base::{INET, INET6},
    request::{Asker, NetlinkOutcome, NetlinkWorld},
    wire::{NetlinkMessage, Reply, flag},
};

/// `SOCK_DIAG_BY_FAMILY`, `SOCK_DESTROY`.
const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
/// AF_UNIX.
const UNIX: u8 = 1;
/// AF_PACKET.
const PACKET: u8 = 17;
/// `AF_MAX`.
const FAMILIES: u8 = 46;

/// Does a request.
///
/// # Errors
/// `EINVAL`, `ENOENT` for a family or protocol without a table, `EOPNOTSUPP`, `EPERM`.
pub(crate) fn handle(
    message: &NetlinkMessage<'_>,
    asker: &Asker,
    world: &dyn NetlinkWorld,
    reply: Reply,
) -> Result<NetlinkOutcome, NetErrno> {
    let [family, _, ..] = message.body else { return Err(NetErrno::EINVAL) };
    let is_dump = message.flags & flag::DUMP != 0;
    let dumping = Reply { flags: flag::MULTI, ..reply };
    match (message.kind, *family) {
        (BY_FAMILY | DESTROY, FAMILIES..) => Err(NetErrno::EINVAL),
        (BY_FAMILY, UNIX) if is_dump => {
            local::dump(message.body, &world.local_sockets(), dumping).map(NetlinkOutcome::Dump)
        }
        (BY_FAMILY, UNIX) => {
            local::get(message.body, &world.local_sockets(), reply).map(NetlinkOutcome::Done)
        }
        (BY_FAMILY, PACKET) if is_dump => {
            packet::dump(message.body, &world.packet_sockets(), asker, dumping)
                .map(NetlinkOutcome::Dump)
        }
        (BY_FAMILY, PACKET) => {
            packet::check(message.body)?;
            Err(NetErrno::EOPNOTSUPP)
        }
        (BY_FAMILY, INET | INET6) => {
            let network = world.network().ok_or(NetErrno::ENOENT)?;
            if is_dump {
                inet::dump(message.body, network, asker, dumping).map(NetlinkOutcome::Dump)
            } else {
                inet::get(message.body, network, asker, reply).map(NetlinkOutcome::Done)
            }
        }
        (DESTROY, INET | INET6) if !asker.may_administer => Err(NetErrno::EPERM),
        // Other programs' sockets are not ended.
        (DESTROY, INET | INET6 | UNIX | PACKET) => Err(NetErrno::EOPNOTSUPP),
        (BY_FAMILY | DESTROY, _) => Err(NetErrno::ENOENT),
        _ => Err(NetErrno::EINVAL),
    }
}
