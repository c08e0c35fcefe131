//! [`PacketProgram`]: a program that looks at a packet.
//!
//! An offset from [`OF_EXTENSIONS`] on names a property of the packet instead of bytes, one from [`OF_NETWORK`] on counts from the
//! header of the network layer, one from [`OF_LINK`] on from that of the link. Source: Linux `include/uapi/linux/filter.h`,
//! `net/core/filter.c` (`bpf_check_classic`, `convert_bpf_extensions`).
use crate::{
    INSTRUCTIONS_MAX, Instruction, Malformed,
    check::{self, Dialect},
    operation::{self, Arithmetic, Operation, ProgramInput},
};
use alloc::{boxed::Box, vec::Vec};

/// `SKF_LL_OFF`.
const OF_LINK: u32 = -0x20_0000_i32 as u32;
/// `SKF_NET_OFF`.
const OF_NETWORK: u32 = -0x10_0000_i32 as u32;
/// `SKF_AD_OFF`.
const OF_EXTENSIONS: u32 = -0x1000_i32 as u32;
/// `SKF_AD_ALU_XOR_X`: A becomes A xor X.
const XOR: u32 = 40;

// Classes, sizes and modes of loads (`bpf_common.h`).
const CLASS: u16 = 0x07;
const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const WORD: u16 = 0x00;
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;
const SIZES: u16 = 0x18;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;
const LEN: u16 = 0x80;
const MSH: u16 = 0xa0;
const MODES: u16 = 0xe0;
const LD_LEN: u16 = LD | WORD | LEN;
const LDX_LEN: u16 = LDX | WORD | LEN;
const LDX_MSH: u16 = LDX | BYTE | MSH;

/// Instructions of Linux's internal language that a load of bytes becomes, about.
pub(crate) const LOAD_WEIGHT: u32 = 6;
/// Memory of a program of Linux beside its instructions, and that of an instruction, in bytes.
const PROGRAM_BYTES: usize = 72;
const INSTRUCTION_BYTES: usize = 8;

/// A part of a packet that a program loads into A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketLoad {
    /// Four bytes.
    Word,
    /// Two bytes.
    Half,
    /// A byte.
    Byte,
    /// Four bytes, with X added to the offset.
    IndexedWord,
    /// Two bytes, with X added to the offset.
    IndexedHalf,
    /// A byte, with X added to the offset.
    IndexedByte,
    /// The length of the packet.
    Length,
    /// A property, by its number.
    Extension,
}

/// Returns whether the instruction with this code loads bytes of the packet.
pub(crate) fn is_load(code: u16) -> bool {
    code == LDX_MSH || code & CLASS == LD && matches!(code & MODES, ABS | IND)
}

/// Decodes a load of a part of a packet, to `Some(None)` if the instruction is none. `None` if it is invalid.
#[expect(clippy::option_option, reason = "an invalid load differs from another instruction")]
pub(crate) fn load(instruction: &Instruction) -> Option<Option<Operation>> {
    let constant = instruction.constant;
    match instruction.code {
        LD_LEN => return Some(Some(Operation::LoadPacket(PacketLoad::Length, 0))),
        LDX_LEN => return Some(Some(Operation::IndexLength)),
        LDX_MSH => return Some(Some(Operation::IndexHeader(constant))),
        code if !is_load(code) => return Some(None),
        _ => {}
    }
    let code = instruction.code;
    let is_absolute = code & MODES == ABS;
    if code & !(CLASS | SIZES | MODES) != 0 {
        return None;
    }
    let load = match (code & SIZES, is_absolute) {
        (WORD, true) => PacketLoad::Word,
        (HALF, true) => PacketLoad::Half,
        (BYTE, true) => PacketLoad::Byte,
        (WORD, false) => PacketLoad::IndexedWord,
        (HALF, false) => PacketLoad::IndexedHalf,
        (BYTE, false) => PacketLoad::IndexedByte,
        _ => return None,
    };
    Some(Some(match constant.checked_sub(OF_EXTENSIONS) {
        Some(XOR) if is_absolute => Operation::ComputeIndex(Arithmetic::Xor),
        Some(number) if is_absolute => {
            extension(number)?;
            Operation::LoadPacket(PacketLoad::Extension, number)
        }
        _ => Operation::LoadPacket(load, constant),
    }))
}

/// A property of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    Protocol,
    Kind,
    Interface,
    Attribute,
    NestedAttribute,
    Mark,
    Queue,
    Hardware,
    Hash,
    Processor,
    VlanTag,
    HasVlanTag,
    Payload,
    Random,
    VlanProtocol,
}

