//! The answer to a datagram that a program sent to the kernel's end of a netlink socket.
use crate::{
    audit,
    base::ExplainedErrno,
    diag, generic,
    request::NetlinkOutcome,
    route,
    wire::{NetlinkMessage, NetlinkMessages, Reply, flag},
};
use alloc::vec::Vec;

pub use crate::{
    request::{Asker, NetlinkWorld},
    wire::Quote,
};

/// Bytes of a datagram of a dump, at most, as Linux's first one: programs with a buffer of a page get all of it.
const DUMP_BYTES: usize = 3776;

/// The protocol of a netlink socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum NetlinkProtocol {
    /// NETLINK_ROUTE (rtnetlink(7)).
    Route = 0,
    /// NETLINK_USERSOCK: between programs.
    Users = 2,
    /// NETLINK_SOCK_DIAG (sock_diag(7)).
    Diagnosis = 4,
    /// NETLINK_SELINUX: a policy was loaded.
    Policy = 7,
    /// NETLINK_AUDIT (audit(8)).
    Audit = 9,
    /// NETLINK_KOBJECT_UEVENT: devices come and go.
    Events = 15,
    /// NETLINK_GENERIC.
    Generic = 16,
}

impl NetlinkProtocol {
    /// Returns the protocol of a number; `None` if there is none.
    pub fn of_number(number: i32) -> Option<NetlinkProtocol> {
        use NetlinkProtocol::{Audit, Diagnosis, Events, Generic, Policy, Route, Users};
        [Route, Users, Diagnosis, Policy, Audit, Events, Generic]
            .into_iter()
            .find(|protocol| *protocol as i32 == number)
    }
    /// Returns the number of groups that a socket can listen to.
    pub fn groups(self) -> u32 {
        match self {
            // RTNLGRP_STATS is the last one of Linux 6.1.
            NetlinkProtocol::Route => 36,
            NetlinkProtocol::Diagnosis => 4,
            NetlinkProtocol::Audit => 1,
            _ => 32,
        }
    }
}

/// The answers to a datagram.
#[derive(Debug, Default)]
pub struct Answers {
    /// Datagrams to be queued at once.
    pub prompt: Vec<Vec<u8>>,
    /// Datagrams of dumps, to be queued when there is room.
    pub dumped: Vec<Vec<u8>>,
}

/// Answers a datagram.
pub fn answer(
    protocol: NetlinkProtocol,
    datagram: &[u8],
    asker: &Asker,
    world: &dyn NetlinkWorld,
) -> Answers {
    let mut answers = Answers::default();
    if matches!(
        protocol,
        NetlinkProtocol::Users | NetlinkProtocol::Events | NetlinkProtocol::Policy
    ) {
        return answers;
    }
    for message in NetlinkMessages(datagram) {
        let reply = Reply { sequence: message.sequence, port: asker.port, flags: 0 };
        let is_request = message.flags & flag::REQUEST != 0 && message.kind >= flag::TYPE_MIN;
        let outcome = match protocol {
            // Audit answers messages of each type, with the flag or without.
            NetlinkProtocol::Audit => {
                audit::handle(&message, world.audit()).map_err(ExplainedErrno::from)
            }
            _ if !is_request => Ok(NetlinkOutcome::Done(Vec::new())),
            NetlinkProtocol::Route => route::handle(&message, asker, world, reply),
            NetlinkProtocol::Diagnosis => {
                diag::handle(&message, asker, world, reply).map_err(ExplainedErrno::from)
            }
            NetlinkProtocol::Generic => {
                generic::handle(&message, reply).map_err(ExplainedErrno::from)
            }
            NetlinkProtocol::Users | NetlinkProtocol::Events | NetlinkProtocol::Policy => {
                Ok(NetlinkOutcome::Done(Vec::new()))
            }
        };
        settle(&message, outcome, reply, asker, &mut answers);
    }
    answers
}

/// Adds the result of a message to the answers.
fn settle(
    message: &NetlinkMessage<'_>,
    outcome: Result<NetlinkOutcome, ExplainedErrno>,
    reply: Reply,
    asker: &Asker,
    answers: &mut Answers,
) {
    let result = match outcome {
        Ok(NetlinkOutcome::Dump(mut messages)) => {
            messages.push(reply.done(Ok(()), asker));
            return pack(messages, &mut answers.dumped);
        }
        Ok(NetlinkOutcome::Failed(refusal)) => {
            return answers.dumped.push(reply.done(Err(refusal), asker));
        }
        Ok(NetlinkOutcome::Followed(datagrams)) => {
            answers.dumped.extend(datagrams);
            Ok(())
        }
        Ok(NetlinkOutcome::Done(messages)) => {
            answers.prompt.extend(messages);
            Ok(())
        }
        Err(error) => Err(error),
    };
    if result.is_err() || message.flags & flag::ACK != 0 {
        answers.prompt.push(reply.acknowledge(message, result, asker));
    }
}

/// Puts the messages of a dump into datagrams.
fn pack(messages: Vec<Vec<u8>>, datagrams: &mut Vec<Vec<u8>>) {
    let mut current: Vec<u8> = Vec::new();
    for message in messages {
        if !current.is_empty() && current.len() + message.len() > DUMP_BYTES {
            datagrams.push(core::mem::take(&mut current));
        }
        current.extend_from_slice(&message);
    }
    datagrams.push(current);
}
