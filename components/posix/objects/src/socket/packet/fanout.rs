//! Fan-out (PACKET_FANOUT, packet(7)): sockets that share the frames of one binding. Each frame goes to one of them.
//!
//! A [`FanoutGroup`] has a tap of its own. The taps of its members see nothing as long as they are in it. Members send by the group's
//! tap, so that none of them sees what another sends, as on Linux.
//!
//! Locks: `packet.control` > `packet.fanouts` (the list of groups) > the stack's > `packet.fanout` (the members of a group) >
//! `packet.received`.
use super::{
    ControlPart, PacketSocket,
    receive::{FrameReceiver, FrameRoom},
    steering::{self, RolloverState},
};
use crate::socket::{
    internet::{errno, link_numbered, taps},
    option_input::OptionInput,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};
use hash::Seed;
use interfaces::sockets::{
    FilterSlot, FrameTap, LinkTap, SeenFrame, SocketError, TapBinding, packet_kind,
};
use labels::SecrecyId;
use rt::{
    lock_class,
    sync::{Mutex, RwLock},
};
use vfs::Errno;

lock_class! {
    static FANOUTS = "packet.fanouts";
    static FANOUT = "packet.fanout";
}

/// Members of a group whose maker names no limit, and the greatest limit (`PACKET_FANOUT_MAX`).
const MEMBERS_DEFAULT: u32 = 256;
const MEMBERS_MAX: u32 = 1 << 16;
/// Bytes of the option: a number, or `struct fanout_args`.
const SHORT: usize = 4;
const LONG: usize = 8;
const IFF_UP: u32 = 1;

/// Flags of a group, in the high half of the type (`PACKET_FANOUT_FLAG_*`).
mod flag {
    pub(super) const ROLLOVER: u16 = 0x1000;
    pub(super) const UNIQUE: u16 = 0x2000;
    pub(super) const IGNORE_SENT: u16 = 0x4000;
    pub(super) const DEFRAGMENT: u16 = 0x8000;
}

/// The rule that chooses the member for a frame (`PACKET_FANOUT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum FanoutRule {
    /// A hash of the flow, the same in both directions.
    Hash = 0,
    /// One after the other.
    InTurn = 1,
    /// The processor's number.
    Processor = 2,
    /// The first with room.
    Rollover = 3,
    /// A random one.
    Random = 4,
    /// The queue of the card. All frames count as those of the first one.
    Queue = 5,
    /// A classic program (PACKET_FANOUT_CBPF). Until one is set, the first member gets all.
    Program = 6,
    /// An extended program (PACKET_FANOUT_EBPF), of which there are none: the first member gets all.
    ExtendedProgram = 7,
}

impl FanoutRule {
    fn of(number: u16) -> Option<FanoutRule> {
        use FanoutRule::{
            ExtendedProgram, Hash, InTurn, Processor, Program, Queue, Random, Rollover,
        };
        [Hash, InTurn, Processor, Rollover, Random, Queue, Program, ExtendedProgram]
            .into_iter()
            .find(|rule| *rule as u16 == number & 0xff)
    }
}

/// A member of a group.
struct FanoutMember {
    receiver: Arc<FrameReceiver>,
    rollover: Arc<RolloverState>,
}

/// The part of a group that the stack calls.
struct Distributor {
    rule: FanoutRule,
    flags: u16,
    seed: Seed,
    turn: AtomicU32,
    program: FilterSlot,
    members: RwLock<Vec<FanoutMember>>,
}

impl Distributor {
    /// Returns whether a frame may go to another member than the chosen one.
    fn can_roll_over(&self) -> bool {
        self.rule == FanoutRule::Rollover || self.flags & flag::ROLLOVER != 0
    }
    /// Returns the index of the member that the rule chooses of `count`.
    fn chosen(&self, frame: &SeenFrame<'_>, count: u32) -> u32 {
        match self.rule {
            FanoutRule::Hash => {
                let hash = u64::from(steering::flow_hash(&self.seed, frame));
                ((hash * u64::from(count)) >> 32) as u32
            }
            FanoutRule::InTurn => self.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1) % count,
            FanoutRule::Processor => rt::thread::processors().1 as u32 % count,
            FanoutRule::Random => random() % count,
            FanoutRule::Program => match self.program.get() {
                Some(program) => steering::answer(&program, frame) % count,
                None => 0,
            },
            FanoutRule::Rollover | FanoutRule::Queue | FanoutRule::ExtendedProgram => 0,
        }
    }
    /// Returns the index of a member with room for a frame, `index` if there is none (`fanout_demux_rollover`).
    fn roll_over(
        &self,
        members: &[FanoutMember],
        frame: &SeenFrame<'_>,
        index: usize,
    ) -> Option<usize> {
        let length = frame.bytes.length();
        let own = members.get(index)?;
        let tries_own = self.rule != FanoutRule::Rollover;
        let mut room = FrameRoom::Full;
        if tries_own {
            room = own.receiver.room(length);
            let is_its = match room {
                FrameRoom::Normal => true,
                FrameRoom::Low => {
                    !own.rollover.is_huge(steering::flow_hash(&self.seed, frame), random())
                }
                FrameRoom::Full => false,
            };
            if is_its {
                return Some(index);
            }
        }
        let first = own.rollover.next(members.len());
        for step in 0..members.len() {
            let at = (first + step) % members.len();
            let other = members.get(at)?;
            let is_skipped = tries_own && at == index;
            if !is_skipped && other.receiver.room(length) == FrameRoom::Normal {
                own.rollover.rolled(at, room);
                return Some(at);
            }
        }
        own.rollover.failed();
        Some(index)
    }
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    rt::entropy::fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

