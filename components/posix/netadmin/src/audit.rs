//! NETLINK_AUDIT: the frame of its requests. The state that they are about is another crate's ([`AuditControl`]).
use crate::{
    NetErrno,
    request::NetlinkOutcome,
    wire::{NetlinkMessage, Reply, flag},
};
use alloc::{vec, vec::Vec};

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditAnswer {
    /// It was done.
    Done,
    /// It was done, and the acknowledgement has a number in the place of the error.
    Number(u32),
    /// A message of a type.
    One(u16, Vec<u8>),
    /// Messages of a type, and their end.
    Many(u16, Vec<Vec<u8>>),
}

/// The end of NETLINK_AUDIT that is the kernel's, for one program.
pub trait AuditControl {
    /// Does a request of a type.
    ///
    /// # Errors
    /// `EPERM`, `EINVAL`, and others as Linux's.
    fn handle(&self, kind: u16, body: &[u8]) -> Result<AuditAnswer, NetErrno>;
}

/// Does a request. As on Linux, answers have no port, and follow the acknowledgement.
///
/// # Errors
/// Those of [`AuditControl::handle`].
pub(crate) fn handle(
    message: &NetlinkMessage<'_>,
    control: Option<&dyn AuditControl>,
) -> Result<NetlinkOutcome, NetErrno> {
    let control = control.ok_or(NetErrno::EOPNOTSUPP)?;
    let reply = Reply { sequence: message.sequence, port: 0, flags: 0 };
    match control.handle(message.kind, message.body)? {
        AuditAnswer::Done => Ok(NetlinkOutcome::Done(Vec::new())),
        // Linux puts a positive number where errors are negative.
        AuditAnswer::Number(0) => Ok(NetlinkOutcome::Done(Vec::new())),
        AuditAnswer::Number(number) => Err(NetErrno(number.wrapping_neg())),
        AuditAnswer::One(kind, body) => {
            Ok(NetlinkOutcome::Followed(vec![reply.begin(kind).put(&body).finish()]))
        }
        AuditAnswer::Many(kind, bodies) => {
            let reply = Reply { flags: flag::MULTI, ..reply };
            let all = bodies.iter().map(|body| reply.begin(kind).put(body).finish());
            let end = core::iter::once_with(|| reply.begin(flag::DONE).finish());
            Ok(NetlinkOutcome::Followed(all.chain(end).collect()))
        }
    }
}

/// Returns a record as a message. One for the daemon has, as on Linux, a length without the header's.
pub fn record(kind: u16, text: &[u8], to: RecordTarget) -> Vec<u8> {
    let mut message = Reply::default().begin(kind).put(text).finish();
    let length = match to {
        RecordTarget::Daemon => text.len() as u32,
        RecordTarget::Group => text.len() as u32 + crate::wire::HEADER_BYTES as u32,
    };
    if let Some(place) = message.first_chunk_mut() {
        *place = length.to_le_bytes();
    }
    message
}

/// The receiver of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordTarget {
    /// The audit daemon.
    Daemon,
    /// The group of readers.
    Group,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        request::{LocalRecord, NetlinkWorld, PacketRecord},
        session::{NetlinkProtocol, answer},
        tests::{ROOT, request, split, split_to},
    };
    use interfaces::sockets::NetworkAdministration;

    /// A kernel that answers with its request.
    struct Echo;

    impl AuditControl for Echo {
        fn handle(&self, kind: u16, body: &[u8]) -> Result<AuditAnswer, NetErrno> {
            match kind {
                1000 => Ok(AuditAnswer::One(kind, body.to_vec())),
                1001 => Ok(AuditAnswer::Number(5)),
                1013 => Ok(AuditAnswer::Many(kind, vec![body.to_vec(), vec![9; 4]])),
                1005 => Ok(AuditAnswer::Done),
                _ => Err(NetErrno::EPERM),
            }
        }
    }

    impl NetlinkWorld for Echo {
        fn network(&self) -> Option<&dyn NetworkAdministration> {
            None
        }
        fn local_sockets(&self) -> Vec<LocalRecord> {
            Vec::new()
        }
        fn packet_sockets(&self) -> Vec<PacketRecord> {
            Vec::new()
        }
        fn audit(&self) -> Option<&dyn AuditControl> {
            Some(self)
        }
    }

    #[test]
    fn acknowledgements_come_first_and_answers_follow() {
        let ask = |kind, flags| {
            let bytes = request(kind, flags, &[1, 2, 3, 4]);
            let answers = answer(NetlinkProtocol::Audit, &bytes, &ROOT, &Echo);
            // As on Linux, answers name no port.
            (split(&answers.prompt), split_to(0, &answers.dumped))
        };
        let (prompt, dumped) = ask(1000, flag::ACK);
        assert_eq!((prompt.len(), prompt[0].0), (1, flag::ERROR));
        assert_eq!(dumped, [(1000, 0, vec![1, 2, 3, 4])]);
        let (prompt, dumped) = ask(1013, 0);
        assert!(prompt.is_empty());
        let kinds: Vec<_> = dumped.iter().map(|(kind, flags, _)| (*kind, *flags)).collect();
        assert_eq!(kinds, [(1013, flag::MULTI), (1013, flag::MULTI), (flag::DONE, flag::MULTI)]);
        let (prompt, _) = ask(1001, 0);
        assert_eq!(prompt[0].2[..4], 5u32.to_le_bytes(), "a number where others have an error");
        assert_eq!(ask(1005, 0), (Vec::new(), Vec::new()));
        assert_eq!(ask(1007, 0).0[0].2[..4], (-1i32).to_le_bytes());
    }

    #[test]
    fn the_length_of_a_record_depends_on_its_reader() {
        for (to, length) in [(RecordTarget::Daemon, 5), (RecordTarget::Group, 21u32)] {
            let bytes = record(1300, b"hello", to);
            assert_eq!((bytes.len(), &bytes[..4]), (24, &length.to_le_bytes()[..]));
            assert_eq!(&bytes[16..21], b"hello");
        }
    }
}
