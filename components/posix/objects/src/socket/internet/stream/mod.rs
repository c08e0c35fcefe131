//! [`InternetStream`]: a TCP socket (tcp(7)). Parts: `connect` (bind, connect, shutdown, close), `listen` (listen, accept),
//! `transfer` (send and receive), `family` (the socket calls and the file), `options`.
//!
//! The bytes are in a [`Stream`], from which and to which they are copied directly. A call on the fast path takes no lock of this
//! file: the phase, the directions that were shut down and the stream in use are read from atomic variables. Calls that change them
//! hold `internet.control`.
mod connect;
mod family;
#[cfg(test)]
mod fuzz;
mod listen;
mod opening;
#[cfg(test)]
mod option_tests;
mod options;
#[cfg(test)]
mod tests;
mod transfer;

pub(super) use connect::check_name;

use super::{
    address::AddressFamily,
    network::{SocketMaker, errno},
    settings::{Flags, InternetSettings},
    wakes::SocketWakes,
    zero_copy::ZeroCopyNotices,
};
use crate::socket::{
    common::SocketCommon,
    interface::{Shut, SocketAddress, SocketKind},
};
use alloc::{
    boxed::Box,
    sync::{Arc, Weak},
};
use core::{
    net::SocketAddr,
    ops::Deref,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
use interfaces::sockets::{Network, SocketFamilies, Stream, StreamSocket, StreamState};
use listen::AcceptQueue;
use memory::setting::Setting;
use rt::{
    lock_class,
    sync::{Mutex, Once},
};
use vfs::Errno;

lock_class! {
    static CONTROL = "internet.control";
    static SETTINGS = "internet.settings";
    static STREAM = "internet.stream";
    static DEFERRED = "internet.deferred";
}

/// Least, first and greatest SO_SNDBUF of a stream, if no option sets it (`net.ipv4.tcp_wmem`).
pub static SEND_SPACE: [Setting; 3] =
    [Setting::count(4096), Setting::count(16_384), Setting::count(4_194_304)];
/// Least, first and greatest SO_RCVBUF of a stream, if no option sets it (`net.ipv4.tcp_rmem`).
pub static RECEIVE_SPACE: [Setting; 3] =
    [Setting::count(4096), Setting::count(131_072), Setting::count(6_291_456)];

/// Whether the memory of received bytes follows the program's pace (`net.ipv4.tcp_moderate_rcvbuf`).
pub static MODERATES_RECEIVE: Setting = Setting::new(1, 0, 255);

/// The phase of a socket's use, as the calls see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum StreamPhase {
    /// No connection, or none any more.
    Free,
    /// connect(2) was begun, and no call has returned its end.
    Connecting,
    /// Connected, until connect(2) to AF_UNSPEC.
    Connected,
    /// listen(2) was called.
    Listening,
    /// connect(2) waits for the first bytes (TCP_FASTOPEN_CONNECT).
    Deferred,
}

impl StreamPhase {
    fn of(number: u8) -> StreamPhase {
        const USED: [StreamPhase; 4] = [
            StreamPhase::Connecting,
            StreamPhase::Connected,
            StreamPhase::Listening,
            StreamPhase::Deferred,
        ];
        let found = USED.into_iter().find(|phase| *phase as u8 == number);
        found.unwrap_or(StreamPhase::Free)
    }
}

/// The share of TCP_NOTSENT_LOWAT that may be used up, by its divisor (Linux's `tcp_stream_memory_free`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnsentShare {
    /// All, for send(2).
    Whole = 1,
    /// A half, for poll(2).
    Half = 2,
}

/// The stream of a socket: the first one, until the socket was disconnected.
struct StreamChoice {
    first: Arc<Stream>,
    is_replaced: AtomicBool,
    later: Mutex<Option<Arc<Stream>>>,
}

/// A stream in use.
enum StreamInUse<'a> {
    First(&'a Arc<Stream>),
    Later(Arc<Stream>),
}

impl Deref for StreamInUse<'_> {
    type Target = Arc<Stream>;
    fn deref(&self) -> &Arc<Stream> {
        match self {
            StreamInUse::First(stream) => stream,
            StreamInUse::Later(stream) => stream,
        }
    }
}

