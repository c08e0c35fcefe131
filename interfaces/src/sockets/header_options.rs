//! [`Ipv4OptionList`]: the options of a header of IPv4 (RFC 791), as a program gives them, as a packet has them, and as an answer has
//! them. The rules are those of Linux (`ip_options_compile`, `ip_options_build`, `ip_options_echo`).
use crate::marshal::{Marshal, put_bytes, take_bytes};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// Bytes of options, at most.
const BYTES_MAX: usize = 40;
/// Bytes of the header before the options, from which faults are counted.
const HEADER_BYTES: u8 = 20;
/// Kinds of options.
const END: u8 = 0;
const NOTHING: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;
/// The flag of options that each fragment repeats.
const COPIED: u8 = 0x80;
/// Bytes of an address, and of a time.
const WORD: usize = 4;
/// Kinds of the option Timestamp: times alone, addresses and times, times of the addresses that the sender names.
const TIMES: u8 = 0;
const TIMES_AND_ADDRESSES: u8 = 1;
const TIMES_OF_NAMED: u8 = 3;

/// The options of a header of IPv4: whole words of at most 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4OptionList {
    bytes: [u8; BYTES_MAX],
    length: u8,
}

/// The side that options are looked at from.
#[derive(Clone, Copy)]
pub enum OptionSide {
    /// A program gives them, which may give any (CAP_NET_RAW).
    Privileged,
    /// A program gives them, which may not give unknown ones.
    Plain,
    /// They came in a packet. This host writes its address and the time, in milliseconds since midnight UTC.
    Received(Ipv4Addr, u32),
}

/// Whether an option of which there may be one came before in the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionTurn {
    First,
    Second,
}

/// A malformed option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionFault {
    /// The place of the fault, counted from the header: the pointer of an ICMP parameter problem.
    pub pointer: u8,
}

/// The route that the sender chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRoute {
    /// The first host on the way.
    pub first: Ipv4Addr,
    /// There is no host between those named.
    pub is_strict: bool,
}

/// The options of a received packet, as its receiver is told of them.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct ReceivedOptions {
    /// Those of the packet (`IP_RECVOPTS`).
    pub came: Ipv4OptionList,
    /// Those of an answer (`IP_RETOPTS`); `None` if they would be malformed.
    pub answer: Option<Ipv4OptionList>,
}

/// Returns whether an address is that of another host.
pub type IsOtherHost<'a> = &'a dyn Fn(Ipv4Addr) -> bool;

/// An option's place in the list: where it begins, its kind, its length.
#[derive(Clone, Copy)]
struct OptionPlace {
    at: usize,
    kind: u8,
    length: usize,
}

impl Marshal for Ipv4OptionList {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_slice(), out);
    }
    fn take(from: &mut &[u8]) -> Option<Ipv4OptionList> {
        take_bytes(from).and_then(Ipv4OptionList::padded)
    }
}