fn extension(number: u32) -> Option<Extension> {
    Some(match number {
        0 => Extension::Protocol,
        4 => Extension::Kind,
        8 => Extension::Interface,
        12 => Extension::Attribute,
        16 => Extension::NestedAttribute,
        20 => Extension::Mark,
        24 => Extension::Queue,
        28 => Extension::Hardware,
        32 => Extension::Hash,
        36 => Extension::Processor,
        44 => Extension::VlanTag,
        48 => Extension::HasVlanTag,
        52 => Extension::Payload,
        56 => Extension::Random,
        60 => Extension::VlanProtocol,
        _ => return None,
    })
}

/// The bytes of a packet, from the byte on that a program counts as 0.
pub trait PacketBytes {
    /// Returns the number of bytes.
    fn length(&self) -> usize;
    /// Copies bytes from `offset` on to `out`. Headers before byte 0 have negative offsets. Returns whether all of them are there.
    fn read(&self, offset: i64, out: &mut [u8]) -> bool;
}

/// A slice is a packet without headers before it.
impl PacketBytes for [u8] {
    fn length(&self) -> usize {
        self.len()
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        let found = usize::try_from(offset).ok().and_then(|start| {
            let end = start.checked_add(out.len())?;
            self.get(start..end)
        });
        found.map(|bytes| out.copy_from_slice(bytes)).is_some()
    }
}

impl<P: PacketBytes + ?Sized> PacketBytes for &P {
    fn length(&self) -> usize {
        (**self).length()
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        (**self).read(offset, out)
    }
}

/// The properties of a packet besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFacts {
    /// EtherType.
    pub protocol: u16,
    /// `PACKET_HOST` and so on (packet(7)).
    pub kind: u8,
    /// Number and hardware type (`ARPHRD_*`) of the interface. Without one, a program that asks ends with 0.
    pub interface: Option<(u32, u16)>,
    /// Offset of the network layer's header.
    pub network: i32,
    /// Offset of the link's header, if there is one.
    pub link: Option<i32>,
    /// Mark of the socket that sent it.
    pub mark: u32,
    /// Number of the processor that runs the program.
    pub processor: u32,
    /// A random number.
    pub random: u32,
}

/// A packet, as a program sees it.
struct Looked<'p, P: ?Sized> {
    bytes: &'p P,
    facts: &'p PacketFacts,
}

impl<P: PacketBytes + ?Sized> Looked<'_, P> {
    fn length(&self) -> u32 {
        u32::try_from(self.bytes.length()).unwrap_or(u32::MAX)
    }
    /// Loads the bytes at an offset of a program.
    fn bytes<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        let at = match offset {
            OF_NETWORK.. => i64::from(self.facts.network) + i64::from(offset - OF_NETWORK),
            OF_LINK.. => i64::from(self.facts.link?) + i64::from(offset - OF_LINK),
            0x8000_0000.. => return None,
            _ => i64::from(offset),
        };
        self.at(at)
    }
    fn at<const N: usize>(&self, offset: i64) -> Option<[u8; N]> {
        let mut found = [0; N];
        self.bytes.read(offset, &mut found).then_some(found)
    }
    fn extension(&self, number: u32, (accumulator, index): (u32, u32)) -> Option<u32> {
        let facts = self.facts;
        Some(match extension(number)? {
            Extension::Protocol => facts.protocol.into(),
            Extension::Kind => facts.kind.into(),
            Extension::Interface => facts.interface?.0,
            Extension::Hardware => facts.interface?.1.into(),
            Extension::Attribute => self.attribute(accumulator, index).unwrap_or(0),
            Extension::NestedAttribute => self.nested_attribute(accumulator, index).unwrap_or(0),
            Extension::Mark => facts.mark,
            Extension::Processor => facts.processor,
            Extension::Random => facts.random,
            Extension::Payload => self.payload().unwrap_or(0),
            // Packets have neither queues, hashes nor tags.
            Extension::Queue
            | Extension::Hash
            | Extension::VlanTag
            | Extension::HasVlanTag
            | Extension::VlanProtocol => 0,
        })
    }
    /// Returns the offset of the attribute of type `kind` (netlink(7)) among those from `start` on.
    fn attribute(&self, start: u32, kind: u32) -> Option<u32> {
        self.attribute_within(start, self.length(), kind)
    }
    fn attribute_within(&self, start: u32, end: u32, kind: u32) -> Option<u32> {
        const HEAD: u32 = 4;
        const TYPE: u16 = 0x3fff;
        let mut at = start;
        // Each attribute has at least its head, so the number of turns is limited by the length.
        while end.checked_sub(at)? >= HEAD {
            let length = u32::from(u16::from_le_bytes(self.at(at.into())?));
            let found = u16::from_le_bytes(self.at(i64::from(at) + 2)?) & TYPE;
            if length < HEAD || length > end - at {
                return None;
            }
            if u32::from(found) == kind {
                return Some(at);
            }
            at = at.checked_add(length.next_multiple_of(HEAD))?;
        }
        None
    }
    fn nested_attribute(&self, outer: u32, kind: u32) -> Option<u32> {
        let length = u32::from(u16::from_le_bytes(self.at(outer.into())?));
        let end = outer.checked_add(length).filter(|end| *end <= self.length())?;
        self.attribute_within(outer.checked_add(4)?, end, kind)
    }
    /// Returns the offset of the payload behind the headers of IP and of the protocol above it (`__skb_get_poff`).
    fn payload(&self) -> Option<u32> {
        const IPV4: u16 = 0x0800;
        const IPV6: u16 = 0x86dd;
        let network = i64::from(self.facts.network);
        let (protocol, start) = match self.facts.protocol {
            IPV4 => {
                let [first] = self.at(network)?;
                let [number] = self.at(network + 9)?;
                (number, network + i64::from(first & 0xf) * 4)
            }
            IPV6 => {
                let [number] = self.at(network + 6)?;
                (number, network + 40)
            }
            _ => return None,
        };
        let length = match protocol {
            6 => {
                let [words] = self.at(start + 12)?;
                i64::from(words >> 4).max(5) * 4
            }
            17 | 136 | 1 | 58 | 2 => 8,
            33 | 132 => 12,
            _ => 0,
        };
        u32::try_from(start + length).ok()
    }
}

