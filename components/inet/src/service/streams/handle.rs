//! [`StreamHandle`]: a program's handle of a socket.
use super::{
    control::StreamOpening,
    input::is_closing,
    options,
    socket::{LiveConnection, SocketRole, SocketState, TcpSocket},
};
use crate::service::{inet::Inet, passage::Passage};
use alloc::{sync::Arc, vec::Vec};
use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
};
use interfaces::sockets::{
    Acceptor, CloseKind, ConnectionState, Ipv4OptionList, MoreData, QuickAcknowledge, SocketError,
    SocketFamilies, SocketOwner, Stream, StreamInfo, StreamOptions, StreamSocket,
};
use tcp::{QuickAck, TcpEvents};

/// A program's handle of a socket. Its drop aborts the connection, unless the socket was closed.
pub(crate) struct StreamHandle {
    inet: Arc<Inet>,
    socket: Arc<TcpSocket>,
    is_closed: AtomicBool,
}

impl StreamHandle {
    pub(crate) fn new(inet: Arc<Inet>, socket: Arc<TcpSocket>) -> StreamHandle {
        StreamHandle { inet, socket, is_closed: AtomicBool::new(false) }
    }
    fn with<T>(&self, work: impl FnOnce(&mut SocketState, &mut Passage) -> T) -> T {
        self.inet.pass(|passage| self.socket.with(&self.inet, passage, work))
    }
    fn look<T>(&self, look: impl FnOnce(&SocketState) -> T) -> T {
        self.socket.look(&self.inet, look)
    }
    /// Starts to connect.
    fn open(&self, how: (SocketAddr, StreamOpening)) -> Result<(), SocketError> {
        self.inet.pass(|passage| {
            let opened = self.socket.with(&self.inet, passage, |state, passage| {
                state.connect(&self.inet, passage, &self.socket, how)
            })?;
            if let Some(child) = opened {
                child.arrive(&self.inet, passage);
            }
            Ok(())
        })
    }
    /// Does `work` with the connection, if there is one, and then what follows.
    fn with_live(&self, work: impl FnOnce(&mut LiveConnection, &Stream) -> TcpEvents) {
        self.with(|state, passage| {
            if let SocketRole::Live(live) = &mut state.role {
                let events = work(live, &state.stream);
                state.after(&self.inet, passage, &self.socket, events);
            }
        });
    }
}

/// Makes a stream socket; see [`interfaces::sockets::Network::open_stream`].
pub(crate) fn open(
    inet: &Arc<Inet>,
    stream: Arc<Stream>,
    families: SocketFamilies,
    owner: SocketOwner,
) -> Arc<dyn StreamSocket> {
    let state = SocketState::new(stream, families, owner);
    let socket = Arc::new(TcpSocket::new(inet.streams().number(), state));
    Arc::new(StreamHandle::new(Arc::clone(inet), socket))
}