impl StreamChoice {
    fn new(first: Arc<Stream>) -> StreamChoice {
        let later = Mutex::new(&STREAM, None);
        StreamChoice { first, is_replaced: AtomicBool::new(false), later }
    }
    #[inline]
    fn get(&self) -> StreamInUse<'_> {
        if self.is_replaced.load(Ordering::Acquire)
            && let Some(stream) = &*self.later.lock()
        {
            return StreamInUse::Later(stream.clone());
        }
        StreamInUse::First(&self.first)
    }
    fn replace(&self, stream: Arc<Stream>) {
        let before = self.later.lock().replace(stream);
        self.is_replaced.store(true, Ordering::Release);
        drop(before);
    }
}

/// A TCP socket.
pub struct InternetStream {
    this: Weak<InternetStream>,
    common: SocketCommon,
    family: AddressFamily,
    maker: SocketMaker,
    wakes: Arc<SocketWakes>,
    streams: StreamChoice,
    socket: Arc<dyn StreamSocket>,
    /// Held by calls that change the socket, over the stack's.
    control: Mutex<()>,
    phase: AtomicU8,
    shut: AtomicU8,
    is_closed: AtomicBool,
    settings: Mutex<InternetSettings>,
    queue: Once<Arc<AcceptQueue>>,
    /// Limits of the bytes of a stream: of sent ones as it is, of received ones as it begins.
    send_limit: AtomicUsize,
    receive_limit: AtomicUsize,
    /// Offset + 1 of an urgent byte that MSG_OOB returned; 0 for none.
    urgent_taken: AtomicU64,
    notices: ZeroCopyNotices,
    /// The address of a connect that waits for the first bytes.
    deferred: Mutex<Option<Box<SocketAddress>>>,
    /// The flags of the settings, for calls that send and receive.
    flags: AtomicU64,
    /// TCP_NOTSENT_LOWAT, for calls that send; 0 for none.
    unsent_low_water: AtomicU32,
}

