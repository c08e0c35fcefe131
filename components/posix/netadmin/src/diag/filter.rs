//! The filters of ss(8): a small program for each socket (`struct inet_diag_bc_op`).
//!
//! An instruction is a code, the step if its condition holds, and the step if it does not, in bytes. A socket passes if the program
//! ends exactly at its end. A step that is zero or no multiple of four ends the program in failure, so each program ends.
use super::inet::Ends;
use crate::wire::Fields;
use core::net::IpAddr;

const INSTRUCTION: usize = 4;
/// `INET_DIAG_BC_*`.
mod code {
    pub(super) const NOTHING: u8 = 0;
    pub(super) const JUMP: u8 = 1;
    pub(super) const SOURCE_AT_LEAST: u8 = 2;
    pub(super) const SOURCE_AT_MOST: u8 = 3;
    pub(super) const PEER_AT_LEAST: u8 = 4;
    pub(super) const PEER_AT_MOST: u8 = 5;
    pub(super) const AUTOMATIC: u8 = 6;
    pub(super) const SOURCE: u8 = 7;
    pub(super) const PEER: u8 = 8;
    pub(super) const DEVICE: u8 = 9;
    pub(super) const SOURCE_IS: u8 = 11;
    pub(super) const PEER_IS: u8 = 12;
}

/// Returns whether a socket passes a filter.
pub(super) fn passes(program: &[u8], ends: &Ends) -> bool {
    let mut rest = program;
    while !rest.is_empty() {
        let Some(holds) = holds(rest, ends) else { return false };
        let fields = Fields(rest);
        let (yes, no) = (fields.u8(1).map(usize::from), fields.u16(2).map(usize::from));
        let step = if holds { yes } else { no };
        let step = step.filter(|step| *step >= INSTRUCTION && step.is_multiple_of(INSTRUCTION));
        match step.and_then(|step| rest.get(step..)) {
            Some(next) => rest = next,
            None => return false,
        }
    }
    true
}

/// Returns whether the condition of the first instruction holds; `None` if it is malformed.
fn holds(rest: &[u8], ends: &Ends) -> Option<bool> {
    let fields = Fields(rest);
    // The operand of a comparison of ports is in the place of the second instruction's long step.
    let port = || fields.u16(INSTRUCTION + 2);
    Some(match fields.u8(0)? {
        code::NOTHING => true,
        code::JUMP | code::AUTOMATIC => false,
        code::SOURCE_AT_LEAST => ends.source.1 >= port()?,
        code::SOURCE_AT_MOST => ends.source.1 <= port()?,
        code::PEER_AT_LEAST => ends.peer.1 >= port()?,
        code::PEER_AT_MOST => ends.peer.1 <= port()?,
        code::SOURCE_IS => ends.source.1 == port()?,
        code::PEER_IS => ends.peer.1 == port()?,
        code::SOURCE => is_at(rest.get(INSTRUCTION..)?, ends.source)?,
        code::PEER => is_at(rest.get(INSTRUCTION..)?, ends.peer)?,
        code::DEVICE => ends.interface == fields.u32(INSTRUCTION)?,
        _ => return None,
    })
}

/// Returns whether an end is the one of a `struct inet_diag_hostcond`: family, prefix, port, address.
fn is_at(condition: &[u8], (address, port): (IpAddr, u16)) -> Option<bool> {
    const ADDRESS_AT: usize = 8;
    let fields = Fields(condition);
    let (family, prefix, wanted) = (fields.u8(0)?, fields.u8(1)?, fields.u32(4)? as i32);
    if wanted != -1 && wanted != i32::from(port) {
        return Some(false);
    }
    let address = match (family, address) {
        (crate::base::INET, IpAddr::V6(long)) => long.to_ipv4_mapped().map_or(address, IpAddr::V4),
        _ => address,
    };
    if family != crate::base::UNSPEC && crate::base::family_of(address) != family {
        return Some(false);
    }
    if prefix == 0 {
        return Some(true);
    }
    let bytes = condition.get(ADDRESS_AT..)?;
    let network = crate::base::address(crate::base::family_of(address), bytes)?;
    Some(crate::base::is_in(address, network, prefix))
}
