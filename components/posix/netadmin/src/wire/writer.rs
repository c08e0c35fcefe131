//! Writing of messages.
use super::{NetlinkMessage, flag};
use crate::{base::ExplainedErrno, request::Asker};
use alloc::vec::Vec;

/// Bytes of the header of an attribute: its length and its number.
pub(crate) const ATTRIBUTE_BYTES: usize = 4;
/// Bytes of the header of a message.
pub(crate) const HEADER_BYTES: usize = 16;
/// `NLMSGERR_ATTR_MSG`.
const TEXT: u16 = 1;

/// The head of answers to a request: its number, and the port that asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reply {
    /// Number of the request; zero for a notice.
    pub(crate) sequence: u32,
    /// Port of the program; zero for a notice.
    pub(crate) port: u32,
    /// Flags of each message.
    pub(crate) flags: u16,
}

impl Reply {
    /// Begins a message.
    pub(crate) fn begin(self, kind: u16) -> Draft {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.port.to_le_bytes());
        Draft { bytes }
    }
    /// Returns the end of a dump.
    pub(crate) fn done(self, result: Result<(), ExplainedErrno>, asker: &Asker) -> Vec<u8> {
        let text = told(result, asker);
        let tail = if text.is_some() { flag::ACK_TEXTS } else { 0 };
        let reply = Reply { flags: self.flags | flag::MULTI | tail, ..self };
        reply.begin(flag::DONE).put(&negative(result)).put_text(text)
    }
    /// Returns the answer to a message that failed, or asked for an acknowledgement. Without `NETLINK_CAP_ACK` the answer to one that
    /// failed repeats it whole.
    pub(crate) fn acknowledge(
        self,
        message: &NetlinkMessage<'_>,
        result: Result<(), ExplainedErrno>,
        asker: &Asker,
    ) -> Vec<u8> {
        let is_whole = result.is_err() && asker.quote == Quote::Whole;
        let text = told(result, asker);
        let flags = if is_whole { 0 } else { flag::CAPPED };
        let flags = flags | if text.is_some() { flag::ACK_TEXTS } else { 0 };
        let length = if is_whole { message.whole.len() } else { HEADER_BYTES };
        let draft = Reply { flags, ..self }.begin(flag::ERROR).put(&negative(result));
        draft.put(message.whole.get(..length).unwrap_or_default()).put_text(text)
    }
}

/// Returns the text of a result that the asker wants to know.
fn told(result: Result<(), ExplainedErrno>, asker: &Asker) -> Option<&'static str> {
    result.err().and_then(|refusal| refusal.text).filter(|_| asker.wants_texts)
}

/// Returns the negative error number of a result, zero for success.
fn negative(result: Result<(), ExplainedErrno>) -> [u8; 4] {
    let number = result.map_or_else(|error| (error.number.0 as i32).wrapping_neg(), |()| 0);
    number.to_le_bytes()
}

/// The part of a failed request that its answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// All of it.
    Whole,
    /// Its header alone (`NETLINK_CAP_ACK`).
    Header,
}

/// A message that is being written.
pub(crate) struct Draft {
    bytes: Vec<u8>,
}

/// The place of a nested attribute whose length is not known yet.
pub(crate) struct Nest(usize);

impl Draft {
    /// Adds bytes of the fixed head.
    pub(crate) fn put(mut self, bytes: &[u8]) -> Draft {
        self.bytes.extend_from_slice(bytes);
        self
    }
    /// Adds an attribute. One that is longer than an attribute can be is left out.
    pub(crate) fn attribute(&mut self, number: u16, value: &[u8]) {
        self.pad();
        let Ok(length) = u16::try_from(value.len().saturating_add(ATTRIBUTE_BYTES)) else { return };
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
    }
    /// Adds a number of four bytes.
    pub(crate) fn u32(&mut self, number: u16, value: u32) {
        self.attribute(number, &value.to_le_bytes());
    }
    /// Adds a byte.
    pub(crate) fn u8(&mut self, number: u16, value: u8) {
        self.attribute(number, &[value]);
    }
    /// Adds a text with its final zero.
    pub(crate) fn text(&mut self, number: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(number, &bytes);
    }
    /// Adds bytes without the head of an attribute, within a nested one.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    /// Adds numbers of four bytes.
    pub(crate) fn words(&mut self, number: u16, values: &[u32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.attribute(number, &bytes);
    }
    /// Begins an attribute that holds others.
    pub(crate) fn nest(&mut self, number: u16) -> Nest {
        self.pad();
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&number.to_le_bytes());
        Nest(at)
    }
    /// Ends it. One that has become longer than an attribute can be is left out.
    pub(crate) fn end(&mut self, nest: Nest) {
        let Ok(length) = u16::try_from(self.bytes.len().saturating_sub(nest.0)) else {
            return self.bytes.truncate(nest.0);
        };
        if let Some(place) = self.bytes.get_mut(nest.0..).and_then(|rest| rest.first_chunk_mut()) {
            *place = length.to_le_bytes();
        }
    }
    /// Ends an acknowledgement, which may have a text.
    fn put_text(mut self, text: Option<&str>) -> Vec<u8> {
        if let Some(text) = text {
            self.text(TEXT, text);
        }
        self.finish()
    }
    /// Ends the message.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        if let Some(place) = self.bytes.first_chunk_mut() {
            *place = length.to_le_bytes();
        }
        self.pad();
        self.bytes
    }
    fn pad(&mut self) {
        let length = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Attributes;

    #[test]
    fn a_value_longer_than_an_attribute_is_left_out() {
        let mut draft = Reply::default().begin(16);
        draft.attribute(1, &[1; 65_531]);
        draft.attribute(2, &[2; 65_532]);
        draft.u8(3, 3);
        let nest = draft.nest(4);
        draft.attribute(5, &[5; 65_531]);
        draft.end(nest);
        draft.u8(6, 6);
        let bytes = draft.finish();
        let found: Vec<(u16, usize)> = Attributes::after(&bytes, HEADER_BYTES)
            .map(|(kind, value)| (kind, value.len()))
            .collect();
        assert_eq!(found, [(1, 65_531), (3, 1), (6, 1)]);
    }
}