impl InternetStream {
    /// Makes a socket of `network` for its maker.
    ///
    /// # Errors
    /// `ENOBUFS`.
    pub(super) fn open(
        network: &dyn Network,
        family: AddressFamily,
        maker: SocketMaker,
    ) -> Result<Arc<InternetStream>, Errno> {
        let common = SocketCommon::new(SocketKind::Stream, maker.level);
        let wakes = SocketWakes::new();
        let (send, receive) = (SEND_SPACE[1].size(), RECEIVE_SPACE[1].size());
        let stream = Arc::new(Stream::new(wakes.clone(), send, receive));
        stream.set_receive_limit_max(receive_limit_max());
        let families = match family {
            AddressFamily::V4 => SocketFamilies::V4,
            AddressFamily::V6 => SocketFamilies::Both,
        };
        let owner = maker.owner(common.number());
        let socket = network.open_stream(stream.clone(), families, owner).map_err(errno)?;
        Ok(InternetStream::assemble((common, family, maker), (wakes, stream), socket))
    }
    fn assemble(
        (common, family, maker): (SocketCommon, AddressFamily, SocketMaker),
        (wakes, stream): (Arc<SocketWakes>, Arc<Stream>),
        socket: Arc<dyn StreamSocket>,
    ) -> Arc<InternetStream> {
        Arc::new_cyclic(|this| InternetStream {
            this: this.clone(),
            common,
            family,
            maker,
            wakes,
            streams: StreamChoice::new(stream),
            socket,
            control: Mutex::new(&CONTROL, ()),
            phase: AtomicU8::new(StreamPhase::Free as u8),
            shut: AtomicU8::new(0),
            is_closed: AtomicBool::new(false),
            settings: Mutex::new(&SETTINGS, InternetSettings::of(family)),
            queue: Once::new(),
            send_limit: AtomicUsize::new(SEND_SPACE[1].size()),
            receive_limit: AtomicUsize::new(RECEIVE_SPACE[1].size()),
            urgent_taken: AtomicU64::new(0),
            notices: ZeroCopyNotices::default(),
            deferred: Mutex::new(&DEFERRED, None),
            flags: AtomicU64::new(Flags::default().bits()),
            unsent_low_water: AtomicU32::new(0),
        })
    }
    #[inline]
    fn stream(&self) -> StreamInUse<'_> {
        self.streams.get()
    }
    /// Names this socket as the owner of its stream.
    fn own_stream(&self) {
        self.stream().set_owner(self.maker.owner(self.common.number()));
    }
    #[inline]
    fn phase(&self) -> StreamPhase {
        StreamPhase::of(self.phase.load(Ordering::Acquire))
    }
    fn set_phase(&self, phase: StreamPhase) {
        self.phase.store(phase as u8, Ordering::Release);
    }
    /// Returns the stack's socket.
    #[inline]
    fn socket(&self) -> &dyn StreamSocket {
        &*self.socket
    }
    #[inline]
    fn shut(&self) -> Shut {
        Shut::from_bits_truncate(self.shut.load(Ordering::Acquire))
    }
    #[inline]
    fn has_flag(&self, flag: Flags) -> bool {
        Flags::from_bits_truncate(self.flags.load(Ordering::Relaxed)).contains(flag)
    }
    /// Returns whether there is a connection, or an attempt at one.
    fn is_in_use(&self) -> bool {
        !matches!(self.phase(), StreamPhase::Free | StreamPhase::Listening)
    }
    /// Returns whether fewer bytes wait to be sent than this share of TCP_NOTSENT_LOWAT.
    #[inline]
    fn has_unsent_room(&self, share: UnsentShare) -> bool {
        match self.unsent_low_water.load(Ordering::Relaxed) {
            0 => true,
            most => {
                let unsent = u64::from(self.socket().info().notsent_bytes);
                unsent * (share as u64) < u64::from(most)
            }
        }
    }
    /// Returns whether no more bytes will come, and whether no more can be sent.
    #[inline]
    fn ends(&self, state: StreamState) -> Shut {
        let mut ends = self.shut();
        if state.contains(StreamState::RECEIVE_ENDED) {
            ends |= Shut::RECEIVE;
        }
        if state.contains(StreamState::SEND_ENDED) {
            ends |= Shut::SEND;
        }
        ends
    }
    /// Returns whether the attempt to connect has not ended.
    fn is_connecting(&self, state: StreamState) -> bool {
        let over = StreamState::CONNECTED | StreamState::RECEIVE_ENDED | StreamState::SEND_ENDED;
        matches!(self.phase(), StreamPhase::Connecting | StreamPhase::Deferred)
            && !state.intersects(over)
    }
    /// Returns the local address, with the family's form of an address that stands for all.
    fn local(&self) -> SocketAddr {
        let local = self.socket().local();
        let is_unset = local.port() == 0 && local.ip().is_unspecified();
        if is_unset { self.family.unspecified() } else { local }
    }
    /// Makes the limits of bytes follow the connection's segments, unless options set them (`tcp_wmem`).
    fn grow_send_limit(&self) {
        /// Segments of the first window (RFC 6928), and the factor by which Linux exceeds the window.
        const SEGMENTS: usize = 10;
        const FACTOR: usize = 2;
        /// Memory of a buffer beside its bytes: headers and the tail, and its description, as Linux counts them.
        const AROUND: usize = 320;
        const DESCRIPTION: usize = 256;
        if self.has_flag(Flags::SEND_BUFFER_SET) {
            return;
        }
        let (mss, window) = self.socket().send_window();
        let segment = (mss as usize + AROUND).next_power_of_two() + DESCRIPTION;
        let segments = (window as usize).max(SEGMENTS);
        let wanted = segment.saturating_mul(segments).saturating_mul(FACTOR);
        let wanted = wanted.min(SEND_SPACE[2].size());
        if wanted > self.send_limit.load(Ordering::Relaxed) {
            self.send_limit.store(wanted, Ordering::Relaxed);
            self.stream().set_send_limit(wanted);
        }
    }
    /// Returns a stream with the limits of this socket.
    fn fresh_stream(&self, wakes: Arc<SocketWakes>) -> Arc<Stream> {
        let send = self.send_limit.load(Ordering::Relaxed);
        let receive = self.receive_limit.load(Ordering::Relaxed);
        let stream = Arc::new(Stream::new(wakes, send, receive));
        if !self.has_flag(Flags::RECEIVE_BUFFER_SET) {
            stream.set_receive_limit_max(receive_limit_max());
        }
        stream.filter().follow(&self.common.filter);
        stream
    }
}

/// Returns the memory that received bytes of a stream may hold, if no option sets it.
fn receive_limit_max() -> usize {
    if MODERATES_RECEIVE.get() == 0 { 0 } else { RECEIVE_SPACE[2].size() }
}

impl Drop for InternetStream {
    /// Ends a connection that was never accepted.
    fn drop(&mut self) {
        if !*self.is_closed.get_mut() {
            self.close(interfaces::sockets::CloseKind::Abort);
        }
    }
}