impl Ipv4OptionList {
    /// No options.
    pub const EMPTY: Ipv4OptionList = Ipv4OptionList { bytes: [0; BYTES_MAX], length: 0 };
    /// The option Router Alert (RFC 2113).
    pub const ROUTER_ALERT: Ipv4OptionList = {
        let mut bytes = [0; BYTES_MAX];
        (bytes[0], bytes[1]) = (ROUTER_ALERT, 4);
        Ipv4OptionList { bytes, length: 4 }
    };

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length()).unwrap_or_default()
    }
    /// Returns their number.
    pub fn length(&self) -> usize {
        self.length.into()
    }
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
    /// Returns a copy of `bytes`, padded to whole words. `None` if they are too many.
    pub fn padded(bytes: &[u8]) -> Option<Ipv4OptionList> {
        let mut list = Ipv4OptionList::EMPTY;
        list.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        list.length = bytes.len().next_multiple_of(WORD) as u8;
        Some(list)
    }
    fn byte(&self, at: usize) -> u8 {
        self.as_slice().get(at).copied().unwrap_or(0)
    }
    fn address(&self, at: usize) -> Ipv4Addr {
        Ipv4Addr::from([0, 1, 2, 3].map(|place| self.byte(at + place)))
    }
    fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
    /// Returns the option at `at`, if it is whole; `None` at the end. An option that is not is a fault there.
    fn place(&self, at: usize) -> Result<Option<OptionPlace>, usize> {
        let rest = self.as_slice().get(at..).unwrap_or_default();
        match rest {
            [] | [END, ..] => Ok(None),
            [NOTHING, ..] => Ok(Some(OptionPlace { at, kind: NOTHING, length: 1 })),
            [kind, length, ..] if (2..=rest.len()).contains(&usize::from(*length)) => {
                Ok(Some(OptionPlace { at, kind: *kind, length: (*length).into() }))
            }
            _ => Err(at),
        }
    }
    /// Returns the options, up to the end or to the first that is not whole.
    fn places(&self) -> impl Iterator<Item = OptionPlace> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let found = self.place(at).ok()??;
            at += found.length;
            Some(found)
        })
    }
    fn place_of(&self, kinds: &[u8]) -> Option<OptionPlace> {
        self.places().find(|one| kinds.contains(&one.kind))
    }
    /// Checks options, and writes what `side` writes.
    ///
    /// # Errors
    /// [`OptionFault`] for the first that is malformed, comes twice, or is not allowed.
    pub fn checked(
        bytes: &[u8],
        side: OptionSide,
        is_other: IsOtherHost<'_>,
    ) -> Result<Ipv4OptionList, OptionFault> {
        let fault = |at: usize| OptionFault { pointer: HEADER_BYTES.saturating_add(at as u8) };
        let mut list = Ipv4OptionList::padded(bytes).ok_or(fault(0))?;
        let (mut at, mut seen) = (0, [false; 256]);
        while let Some(place) = list.place(at).map_err(fault)? {
            let kind = if place.kind == STRICT_ROUTE { LOOSE_ROUTE } else { place.kind };
            let is_single = matches!(kind, LOOSE_ROUTE | RECORD_ROUTE | TIMESTAMP);
            let was =
                seen.get_mut(usize::from(kind)).is_some_and(|was| core::mem::replace(was, true));
            // A timestamp's length is looked at first, as is a route's.
            let turn = if is_single && was { OptionTurn::Second } else { OptionTurn::First };
            list.check(place, side, is_other, turn).map_err(fault)?;
            at += place.length;
        }
        let length = list.length();
        // Nothing follows the end.
        list.bytes.get_mut(at..length).unwrap_or_default().fill(END);
        Ok(list)
    }
    /// Checks one option. The fault is the place of the byte that is wrong.
    fn check(
        &mut self,
        place: OptionPlace,
        side: OptionSide,
        is_other: IsOtherHost<'_>,
        turn: OptionTurn,
    ) -> Result<(), usize> {
        let OptionPlace { at, kind, length } = place;
        match kind {
            LOOSE_ROUTE | STRICT_ROUTE => self.check_route(place, side, turn),
            RECORD_ROUTE if turn == OptionTurn::Second => Err(at),
            RECORD_ROUTE => self.check_record(place, side),
            TIMESTAMP if turn == OptionTurn::Second => Err(at),
            TIMESTAMP => self.check_times(place, side, is_other),
            ROUTER_ALERT if length < 4 => Err(at + 1),
            ROUTER_ALERT | NOTHING => Ok(()),
            _ if matches!(side, OptionSide::Plain) => Err(at),
            _ => Ok(()),
        }
    }
    fn check_route(
        &self,
        place: OptionPlace,
        side: OptionSide,
        turn: OptionTurn,
    ) -> Result<(), usize> {
        let OptionPlace { at, length, .. } = place;
        let pointer = self.byte(at + 2);
        match side {
            _ if length < 3 => Err(at + 1),
            _ if pointer < 4 => Err(at + 2),
            _ if turn == OptionTurn::Second => Err(at),
            OptionSide::Received(..) => Ok(()),
            _ if pointer != 4 || length < 7 || (length - 3) % WORD != 0 => Err(at + 1),
            _ => Ok(()),
        }
    }
    fn check_record(&mut self, place: OptionPlace, side: OptionSide) -> Result<(), usize> {
        let OptionPlace { at, length, .. } = place;
        let pointer = usize::from(self.byte(at + 2));
        if length < 3 {
            return Err(at + 1);
        }
        if pointer < 4 || pointer <= length && pointer + 3 > length {
            return Err(at + 2);
        }
        if pointer > length {
            return Ok(());
        }
        match side {
            OptionSide::Received(own, _) => self.record(place, &own.octets()),
            _ => self.overwrite(at + pointer - 1, &[0; WORD]),
        }
        Ok(())
    }
    /// Writes a word at the pointer of an option, and moves that.
    fn record(&mut self, place: OptionPlace, word: &[u8; WORD]) {
        let pointer = self.byte(place.at + 2);
        self.overwrite(place.at + usize::from(pointer) - 1, word);
        self.overwrite(place.at + 2, &[pointer.saturating_add(WORD as u8)]);
    }
    fn check_times(
        &mut self,
        place: OptionPlace,
        side: OptionSide,
        is_other: IsOtherHost<'_>,
    ) -> Result<(), usize> {
        let OptionPlace { at, length, .. } = place;
        if length < 4 {
            return Err(at + 1);
        }
        let (pointer, flags) = (usize::from(self.byte(at + 2)), self.byte(at + 3));
        let kind = flags & 0xf;
        if pointer < 5 {
            return Err(at + 2);
        }
        if pointer > length {
            return match (flags >> 4, side) {
                _ if kind == TIMES_OF_NAMED => Ok(()),
                (15, _) => Err(at + 3),
                (overflow, OptionSide::Received(..)) => {
                    self.overwrite(at + 3, &[kind | (overflow + 1) << 4]);
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        let needed = if matches!(kind, TIMES_AND_ADDRESSES | TIMES_OF_NAMED) { 7 } else { 3 };
        if pointer + needed > length {
            return Err(at + 2);
        }
        match side {
            OptionSide::Plain if !matches!(kind, TIMES | TIMES_AND_ADDRESSES | TIMES_OF_NAMED) => {
                return Err(at + 3);
            }
            OptionSide::Received(own, midnight_ms) => {
                self.note_time(place, own, midnight_ms, is_other);
            }
            // The bytes to be written are zero.
            _ => match kind {
                TIMES => self.overwrite(at + pointer - 1, &[0; WORD]),
                TIMES_AND_ADDRESSES => self.overwrite(at + pointer - 1, &[0; 2 * WORD]),
                TIMES_OF_NAMED if !is_other(self.address(at + pointer - 1)) => {
                    self.overwrite(at + pointer + 3, &[0; WORD]);
                }
                _ => {}
            },
        }
        Ok(())
    }
    /// Writes this host's address and the time, as the kind of a timestamp with room asks for.
    fn note_time(&mut self, place: OptionPlace, own: Ipv4Addr, ms: u32, is_other: IsOtherHost<'_>) {
        let pointer = usize::from(self.byte(place.at + 2));
        match self.byte(place.at + 3) & 0xf {
            TIMES => {}
            TIMES_AND_ADDRESSES => self.record(place, &own.octets()),
            TIMES_OF_NAMED if !is_other(self.address(place.at + pointer - 1)) => {
                self.overwrite(place.at + 2, &[(pointer + WORD) as u8]);
            }
            _ => return,
        }
        self.record(place, &ms.to_be_bytes());
    }
    /// Returns the route that the sender chose, if it did.
    pub fn source_route(&self) -> Option<SourceRoute> {
        let place = self.place_of(&[LOOSE_ROUTE, STRICT_ROUTE])?;
        let is_strict = place.kind == STRICT_ROUTE;
        Some(SourceRoute { first: self.address(place.at + 3), is_strict })
    }
    /// Returns the options of a packet from `source`, this host, to `destination`, at `ms` milliseconds since midnight UTC.
    pub fn written(
        &self,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        ms: u32,
        is_other: IsOtherHost<'_>,
    ) -> Ipv4OptionList {
        let mut list = *self;
        for place in self.places() {
            let OptionPlace { at, kind, length } = place;
            let pointer = usize::from(self.byte(at + 2));
            match kind {
                LOOSE_ROUTE | STRICT_ROUTE => {
                    // The first host is the destination of the packet, and the destination the last host.
                    let rest = self.as_slice().get(at + 7..at + length).unwrap_or_default();
                    list.overwrite(at + 3, rest);
                    list.overwrite(at + length.saturating_sub(WORD), &destination.octets());
                }
                RECORD_ROUTE if pointer <= length => list.record(place, &source.octets()),
                TIMESTAMP if pointer <= length => list.note_time(place, source, ms, is_other),
                _ => {}
            }
        }
        list
    }
    /// Returns the options of an answer to a packet of `source` with these, as a program would give them. `None` if they would be
    /// malformed. Only a record of the route, a timestamp and the route back are answered.
    pub fn answer(&self, source: Ipv4Addr) -> Option<Ipv4OptionList> {
        let (mut bytes, mut length) = ([0; BYTES_MAX], 0);
        let mut push = |part: &[u8]| {
            let room = bytes.get_mut(length..length + part.len());
            room.map(|room| room.copy_from_slice(part))?;
            length += part.len();
            Some(())
        };
        let part = |place: OptionPlace| self.as_slice().get(place.at..place.at + place.length);
        for kind in [RECORD_ROUTE, TIMESTAMP] {
            if let Some(place) = self.place_of(&[kind]) {
                push(part(place)?)?;
            }
        }
        if let Some(place) = self.place_of(&[LOOSE_ROUTE, STRICT_ROUTE]) {
            let (route, count) = self.route_back(place, source);
            push(route.get(..count).unwrap_or_default())?;
        }
        let list = Ipv4OptionList::padded(bytes.get(..length)?)?;
        Ipv4OptionList::checked(list.as_slice(), OptionSide::Privileged, &|_| true).ok()
    }
    /// Returns the option of the route back to `source`, and its length; none if the packet came straight.
    fn route_back(&self, place: OptionPlace, source: Ipv4Addr) -> ([u8; BYTES_MAX], usize) {
        let mut route = [0; BYTES_MAX];
        let pointer = usize::from(self.byte(place.at + 2));
        // The hosts before the pointer were visited; the last of them is the first on the way back.
        let visited = (pointer.min(place.length + 1).saturating_sub(WORD)) / WORD;
        let hosts = (0..visited).map(|number| self.address(place.at + 3 + number * WORD));
        // A route that names its sender as the first host is not repeated (RFC 1812 section 5.2.4.1).
        let skip = usize::from(hosts.clone().next() == Some(source));
        let back = hosts.skip(skip).rev();
        let mut at = 3;
        for host in back {
            for (to, from) in route.iter_mut().skip(at).zip(host.octets()) {
                *to = from;
            }
            at += WORD;
        }
        if at == 3 {
            return (route, 0);
        }
        for (to, from) in route.iter_mut().zip([place.kind, at as u8, WORD as u8]) {
            *to = from;
        }
        (route, at)
    }
    /// Returns the options of the fragments behind the first: those that each fragment repeats.
    pub fn of_later_fragments(&self) -> Ipv4OptionList {
        let mut list = *self;
        for place in self.places().filter(|place| place.kind & COPIED == 0) {
            let room = list.bytes.get_mut(place.at..place.at + place.length);
            room.unwrap_or_default().fill(NOTHING);
        }
        list
    }
}

impl Default for Ipv4OptionList {
    fn default() -> Ipv4OptionList {
        Ipv4OptionList::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const THERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const NOON: u32 = 43_200_000;

    fn given(bytes: &[u8]) -> Result<Ipv4OptionList, u8> {
        let other = |address| address != HERE;
        Ipv4OptionList::checked(bytes, OptionSide::Plain, &other).map_err(|fault| fault.pointer)
    }
    fn came(bytes: &[u8]) -> Result<Ipv4OptionList, u8> {
        let side = OptionSide::Received(HERE, NOON);
        Ipv4OptionList::checked(bytes, side, &|address| address != HERE)
            .map_err(|fault| fault.pointer)
    }
    fn sent(list: Ipv4OptionList) -> Vec<u8> {
        list.written((HERE, THERE), NOON, &|address| address != HERE).as_slice().to_vec()
    }

    #[test]
    fn a_record_of_the_route_gets_the_sender_and_the_receiver() {
        let list = given(&[7, 11, 4, 9, 9, 9, 9, 0, 0, 0, 0]).unwrap();
        assert_eq!(
            list.as_slice(),
            [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "what is to be written is zero"
        );
        let on_wire = sent(list);
        assert_eq!(on_wire, [7, 11, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0]);
        let received = came(&on_wire).unwrap();
        assert_eq!(received.as_slice(), [7, 11, 12, 10, 0, 0, 1, 10, 0, 0, 1, 0]);
        assert_eq!(came(received.as_slice()).unwrap(), received, "a full one stays");
        assert_eq!(received.answer(THERE), Some(received));
    }
    #[test]
    fn timestamps_are_of_three_kinds() {
        let noon = NOON.to_be_bytes();
        let times = given(&[68, 8, 5, 0, 1, 2, 3, 4]).unwrap();
        assert_eq!(sent(times), [&[68, 8, 9, 0][..], &noon].concat());
        let both = given(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(sent(both), [&[68, 12, 13, 1, 10, 0, 0, 1][..], &noon].concat());
        let own = given(&[68, 12, 5, 3, 10, 0, 0, 1, 5, 5, 5, 5]).unwrap();
        assert_eq!(sent(own), [&[68, 12, 13, 3, 10, 0, 0, 1][..], &noon].concat());
        let other = given(&[68, 12, 5, 3, 10, 0, 0, 2, 0, 0, 0, 0]).unwrap();
        assert_eq!(sent(other), other.as_slice());
        // A host without room counts itself, until the counter is full.
        assert_eq!(came(&[68, 4, 5, 0]).unwrap().as_slice(), [68, 4, 5, 0x10]);
        assert_eq!(came(&[68, 4, 5, 0xf0]), Err(23));
        assert_eq!(given(&[68, 8, 5, 7, 0, 0, 0, 0]), Err(23), "an unknown kind");
    }
    #[test]
    fn a_source_route_begins_with_its_first_host_and_ends_with_the_destination() {
        let list = given(&[131, 11, 4, 1, 1, 1, 1, 2, 2, 2, 2]).unwrap();
        let route = SourceRoute { first: Ipv4Addr::new(1, 1, 1, 1), is_strict: false };
        assert_eq!(list.source_route(), Some(route));
        assert_eq!(sent(list), [131, 11, 4, 2, 2, 2, 2, 10, 0, 0, 2, 0]);
        assert_eq!(given(&[137, 7, 5, 1, 1, 1, 1]), Err(21));
        // Both hosts were visited: the way back is the other way around.
        let visited = came(&[137, 11, 12, 1, 1, 1, 1, 2, 2, 2, 2, 0]).unwrap();
        let back = visited.answer(THERE).unwrap();
        assert_eq!(back.as_slice(), [137, 11, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0]);
        let own = visited.answer(Ipv4Addr::new(1, 1, 1, 1)).unwrap();
        assert_eq!(own.as_slice(), [137, 7, 4, 2, 2, 2, 2, 0]);
    }
    #[test]
    fn malformed_options_are_faults_at_their_place() {
        for (bytes, pointer) in [
            (&[7][..], 20),
            (&[7, 1, 4], 20),
            (&[7, 9, 4], 20),
            (&[7, 3, 3], 22),
            (&[7, 6, 4, 0, 0, 0], 22),
            (&[1, 7, 3, 4, 7, 3, 4], 24),
            (&[148, 2], 21),
            (&[68, 4, 4, 0], 22),
            (&[130, 4, 0, 0], 20),
            (&[0; 41], 20),
        ] {
            assert_eq!(given(bytes), Err(pointer), "{bytes:?}");
        }
        let privileged =
            Ipv4OptionList::checked(&[130, 4, 0, 0], OptionSide::Privileged, &|_| true);
        assert_eq!(privileged.unwrap().as_slice(), [130, 4, 0, 0]);
        assert_eq!(
            given(&[1, 0, 7, 7]).unwrap().as_slice(),
            [1, 0, 0, 0],
            "nothing follows the end"
        );
    }
    #[test]
    fn later_fragments_have_the_options_that_are_copied() {
        let list = given(&[7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0]).unwrap();
        assert_eq!(list.of_later_fragments().as_slice(), [1, 1, 1, 1, 1, 1, 1, 148, 4, 0, 0, 0]);
    }
}