impl StreamSocket for StreamHandle {
    fn bind(&self, address: SocketAddr) -> Result<(), SocketError> {
        self.with(|state, passage| {
            self.inet.stack().refresh(&mut passage.worker);
            state.bind(&self.inet, &passage.worker.view().configuration, address)
        })
    }
    fn local(&self) -> SocketAddr {
        self.look(|state| state.local)
    }
    fn peer(&self) -> Option<SocketAddr> {
        self.look(|state| state.peer)
    }
    fn connect(&self, peer: SocketAddr) -> Result<(), SocketError> {
        self.open((peer, StreamOpening::Plain))
    }
    fn connect_with_data(&self, peer: SocketAddr) -> Result<(), SocketError> {
        self.open((peer, StreamOpening::WithData))
    }
    fn has_fast_open_cookie(&self, peer: IpAddr) -> bool {
        let streams = self.inet.streams();
        streams.parameters.may_open_fast() && streams.cookies.get(peer).is_some()
    }
    fn disconnect(&self, stream: Arc<Stream>) {
        self.with(|state, passage| state.disconnect(&self.inet, passage, &self.socket, stream));
    }
    fn listen(&self, backlog: u32, acceptor: Arc<dyn Acceptor>) -> Result<(), SocketError> {
        self.with(|state, _| state.listen(&self.inet, &self.socket, backlog, acceptor))
    }
    fn accepted(&self) {
        if let SocketRole::Listening(listening) = &mut self.socket.state.lock().role {
            listening.listener.accept();
        }
        if self.socket.has_backlog() {
            self.with(|_, _| ());
        }
    }
    fn written(&self, more: MoreData) {
        if more == MoreData::No && self.inet.send_directly(&self.socket) {
            return;
        }
        self.with(|state, passage| {
            let (options, room) = (&state.options, state.room());
            let SocketRole::Live(live) = &mut state.role else { return };
            let counters = state.stream.counters();
            live.connection.note_read(counters.read, room);
            live.connection.write_to(counters.written);
            let is_held = more == MoreData::Soon;
            if live.is_held_by_more != is_held {
                live.is_held_by_more = is_held;
                let mut settings = *live.connection.settings();
                settings.cork = options.cork || is_held;
                live.connection.set_settings(passage.now_ns, settings);
            }
            state.after(&self.inet, passage, &self.socket, TcpEvents::empty());
        });
    }
    fn mark_urgent(&self) {
        self.with_live(|live, stream| {
            live.connection.write_to(stream.counters().written);
            live.connection.mark_urgent_byte();
            TcpEvents::empty()
        });
    }
    fn urgent_mark(&self) -> Option<u64> {
        self.look(|state| match &state.role {
            SocketRole::Live(live) => {
                let read = state.stream.counters().read;
                live.connection.urgent_mark().filter(|mark| *mark >= read)
            }
            _ => None,
        })
    }
    fn read(&self) {
        if self.inet.read_directly(&self.socket) {
            return;
        }
        self.with(|state, passage| {
            if state.note_reads(passage.now_ns) {
                state.after(&self.inet, passage, &self.socket, TcpEvents::empty());
            }
        });
    }
    fn shut_down_send(&self) {
        self.with_live(|live, stream| {
            live.connection.write_to(stream.counters().written);
            live.connection.shutdown_write()
        });
    }
    fn configure(&self, options: &StreamOptions) {
        let is_released =
            self.with(|state, passage| state.configure(&self.inet, passage, &self.socket, options));
        if is_released && !self.inet.send_directly(&self.socket) {
            self.with(|state, passage| {
                state.after(&self.inet, passage, &self.socket, TcpEvents::empty());
            });
        }
    }
    fn set_quick_ack(&self, quick: QuickAcknowledge) {
        self.with_live(|live, _| {
            live.connection.set_quick_ack(match quick {
                QuickAcknowledge::Off => QuickAck::Off,
                QuickAcknowledge::On => QuickAck::On,
            });
            TcpEvents::empty()
        });
    }
    fn info(&self) -> StreamInfo {
        let now_ns = self.inet.now_ns();
        self.look(|state| info(state, now_ns))
    }
    fn send_window(&self) -> (u32, u32) {
        self.look(|state| match &state.role {
            SocketRole::Idle => (0, 0),
            SocketRole::Listening(_) => (0, INITIAL_WINDOW),
            SocketRole::Live(live) => options::send_window(&live.connection),
        })
    }
    fn header_options(&self) -> Ipv4OptionList {
        self.look(|state| state.options.ip.header_options.unwrap_or_default())
    }
    fn take_saved_syn(&self, room: usize) -> Result<Vec<u8>, SocketError> {
        self.with(|state, _| {
            let SocketRole::Live(live) = &mut state.role else { return Ok(Vec::new()) };
            let Some(headers) = live.connection.saved_syn() else { return Ok(Vec::new()) };
            if headers.len() > room {
                return Err(SocketError::Invalid);
            }
            let headers = headers.to_vec();
            live.connection.forget_syn();
            Ok(headers)
        })
    }
    fn close(&self, kind: CloseKind) {
        if !self.is_closed.swap(true, Ordering::AcqRel) && !self.inet.is_retired() {
            self.with(|state, passage| state.close(&self.inet, passage, &self.socket, kind));
        }
    }
    fn is_closing(&self) -> bool {
        self.look(|state| match &state.role {
            SocketRole::Live(live) => is_closing(live),
            _ => false,
        })
    }
}

/// Segments of the first window (RFC 6928), and the reordering that is expected at first, as a listener tells them.
const INITIAL_WINDOW: u32 = 10;
const REORDERING: u32 = 3;

/// Returns what is known of a socket's connection.
pub(crate) fn info(state: &SocketState, now_ns: u64) -> StreamInfo {
    let rate = state.options.pacing_rate;
    let idle = StreamInfo { pacing_rate: rate, max_pacing_rate: rate, ..StreamInfo::default() };
    match &state.role {
        SocketRole::Idle => idle,
        SocketRole::Listening(listening) => StreamInfo {
            state: ConnectionState::Listen,
            // Linux tells the lengths of the queues here.
            unacked: u32::try_from(listening.listener.ready()).unwrap_or(u32::MAX),
            sacked: listening.backlog,
            snd_cwnd: INITIAL_WINDOW,
            reordering: REORDERING,
            ..idle
        },
        SocketRole::Live(live) => {
            let mtu = live.path.map_or(0, |path| path.path.mtu);
            options::info(&live.connection.info(now_ns), mtu, rate)
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.close(CloseKind::Abort);
    }
}
