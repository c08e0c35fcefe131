//! The client's side of taps ([`super`]).
use super::{FRAME_MAX, SetAnswer, TapNews, TapRequest, TapSettings};
use crate::{
    call::{Again, Failure},
    marshal::Marshal,
    sockets::{
        FrameTap, LinkMembership, LinkTap, LinkTaps, SeenFrame, SentFrame, SocketError, TapBinding,
        remote::{ControlChannel, ask, subject},
    },
};
use alloc::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU64, Ordering};
use labels::SecrecyId;
use rt::{
    lock_class,
    ring::Corrupt,
    sync::{Mutex, RwLock},
};

lock_class! {
    static ALL = "tap.all";
    static SETTINGS = "tap.settings";
}

/// A tap in the table.
struct ListedTap {
    /// The one that sees the frames. The thread that brings them must not be the one that ends the tap, so it is held here.
    sees: Arc<dyn FrameTap>,
    tap: Weak<RemoteTap>,
}

/// The part that all taps share.
struct TapTable {
    channel: Arc<dyn ControlChannel>,
    /// The number of the last tap.
    last: AtomicU64,
    taps: RwLock<BTreeMap<u64, ListedTap>>,
}

impl TapTable {
    fn ask<T: Marshal>(&self, request: &TapRequest, again: Again) -> Result<T, Failure> {
        ask(&*self.channel, subject::TAPS, request, again)
    }
}

/// The taps of a stack in another world.
///
/// Locks: `tap.settings`, over the messages that change a tap, so that they reach the server in the order of the changes;
/// `tap.all` for a moment.
pub struct RemoteTaps(Arc<TapTable>);

impl RemoteTaps {
    /// Makes the client of the taps at the other end of `channel`.
    pub fn new(channel: Arc<dyn ControlChannel>) -> RemoteTaps {
        let taps = RwLock::new(&ALL, BTreeMap::new());
        RemoteTaps(Arc::new(TapTable { channel, last: AtomicU64::new(0), taps }))
    }

    /// Gives a tap what the server posted for it. News of a tap that was closed are ignored. May be called by several threads; the
    /// news of a tap in their order.
    ///
    /// # Errors
    /// [`Corrupt`]: the bytes are no news.
    pub fn heard(&self, bytes: &[u8]) -> Result<(), Corrupt> {
        let mut rest = bytes;
        let (tap, news) = Marshal::take(&mut rest).ok_or(Corrupt)?;
        let sees = self.0.taps.read().get(&tap).map(|listed| listed.sees.clone());
        match news {
            TapNews::Failed(error) if rest.is_empty() => {
                if let Some(sees) = sees {
                    sees.failed(error);
                }
            }
            TapNews::Frame(head) if head.link_length <= rest.len() && rest.len() <= FRAME_MAX => {
                let frame = SeenFrame {
                    interface: head.interface,
                    hardware: head.hardware,
                    kind: head.kind,
                    protocol: head.protocol,
                    source: head.source,
                    link_length: head.link_length,
                    checksum: head.checksum,
                    at_ns: head.at_ns,
                    bytes: &rest,
                };
                if let Some(sees) = sees {
                    sees.see(&frame);
                }
            }
            TapNews::Failed(_) | TapNews::Frame(_) => return Err(Corrupt),
        }
        Ok(())
    }

    /// Opens all taps at a successor of the stack, with their settings. A tap whose binding it refuses is told of that.
    pub fn restarted(&self) {
        let taps: Vec<_> =
            self.0.taps.read().values().filter_map(|listed| listed.tap.upgrade()).collect();
        for tap in taps {
            let settings = tap.settings.lock();
            if settings.is_closed {
                continue;
            }
            if let Err(error) = tap.set(&settings.wanted) {
                tap.sees.failed(error);
            }
        }
    }
}