impl FrameTap for Distributor {
    fn see(&self, frame: &SeenFrame<'_>) {
        if frame.kind == packet_kind::OUTGOING && self.flags & flag::IGNORE_SENT != 0 {
            return;
        }
        let members = self.members.read();
        let Some(count) = u32::try_from(members.len()).ok().filter(|count| *count > 0) else {
            return;
        };
        let mut index = self.chosen(frame, count) as usize;
        if self.can_roll_over() {
            index = self.roll_over(&members, frame, index).unwrap_or(index);
        }
        if let Some(member) = members.get(index) {
            member.receiver.accept(frame);
        }
    }
    fn failed(&self, error: SocketError) {
        for member in self.members.read().iter() {
            member.receiver.failed(error);
        }
    }
}

/// Sockets that share frames.
pub(super) struct FanoutGroup {
    id: u16,
    most: u32,
    binding: TapBinding,
    /// The secrecy of its members.
    label: SecrecyId,
    distributor: Arc<Distributor>,
    tap: Arc<dyn LinkTap>,
}

/// All groups.
static GROUPS: Mutex<Vec<Arc<FanoutGroup>>> = Mutex::new(&FANOUTS, Vec::new());

/// The place of a socket in a group.
pub(super) struct FanoutPlace {
    group: Arc<FanoutGroup>,
    rollover: Arc<RolloverState>,
}

impl FanoutPlace {
    /// Returns the tap that the socket sends by.
    pub(super) fn tap(&self) -> &Arc<dyn LinkTap> {
        &self.group.tap
    }
    /// Returns the value of the option: the identifier, the type and the flags.
    pub(super) fn value(&self) -> u32 {
        let Distributor { rule, flags, .. } = *self.group.distributor;
        u32::from(self.group.id) | u32::from(rule as u8) << 16 | u32::from(flags >> 8) << 24
    }
    /// Returns the counts of frames that went to other members; `None` if none can.
    pub(super) fn rollover(&self) -> Option<[u64; 3]> {
        self.group.distributor.can_roll_over().then(|| self.rollover.counts())
    }
    fn has_program_rule(&self) -> bool {
        self.group.distributor.rule == FanoutRule::Program
    }
    /// Takes a socket out of its group, which ends with its last member.
    pub(super) fn leave(self, receiver: &Arc<FrameReceiver>) {
        let mut groups = GROUPS.lock();
        let removed = {
            let mut members = self.group.distributor.members.write();
            let place = members.iter().position(|one| Arc::ptr_eq(&one.receiver, receiver));
            let removed = place.map(|place| members.swap_remove(place));
            if !members.is_empty() {
                return;
            }
            removed
        };
        groups.retain(|group| !Arc::ptr_eq(group, &self.group));
        self.group.tap.close();
        drop(groups);
        drop(removed);
    }
}

/// The wishes of a program (`struct fanout_args`).
struct FanoutRequest {
    id: u16,
    rule: FanoutRule,
    flags: u16,
    most: u32,
}

impl FanoutRequest {
    fn read(input: &OptionInput) -> Result<FanoutRequest, Errno> {
        let [i0, i1, t0, t1, m0, m1, m2, m3] = match input.length {
            SHORT => {
                let [a, b, c, d] = input.bytes()?;
                [a, b, c, d, 0, 0, 0, 0]
            }
            LONG => input.bytes()?,
            _ => return Err(Errno::EINVAL),
        };
        let kind = u16::from_le_bytes([t0, t1]);
        let rule = FanoutRule::of(kind).ok_or(Errno::EINVAL)?;
        let flags = kind & 0xff00;
        let rolls_twice = rule == FanoutRule::Rollover && flags & flag::ROLLOVER != 0;
        if rolls_twice || flags & flag::DEFRAGMENT != 0 {
            return Err(Errno::EINVAL);
        }
        let (id, most) = (u16::from_le_bytes([i0, i1]), u32::from_le_bytes([m0, m1, m2, m3]));
        Ok(FanoutRequest { id, rule, flags, most })
    }
    /// Chooses an identifier that no group has, if the program wants one.
    fn choose(&mut self, groups: &[Arc<FanoutGroup>]) -> Result<(), Errno> {
        if self.flags & flag::UNIQUE == 0 {
            return Ok(());
        }
        if self.id != 0 {
            return Err(Errno::EINVAL);
        }
        let is_free = |id: &u16| groups.iter().all(|group| group.id != *id);
        self.id = (0..=u16::MAX).find(is_free).ok_or(Errno::ENOMEM)?;
        self.flags &= !flag::UNIQUE;
        Ok(())
    }
    /// Makes the group.
    fn group(&self, binding: TapBinding, label: SecrecyId) -> Result<FanoutGroup, Errno> {
        let taps = taps().ok_or(Errno::ENETDOWN)?;
        let mut key = [0; 16];
        rt::entropy::fill(&mut key);
        let distributor = Arc::new(Distributor {
            rule: self.rule,
            flags: self.flags,
            seed: Seed::new(key),
            turn: AtomicU32::new(0),
            program: FilterSlot::default(),
            members: RwLock::new(&FANOUT, Vec::new()),
        });
        let tap = taps.open(distributor.clone(), label);
        let most = if self.most == 0 { MEMBERS_DEFAULT } else { self.most };
        Ok(FanoutGroup { id: self.id, most, binding, label, distributor, tap })
    }
}

