//! NETLINK_GENERIC: its controller, which names the families. There is no other family than itself.
use crate::{
    NetErrno,
    request::NetlinkOutcome,
    wire::{Attributes, Fields, NetlinkMessage, Reply, flag},
};
use alloc::{vec, vec::Vec};

/// `GENL_ID_CTRL`, the type of messages to the controller, and its name.
const CONTROLLER: u16 = 16;
const NAME: &str = "nlctrl";
/// Bytes of `struct genlmsghdr`.
const HEAD: usize = 4;
/// `CTRL_CMD_NEWFAMILY`, `CTRL_CMD_GETFAMILY`, `CTRL_CMD_GETPOLICY`.
const NEW_FAMILY: u8 = 1;
const GET_FAMILY: u8 = 3;
const GET_POLICY: u8 = 10;
/// `CTRL_ATTR_*`.
mod attribute {
    pub(super) const FAMILY_ID: u16 = 1;
    pub(super) const FAMILY_NAME: u16 = 2;
    pub(super) const VERSION: u16 = 3;
    pub(super) const HEAD_BYTES: u16 = 4;
    pub(super) const MAX: u16 = 5;
    pub(super) const OPERATIONS: u16 = 6;
    pub(super) const OPERATION_ID: u16 = 1;
    pub(super) const OPERATION_FLAGS: u16 = 2;
}
/// `GENL_CMD_CAP_DO | GENL_CMD_CAP_DUMP | GENL_CMD_CAP_HASPOL`.
const DOES_AND_DUMPS: u32 = 0x0e;
/// `GENL_CMD_CAP_DUMP | GENL_CMD_CAP_HASPOL`.
const DUMPS: u32 = 0x0c;

/// Does a request.
///
/// # Errors
/// `ENOENT` for a family that is not there, `EOPNOTSUPP` for a command, `EINVAL`.
pub(crate) fn handle(
    message: &NetlinkMessage<'_>,
    reply: Reply,
) -> Result<NetlinkOutcome, NetErrno> {
    if message.kind != CONTROLLER {
        return Err(NetErrno::ENOENT);
    }
    let command = match (message.body.len(), Fields(message.body).u8(0)) {
        (HEAD.., Some(command)) => command,
        _ => return Err(NetErrno::EINVAL),
    };
    let is_dump = message.flags & flag::DUMP != 0;
    match (command, is_dump) {
        (GET_FAMILY, true) => {
            let reply = Reply { flags: flag::MULTI, ..reply };
            Ok(NetlinkOutcome::Dump(vec![controller(reply)]))
        }
        (GET_FAMILY, false) => {
            find(Attributes::after(message.body, HEAD))?;
            Ok(NetlinkOutcome::Done(vec![controller(reply)]))
        }
        (GET_POLICY, true) => {
            find(Attributes::after(message.body, HEAD))?;
            Ok(NetlinkOutcome::Dump(Vec::new()))
        }
        _ => Err(NetErrno::EOPNOTSUPP),
    }
}

/// Checks that the family that attributes name is the controller.
fn find(attributes: Attributes<'_>) -> Result<(), NetErrno> {
    let number = attributes.find(attribute::FAMILY_ID);
    if let Some(number) = number.and_then(|value| Fields(value).u16(0)) {
        return if number == CONTROLLER { Ok(()) } else { Err(NetErrno::ENOENT) };
    }
    match attributes.text(attribute::FAMILY_NAME) {
        Some(NAME) => Ok(()),
        Some(_) => Err(NetErrno::ENOENT),
        None => Err(NetErrno::EINVAL),
    }
}

/// Describes the controller.
fn controller(reply: Reply) -> Vec<u8> {
    let mut draft = reply.begin(CONTROLLER).put(&[NEW_FAMILY, 2, 0, 0]);
    draft.text(attribute::FAMILY_NAME, NAME);
    draft.attribute(attribute::FAMILY_ID, &CONTROLLER.to_le_bytes());
    draft.u32(attribute::VERSION, 2);
    draft.u32(attribute::HEAD_BYTES, 0);
    draft.u32(attribute::MAX, 0);
    let all = draft.nest(attribute::OPERATIONS);
    for (place, command, flags) in [(1, GET_FAMILY, DOES_AND_DUMPS), (2, GET_POLICY, DUMPS)] {
        let one = draft.nest(place);
        draft.u32(attribute::OPERATION_ID, command.into());
        draft.u32(attribute::OPERATION_FLAGS, flags);
        draft.end(one);
    }
    draft.end(all);
    draft.finish()
}
