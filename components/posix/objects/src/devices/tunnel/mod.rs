//! `/dev/net/tun`: interfaces whose packets programs read and write (TUN and TAP).
//!
//! | file | contents |
//! | --- | --- |
//! | `mod` | [`TunnelFile`], a description of the device file: reading, writing, readiness |
//! | `ioctl` | its requests |
//! | `device` | the interface behind it, with its queues, flags and counts |
//! | `queue` | the packets that wait for one description |
//! | `steering` | the choice among queues, the receivers of frames that are wanted |
//! | `format` | headers before a packet |
//!
//! A write goes through the stack before it ends, and a packet that the stack sends is in a queue before the send ends: nothing has a
//! thread of its own. Source: Linux `Documentation/networking/tuntap.rst`, `drivers/net/tun.c`.
mod device;
mod format;
mod ioctl;
mod queue;
mod steering;

use crate::socket::internet;
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use device::{CONTROL, CountedEvent, QueueEnd, TunnelDevice, flag};
use format::{CUT, INFO_BYTES, PacketInfo, VNET_BYTES, VnetHeader, protocol_of};
use interfaces::{
    nic::{ChecksumState, PACKET_MIN, Packet, PacketSegment},
    sockets::{SocketError, TunnelArrival, TunnelLayer},
};
use queue::TunnelQueue;
use rt::{PAGE_BYTES, lock_class, memory::Frame, sync::RwLock, thread::Woken};
use vfs::{
    Caller, Errno, Principal, Vnode,
    devices::Opener,
    file::{File, IoFlags, SignalSource, Survey},
    io::{Sink, Source},
    poll::{PollTable, Ready},
};
use zerocopy::{FromZeros, IntoBytes};

/// Major and minor number of the device file, and its place in `/dev`.
pub const MAJOR: u32 = 10;
/// Minor number.
pub const MINOR: u32 = 200;

lock_class! {
    static ATTACHED = "tunnel.attached";
}

/// Bytes of a packet that a program writes, at most: more than any packet of IP has.
const PACKET_MAX: usize = 256 * 1024;
/// First bytes of a packet that are looked at to know its flow.
const HEAD: usize = 64;

/// The opener of the device file.
pub struct TunnelOpener;

impl Opener for TunnelOpener {
    fn open(&self, _: &Arc<Vnode>, _: u32, caller: &Caller<'_>) -> Result<Arc<dyn File>, Errno> {
        Ok(Arc::new(TunnelFile {
            queue: TunnelQueue::new(caller.task),
            attached: RwLock::new(&ATTACHED, None),
            is_disabled: AtomicBool::new(false),
            number: AtomicU32::new(0),
        }))
    }
}

/// A description of the device file.
pub struct TunnelFile {
    queue: Arc<TunnelQueue>,
    attached: RwLock<Option<Arc<TunnelDevice>>>,
    /// Its queue is out of use (`TUNSETQUEUE`).
    is_disabled: AtomicBool,
    /// Number for the interface that it makes; zero for none (`TUNSETIFINDEX`).
    number: AtomicU32,
}