/// Returns the frames that a socket sees; `None` if it is bound to no protocol, or to an interface that is switched off.
pub(super) fn running(control: &ControlPart) -> Option<TapBinding> {
    let interface = Some(control.interface).filter(|number| *number != 0);
    let is_up = |number: u32| link_numbered(number).is_some_and(|link| link.flags & IFF_UP != 0);
    let protocol = Some(control.protocol).filter(|protocol| *protocol != 0)?;
    let is_running = interface.is_none_or(is_up);
    is_running.then_some(TapBinding { interface, protocol: Some(protocol) })
}

impl PacketSocket {
    /// Returns whether the socket is in a group that a classic program steers.
    pub(super) fn is_steered_by_program(&self) -> bool {
        let control = self.control.lock();
        control.fanout.as_ref().is_some_and(FanoutPlace::has_program_rule)
    }
    /// Sets the program of the socket's group (PACKET_FANOUT_DATA).
    ///
    /// # Errors
    /// `EINVAL` in no group, in one of another rule, or for a program that is malformed; `EPERM` if SO_LOCK_FILTER is on; `EFAULT`. An
    /// extended program is `EINVAL`, as no descriptor is one.
    pub(super) fn set_fanout_program(&self, input: &OptionInput) -> Result<(), Errno> {
        let control = self.control.lock();
        let place = control.fanout.as_ref().ok_or(Errno::EINVAL)?;
        if !place.has_program_rule() {
            return Err(Errno::EINVAL);
        }
        if self.common.options.is_kept(linux_raw_sys::net::SO_LOCK_FILTER) {
            return Err(Errno::EPERM);
        }
        let program = input.program.clone()?;
        drop(place.group.distributor.program.set(Some(program)));
        Ok(())
    }
    /// Puts the socket into a group, in Linux's order of checks (`fanout_add`).
    ///
    /// # Errors
    /// `EINVAL`, `EALREADY`, `ENOSPC` if the group is full, `ENOMEM`.
    pub(super) fn join_fanout(&self, input: &OptionInput) -> Result<(), Errno> {
        let mut request = FanoutRequest::read(input)?;
        let mut control = self.control.lock();
        if control.fanout.is_some() {
            return Err(Errno::EALREADY);
        }
        let mut groups = GROUPS.lock();
        request.choose(&groups)?;
        let found = groups.iter().find(|group| (group.id, group.label) == (request.id, self.label));
        let found = found.cloned();
        if let Some(group) = &found {
            let has_other_limit = request.most != 0 && request.most != group.most;
            if group.distributor.flags != request.flags || has_other_limit {
                return Err(Errno::EINVAL);
            }
        } else if request.most > MEMBERS_MAX {
            return Err(Errno::EINVAL);
        }
        let binding = running(&control).ok_or(Errno::EINVAL)?;
        let group = match found {
            Some(group) if group.distributor.rule != request.rule || group.binding != binding => {
                return Err(Errno::EINVAL);
            }
            Some(group) => group,
            None => {
                let group = Arc::new(request.group(binding, self.label)?);
                group.tap.bind(binding).map_err(errno)?;
                groups.push(group.clone());
                group
            }
        };
        let rollover = Arc::new(RolloverState::default());
        // The socket sees frames by the group alone from here on.
        let none = TapBinding { protocol: None, ..binding };
        {
            let receiver = self.receiver.clone();
            let mut members = group.distributor.members.write();
            if members.len() >= group.most as usize {
                return Err(Errno::ENOSPC);
            }
            members.push(FanoutMember { receiver, rollover: rollover.clone() });
        }
        // An interface that is gone shows nothing any more.
        let _ = self.tap.bind(none);
        control.fanout = Some(FanoutPlace { group, rollover });
        Ok(())
    }
}
