//! [`RemoteDatagram`]: a datagram socket whose stack is in another world.
use super::{
    super::{
        calls::{DatagramCall, SocketRequest},
        packets::put_payload,
    },
    NetworkProxy,
};
use crate::{
    marshal::Marshal,
    nic::PacketSegment,
    sockets::{
        DatagramProtocol, DatagramQueue, DatagramSocket, EndNumber, FrameSource, IpOptions,
        KeptDatagram, Membership, Payload, SentDatagram, SocketError, SocketFamilies, SocketOwner,
        copy_to_source,
    },
};
use alloc::{sync::Arc, vec::Vec};
use core::net::SocketAddr;
use rt::{PAGE_BYTES, lock_class, sync::Mutex};

lock_class! {
    static DATAGRAM = "network.remote.datagram";
}

/// Bytes of a payload that go with the request, at most; more go by frames.
const BESIDE_MAX: usize = 1024;

type Names = (SocketAddr, Option<SocketAddr>);

/// The answer to a datagram that was sent: the result, an error that still waits, and the socket's name.
type SendAnswer = (Result<(), SocketError>, Option<SocketError>, SocketAddr);

/// The state of a socket that a successor of the stack is told.
struct DatagramRecord {
    /// The stack that has the socket; 0 for none yet.
    epoch: u64,
    options: IpOptions,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    has_own_address: bool,
    has_own_port: bool,
    memberships: Vec<Membership>,
    is_closed: bool,
}

/// A datagram socket whose stack is in another world.
pub(super) struct RemoteDatagram {
    proxy: Arc<NetworkProxy>,
    number: EndNumber,
    queue: Arc<DatagramQueue>,
    protocol: DatagramProtocol,
    families: SocketFamilies,
    owner: SocketOwner,
    record: Mutex<DatagramRecord>,
}

impl RemoteDatagram {
    pub(super) fn new(
        (proxy, number): (Arc<NetworkProxy>, EndNumber),
        queue: Arc<DatagramQueue>,
        (protocol, families): (DatagramProtocol, SocketFamilies),
        owner: SocketOwner,
    ) -> RemoteDatagram {
        let local = match families {
            SocketFamilies::V4 => SocketAddr::from(([0, 0, 0, 0], 0)),
            SocketFamilies::V6 | SocketFamilies::Both => SocketAddr::from(([0u16; 8], 0)),
        };
        let record = DatagramRecord {
            epoch: 0,
            options: IpOptions::default(),
            local,
            peer: None,
            has_own_address: false,
            has_own_port: false,
            memberships: Vec::new(),
            is_closed: false,
        };
        let record = Mutex::new(&DATAGRAM, record);
        RemoteDatagram { proxy, number, queue, protocol, families, owner, record }
    }
    pub(super) fn number(&self) -> EndNumber {
        self.number
    }
    pub(super) fn owner(&self) -> SocketOwner {
        self.owner
    }
    pub(super) fn queue(&self) -> &Arc<DatagramQueue> {
        &self.queue
    }
    fn request(&self, call: DatagramCall) -> SocketRequest {
        SocketRequest::Datagram(self.number.0, call)
    }
    /// Opens the socket at the stack.
    ///
    /// # Errors
    /// Those of the stack.
    pub(super) fn open(&self) -> Result<(), SocketError> {
        let call = DatagramCall::Open(self.protocol, self.families, self.owner);
        loop {
            let epoch = self.proxy.wait_until_running()?;
            let opened = self.proxy.ask(&self.request(call.clone()), &[]);
            let Some(opened) = self.proxy.settled::<Result<(), SocketError>>(epoch, opened)? else {
                continue;
            };
            opened?;
            let mut record = self.record.lock();
            // A successor makes the sockets that have been opened: this one is opened there.
            if self.proxy.epoch() == epoch {
                record.epoch = epoch;
                return Ok(());
            }
        }
    }
    /// Makes the socket at a stack that has none.
    ///
    /// # Errors
    /// Those of the stack.
    pub(super) fn restore(&self, epoch: u64) -> Result<(), SocketError> {
        let kept = {
            let mut record = self.record.lock();
            if record.epoch == 0 {
                // The call that opens it goes on by itself.
                return Ok(());
            }
            record.epoch = epoch;
            KeptDatagram {
                protocol: self.protocol,
                families: self.families,
                owner: self.owner,
                options: record.options,
                local: record.local,
                peer: record.peer,
                has_own_address: record.has_own_address,
                has_own_port: record.has_own_port,
                memberships: record.memberships.clone(),
            }
        };
        let request = self.request(DatagramCall::Restore(kept));
        self.proxy.ask_at_once::<Result<(), SocketError>>(&request)??;
        if let Some(program) = self.queue.filter().get() {
            self.proxy.tell_filter(self.number, Some(&program));
        }
        Ok(())
    }
    /// Asks, and keeps the effect by `keep`, unless a successor was told the record without it: then it asks that one. A datagram
    /// to be sent, with its payload, follows the call.
    fn ask_and<T: Marshal>(
        &self,
        call: &DatagramCall,
        sent: Option<(&SentDatagram, &Payload)>,
        mut keep: impl FnMut(&mut DatagramRecord, &T),
    ) -> Result<T, SocketError> {
        let request = self.request(call.clone());
        let mut rest = Vec::new();
        if let Some((datagram, payload)) = sent {
            datagram.put_head(&mut rest);
            put_payload(payload, &mut rest, |_| true);
        }
        let parts: &[PacketSegment] = match sent {
            Some((_, Payload::Segments(parts))) => parts,
            Some((_, Payload::Bytes(_))) | None => &[],
        };
        loop {
            let epoch = self.proxy.wait_until_running()?;
            let handing = self.proxy.handed().hand(parts);
            let answer = self.proxy.ask(&request, &rest);
            if answer.is_err() {
                let returned = self.proxy.handed().take_payload_back(&handing, parts);
                self.proxy.lend_again(returned.into_iter());
            }
            let Some(answer) = self.proxy.settled::<T>(epoch, answer)? else { continue };
            let mut record = self.record.lock();
            if record.epoch != epoch {
                continue;
            }
            keep(&mut record, &answer);
            return Ok(answer);
        }
    }
    fn ask_names(
        &self,
        call: &DatagramCall,
        keep: impl Fn(&mut DatagramRecord),
    ) -> Result<(), SocketError> {
        let answer = self.ask_and(call, None, |record, answer: &Result<Names, SocketError>| {
            if let Ok((local, peer)) = answer {
                (record.local, record.peer) = (*local, *peer);
                keep(record);
            }
        })?;
        answer.map(drop)
    }
    fn names(&self) -> Names {
        self.ask_and(&DatagramCall::Names, None, |_, _| ()).unwrap_or_else(|_| {
            let record = self.record.lock();
            (record.local, record.peer)
        })
    }
    /// Puts a long payload into frames that the stack can read.
    fn reachable(&self, payload: Payload) -> Result<Payload, SocketError> {
        let frames = self.proxy.frames();
        match payload {
            Payload::Bytes(bytes) if bytes.len() <= BESIDE_MAX => Ok(Payload::Bytes(bytes)),
            Payload::Bytes(bytes) => {
                let mut made = Vec::new();
                let count = bytes.len().div_ceil(PAGE_BYTES);
                frames.allocate(count, &mut made).map_err(|_| SocketError::NoMemory)?;
                let parts = bytes.chunks(PAGE_BYTES).zip(made).map(|(part, frame)| {
                    let length = frame.write(0, part) as u32;
                    PacketSegment { frame, offset: 0, length }
                });
                Ok(Payload::Segments(parts.collect()))
            }
            Payload::Segments(mut parts) => {
                copy_to_source(&**frames, &mut parts).map_err(|_| SocketError::NoMemory)?;
                Ok(Payload::Segments(parts))
            }
        }
    }
}