impl LinkTaps for RemoteTaps {
    fn open(&self, sees: Arc<dyn FrameTap>, _: SecrecyId) -> Arc<dyn LinkTap> {
        let number = self.0.last.fetch_add(1, Ordering::Relaxed) + 1;
        let wanted = TapSettings {
            tap: number,
            binding: TapBinding::default(),
            binds: false,
            memberships: Vec::new(),
        };
        let settings = Mutex::new(&SETTINGS, ClientSettings { wanted, is_closed: false });
        let tap =
            Arc::new(RemoteTap { table: self.0.clone(), number, sees: sees.clone(), settings });
        let listed = ListedTap { sees, tap: Arc::downgrade(&tap) };
        self.0.taps.write().insert(number, listed);
        tap
    }
}

/// The settings of a tap, as its client made them.
struct ClientSettings {
    wanted: TapSettings,
    is_closed: bool,
}

/// A tap of a stack in another world.
struct RemoteTap {
    table: Arc<TapTable>,
    number: u64,
    sees: Arc<dyn FrameTap>,
    settings: Mutex<ClientSettings>,
}

impl RemoteTap {
    /// Tells the server the settings.
    fn set(&self, settings: &TapSettings) -> Result<(), SocketError> {
        let request = TapRequest::Set(settings.clone());
        let answer: Result<SetAnswer, _> = self.table.ask(&request, Again::OnRestart);
        let SetAnswer { result, failed } = answer.map_err(|_| SocketError::NetworkDown)?;
        if let Some(error) = failed {
            self.sees.failed(error);
        }
        result
    }

    /// Changes the settings, here and at the server, or nowhere.
    fn change(&self, change: impl FnOnce(&mut TapSettings)) -> Result<(), SocketError> {
        let mut settings = self.settings.lock();
        if settings.is_closed {
            return Err(SocketError::NetworkDown);
        }
        let mut wanted = settings.wanted.clone();
        change(&mut wanted);
        self.set(&wanted)?;
        settings.wanted = TapSettings { binds: false, ..wanted };
        Ok(())
    }
}

impl LinkTap for RemoteTap {
    fn bind(&self, binding: TapBinding) -> Result<(), SocketError> {
        self.change(|wanted| (wanted.binding, wanted.binds) = (binding, true))
    }
    fn send(&self, frame: SentFrame) -> Result<(), SocketError> {
        let request = TapRequest::Send(self.number, frame);
        // A frame whose stack died is lost, as in a queue that is emptied. Repeated, it might be sent twice.
        let send = || {
            let sent: Result<Option<Result<(), SocketError>>, _> =
                self.table.ask(&request, Again::Never);
            sent.map_err(|_| SocketError::NoMemory)
        };
        if let Some(result) = send()? {
            return result;
        }
        // A successor does not know the tap yet.
        self.change(|_| {})?;
        send()?.unwrap_or(Err(SocketError::NetworkDown))
    }
    fn join(&self, interface: u32, membership: LinkMembership) -> Result<(), SocketError> {
        self.change(|wanted| wanted.memberships.push((interface, membership)))
    }
    fn leave(&self, interface: u32, membership: LinkMembership) {
        let mut settings = self.settings.lock();
        let memberships = &mut settings.wanted.memberships;
        let place = memberships.iter().position(|one| *one == (interface, membership));
        if let Some(place) = place {
            memberships.swap_remove(place);
            // A server that is gone has no memberships.
            let _ = self.set(&settings.wanted);
        }
    }
    fn close(&self) {
        let mut settings = self.settings.lock();
        if core::mem::replace(&mut settings.is_closed, true) {
            return;
        }
        let listed = self.table.taps.write().remove(&self.number);
        // A server that is gone has no tap.
        let _ = self.table.ask::<bool>(&TapRequest::Close(self.number), Again::OnRestart);
        drop(settings);
        drop(listed);
    }
}

impl Drop for RemoteTap {
    fn drop(&mut self) {
        self.close();
    }
}