impl TunnelFile {
    /// Returns the device at whose end it is.
    ///
    /// # Errors
    /// `EBADFD` if there is none, or its interface is gone.
    fn device(&self) -> Result<Arc<TunnelDevice>, Errno> {
        let attached = self.attached.read();
        let device = attached.as_ref().filter(|device| !device.is_gone());
        device.cloned().ok_or(Errno::EBADFD)
    }
    /// Waits for a packet.
    ///
    /// # Errors
    /// `EAGAIN`, `EFAULT` if the interface goes meanwhile (as on Linux), and the interruption.
    fn next(&self, flags: IoFlags) -> Result<Packet, Errno> {
        loop {
            let ticket = self.queue.changed.ticket();
            match self.queue.take() {
                Some(packet) => return Ok(packet),
                None if flags.is_nonblocking => return Err(Errno::EAGAIN),
                None if self.queue.is_shut() => return Err(Errno::EFAULT),
                None => {}
            }
            if self.queue.changed.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    fn receive(&self, device: &TunnelDevice, source: &mut dyn Source) -> Result<usize, Errno> {
        let total = source.remaining();
        let (info, mut header) = take_headers(device, source)?;
        let length = source.remaining();
        let result = header.settle(length).map_err(|_| Errno::EINVAL).and_then(|()| {
            let hint = usize::from(header.header_length.get());
            let is_frame = device.layer() == TunnelLayer::Link;
            match is_frame && (length < PACKET_MIN || hint != 0 && hint < PACKET_MIN) {
                true => Err(Errno::EINVAL),
                false => Ok(()),
            }
        });
        result?;
        let segments = take_packet(source, length)
            .inspect_err(|_| device.count(CountedEvent::ReceiveDropped))?;
        let checksum = header.checksum(length).map_err(|_| {
            device.count(CountedEvent::ReceiveError);
            Errno::EINVAL
        })?;
        self.pass(device, info, (segments, checksum))
            .inspect_err(|_| device.count(CountedEvent::ReceiveDropped))?;
        device.count(CountedEvent::Received(length));
        Ok(total)
    }
    /// Gives the stack a packet.
    fn pass(
        &self,
        device: &TunnelDevice,
        info: Option<PacketInfo>,
        (segments, checksum): (Vec<PacketSegment>, ChecksumState),
    ) -> Result<(), Errno> {
        let mut head = [0; HEAD];
        let count = segments.first().map_or(0, |first| {
            let length = (first.length as usize).min(HEAD);
            let head = head.get_mut(..length).unwrap_or_default();
            first.frame.read(first.offset as usize, head)
        });
        let head = head.get(..count).unwrap_or_default();
        let protocol = match (device.layer(), info) {
            (TunnelLayer::Link, _) => 0,
            (TunnelLayer::Network, Some(info)) => info.protocol.get(),
            (TunnelLayer::Network, None) => {
                let known = head.first().and_then(|first| protocol_of(*first));
                known.ok_or(Errno::EINVAL)?
            }
        };
        let arrival = TunnelArrival { protocol, segments, checksum };
        device.tunnel()?.receive(arrival).map_err(|error| match error {
            SocketError::NetworkDown => Errno::EIO,
            _ => Errno::EBADFD,
        })?;
        // As on Linux, an answer to this packet has been sent by now.
        device.note_flow(head, &self.queue);
        Ok(())
    }
}

/// Takes the headers that a device has before its packets, with zeroes for the virtio header of one that has none.
fn take_headers(
    device: &TunnelDevice,
    source: &mut dyn Source,
) -> Result<(Option<PacketInfo>, VnetHeader), Errno> {
    let mut info = None;
    if !device.has(flag::NO_INFO) {
        let mut given = PacketInfo::default();
        if source.remaining() < INFO_BYTES {
            return Err(Errno::EINVAL);
        }
        source.take_whole(given.as_mut_bytes())?;
        info = Some(given);
    }
    let mut header = VnetHeader::new_zeroed();
    if device.has(flag::VNET_HEADER) {
        let bytes = device.vnet_bytes.load(Ordering::Relaxed) as usize;
        if source.remaining() < bytes {
            return Err(Errno::EINVAL);
        }
        source.take_whole(header.as_mut_bytes())?;
        skip(source, bytes.saturating_sub(VNET_BYTES))?;
    }
    Ok((info, header))
}

fn skip(source: &mut dyn Source, mut bytes: usize) -> Result<(), Errno> {
    let mut unused = [0; HEAD];
    while bytes > 0 {
        let part = bytes.min(HEAD);
        source.take_whole(unused.get_mut(..part).unwrap_or_default())?;
        bytes -= part;
    }
    Ok(())
}

/// Copies a packet into frames.
///
/// # Errors
/// `ENOBUFS` for one that is too long, `EFAULT`.
fn take_packet(source: &mut dyn Source, length: usize) -> Result<Vec<PacketSegment>, Errno> {
    if length > PACKET_MAX {
        return Err(Errno::ENOBUFS);
    }
    let mut frames = Vec::new();
    Frame::allocate_unfilled(length.div_ceil(PAGE_BYTES), &mut frames)?;
    let count = if length == 0 { 0 } else { source.take_into_frames(&frames, 0, length)? };
    if count < length {
        return Err(Errno::EFAULT);
    }
    if let Some(last) = frames.last() {
        let used = length - (frames.len() - 1) * PAGE_BYTES;
        last.zero(used, PAGE_BYTES - used);
    }
    let segment = |(place, frame): (usize, Frame)| {
        let bytes = (length - place * PAGE_BYTES).min(PAGE_BYTES);
        PacketSegment { frame, offset: 0, length: bytes as u32 }
    };
    Ok(frames.into_iter().enumerate().map(segment).collect())
}

/// Gives a program a packet, with the headers that the device has before it. Returns the bytes of all, whether or not the program had
/// room for them (`tun_put_user`).
///
/// # Errors
/// `EINVAL` without room for the headers, `EFAULT`. The packet is lost.
fn put_packet(device: &TunnelDevice, packet: &Packet, sink: &mut dyn Sink) -> Result<usize, Errno> {
    let vnet_bytes = match device.has(flag::VNET_HEADER) {
        true => device.vnet_bytes.load(Ordering::Relaxed) as usize,
        false => 0,
    };
    let mut total = packet.bytes().saturating_add(vnet_bytes);
    sink.commit();
    if !device.has(flag::NO_INFO) {
        if sink.remaining() < INFO_BYTES {
            return Err(Errno::EINVAL);
        }
        total = total.saturating_add(INFO_BYTES);
        let flags = if sink.remaining() < total { CUT } else { 0 };
        let protocol = device.protocol(packet).into();
        sink.put_whole(PacketInfo { flags: flags.into(), protocol }.as_bytes())?;
    }
    if vnet_bytes > 0 {
        if sink.remaining() < vnet_bytes {
            return Err(Errno::EINVAL);
        }
        sink.put_whole(VnetHeader::of(packet).as_bytes())?;
        sink.put_zeroes(vnet_bytes.saturating_sub(VNET_BYTES))?;
    }
    // As on Linux, an address without memory behind it is no error from here on.
    let header = packet.header.as_slice();
    let count = header.len().min(sink.remaining());
    let mut is_whole = sink.put(header.get(..count).unwrap_or_default()) == Ok(header.len());
    for segment in &packet.segments {
        let length = (segment.length as usize).min(sink.remaining());
        is_whole = is_whole
            && length > 0
            && sink.put_frame(&segment.frame, segment.offset as usize, length) == Ok(length);
    }
    Ok(total)
}

impl File for TunnelFile {
    fn held_bytes(&self, survey: &mut Survey) -> usize {
        self.queue.held_bytes(survey)
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        let device = self.device()?;
        let room = sink.remaining();
        if room == 0 {
            return Ok(0);
        }
        let packet = self.next(flags)?;
        let total = put_packet(&device, &packet, sink)?;
        device.count(CountedEvent::Sent(packet.bytes()));
        Ok(total.min(room))
    }
    fn write(&self, _: u64, source: &mut dyn Source, _: IoFlags) -> Result<(usize, u64), Errno> {
        let device = self.device()?;
        self.receive(&device, source).map(|count| (count, 0))
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.queue.changed);
        }
        let Ok(device) = self.device() else { return Ready::ERROR };
        let mut ready = Ready::empty();
        ready.set(Ready::IN | Ready::READ_NORMAL, !self.queue.is_empty());
        ready.set(Ready::OUT | Ready::WRITE_NORMAL, device.is_up());
        ready
    }
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        Some(SignalSource::Readiness)
    }
    fn details(&self) -> String {
        let device = self.device().ok();
        let number = device.and_then(|device| device.tunnel().ok().map(|it| it.index()));
        let link = number.and_then(internet::link_numbered);
        format!("iff:\t{}\n", link.map(|link| link.name).unwrap_or_default())
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        let _control = CONTROL.lock();
        let device = self.attached.write().take();
        if let Some(device) = device {
            leave(&device, &self.queue);
        }
    }
}

/// Takes the queue of a description that is closed from its device. An interface without a description at its end has no carrier, and
/// goes unless it is to persist. `tunnel.control` is held.
fn leave(device: &TunnelDevice, queue: &Arc<TunnelQueue>) {
    if device.is_gone() {
        return;
    }
    device.detach(queue, QueueEnd::Closed);
    let Ok(tunnel) = device.tunnel() else { return };
    if device.queue_counts() == (0, 0) {
        tunnel.set_carrier(false);
        if !device.has(flag::PERSISTS) {
            tunnel.close();
        }
    }
}