/// A program's handle of a [`RemoteDatagram`]. Its drop closes the socket.
pub(super) struct RemoteDatagramHandle(pub(super) Arc<RemoteDatagram>);

impl DatagramSocket for RemoteDatagramHandle {
    fn bind(&self, address: SocketAddr) -> Result<(), SocketError> {
        self.0.ask_names(&DatagramCall::Bind(address), |record| {
            record.has_own_address = !address.ip().is_unspecified();
            record.has_own_port = address.port() != 0;
        })
    }
    fn local(&self) -> SocketAddr {
        self.0.names().0
    }
    fn peer(&self) -> Option<SocketAddr> {
        self.0.names().1
    }
    fn connect(&self, peer: Option<SocketAddr>) -> Result<(), SocketError> {
        self.0.ask_names(&DatagramCall::Connect(peer), |_| ())
    }
    fn send(&self, datagram: SentDatagram) -> Result<(), SocketError> {
        let this = &*self.0;
        let payload = this.reachable(datagram.payload)?;
        let nothing = Payload::Bytes([].into());
        let datagram = SentDatagram { payload: nothing, ..datagram };
        let error = this.queue.take_error();
        let keep = |record: &mut DatagramRecord, answer: &SendAnswer| record.local = answer.2;
        let answer = this.ask_and(&DatagramCall::Send(error), Some((&datagram, &payload)), keep);
        match answer {
            Ok((result, left, _)) => {
                if left.is_some() {
                    this.queue.lend_error(left);
                }
                result
            }
            Err(lost) => {
                this.queue.lend_error(error);
                Err(lost)
            }
        }
    }
    fn configure(&self, options: &IpOptions) {
        let keep = |record: &mut DatagramRecord, (): &()| record.options = *options;
        let _ = self.0.ask_and(&DatagramCall::Configure(*options), None, keep);
    }
    fn join(&self, membership: Membership) -> Result<(), SocketError> {
        let keep = |record: &mut DatagramRecord, answer: &Result<(), SocketError>| {
            if answer.is_ok() {
                record.memberships.push(membership);
            }
        };
        self.0.ask_and(&DatagramCall::Join(membership), None, keep)?
    }
    fn leave(&self, membership: Membership) -> Result<(), SocketError> {
        let keep = |record: &mut DatagramRecord, answer: &Result<(), SocketError>| {
            let mut all = record.memberships.iter();
            if answer.is_ok()
                && let Some(place) = all.position(|one| *one == membership)
            {
                record.memberships.remove(place);
            }
        };
        self.0.ask_and(&DatagramCall::Leave(membership), None, keep)?
    }
    fn path_mtu(&self) -> Option<u32> {
        self.0.ask_and(&DatagramCall::PathMtu, None, |_, _| ()).unwrap_or(None)
    }
    fn close(&self) {
        if core::mem::replace(&mut self.0.record.lock().is_closed, true) {
            return;
        }
        // Nothing of a closed socket has to survive.
        self.0.proxy.forget_queue(self.0.number);
        let proxy = &self.0.proxy;
        let Ok(epoch) = proxy.wait_until_running() else { return };
        // A successor that was told nothing of the socket has none to close.
        if self.0.record.lock().epoch == epoch {
            let request = self.0.request(DatagramCall::Close);
            let _ = proxy.settled::<()>(epoch, proxy.ask(&request, &[]));
        }
    }
}

impl Drop for RemoteDatagramHandle {
    fn drop(&mut self) {
        self.close();
    }
}