impl<P: PacketBytes + ?Sized> ProgramInput for Looked<'_, P> {
    /// Programs for packets have no such loads.
    #[inline]
    fn word(&self, _: u8) -> Option<u32> {
        None
    }
    #[inline]
    fn load(&self, load: PacketLoad, constant: u32, registers: (u32, u32)) -> Option<u32> {
        let indexed = registers.1.wrapping_add(constant);
        match load {
            PacketLoad::Word => self.bytes(constant).map(u32::from_be_bytes),
            PacketLoad::Half => self.bytes(constant).map(|two| u16::from_be_bytes(two).into()),
            PacketLoad::Byte => self.bytes(constant).map(|[byte]| byte.into()),
            PacketLoad::IndexedWord => self.bytes(indexed).map(u32::from_be_bytes),
            PacketLoad::IndexedHalf => {
                self.bytes(indexed).map(|two| u16::from_be_bytes(two).into())
            }
            PacketLoad::IndexedByte => self.bytes(indexed).map(|[byte]| byte.into()),
            PacketLoad::Length => Some(self.length()),
            PacketLoad::Extension => self.extension(constant, registers),
        }
    }
}

/// A checked program for packets: it terminates, and reads nothing but the packet and its own memory.
#[derive(Debug)]
pub struct PacketProgram {
    operations: Box<[Operation]>,
    /// The instructions as they were given (`SO_GET_FILTER`).
    words: Box<[u64]>,
    memory: usize,
}

impl PacketProgram {
    /// Checks a program, as Linux's `bpf_check_classic` does.
    ///
    /// # Errors
    /// [`Malformed`] unless the program has 1 to [`INSTRUCTIONS_MAX`] instructions, all known, that jump only within the
    /// program, end with a return, load no unknown property and no cell that may not have been stored to, and neither divide
    /// by a constant 0 nor shift by one above 31.
    pub fn new(words: &[u64]) -> Result<PacketProgram, Malformed> {
        let instructions: Vec<Instruction> =
            words.iter().take(INSTRUCTIONS_MAX + 1).map(|word| Instruction::from(*word)).collect();
        let operations = check::operations(&instructions, Dialect::Packets)?;
        let weight = check::weight(&instructions, Dialect::Packets) as usize;
        let memory = PROGRAM_BYTES + weight * INSTRUCTION_BYTES;
        Ok(PacketProgram { operations, words: words.into(), memory })
    }
    /// Returns the memory that Linux charges to the socket for the program, about, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }
    /// Returns the instructions as they were given.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
    /// Returns the number of bytes to keep of a packet; 0 drops it. A load of bytes that are not there drops it, too.
    pub fn run<P: PacketBytes + ?Sized>(&self, bytes: &P, facts: &PacketFacts) -> u32 {
        operation::run(&self.operations, &[], 0, &Looked { bytes, facts })
    }
    /// Returns the number of bytes that a socket gets of a packet; `None` of one that is dropped.
    pub fn admit<P: PacketBytes + ?Sized>(&self, bytes: &P, facts: &PacketFacts) -> Option<usize> {
        match self.run(bytes, facts) {
            0 => None,
            kept => Some((kept as usize).min(bytes.length())),
        }
    }
}
