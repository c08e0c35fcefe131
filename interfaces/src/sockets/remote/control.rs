//! The messages by which a stack gets its rings, cards and pools of frames. Requests go by [`super::mail`].
use crate::{
    AttachError,
    nic::{NicDescription, NicInfo},
};
use interfaces_macro::interface;
use rt::memory::Region;

/// A network stack whose sockets, bytes and cards its client keeps.
#[interface(number = 7)]
pub trait StackControl: Send + Sync {
    /// Describes the card of that number, before the rings are attached.
    #[idempotent]
    fn add_card(&self, number: usize, description: NicDescription) -> Result<(), AttachError>;
    /// Exchanges records by the rings in `rings`, which are new. A stack takes rings once in its life.
    fn attach(&self, rings: Region) -> Result<(), AttachError>;
    /// Reads the frames of a pool from now on, of which the first has the number `first`.
    fn add_pool(&self, pool: Region, first: u32) -> Result<(), AttachError>;
}

mod client {
    use super::*;
    use crate::{call::Caller, sockets::remote::StackServer};
    use rt::memory::FrameId;

    /// The messages to a stack in a component.
    pub struct StackMessages(StackControlClient);

    impl StackMessages {
        /// Calls by `caller`.
        pub fn new(caller: Caller) -> StackMessages {
            StackMessages(StackControlClient::new(caller))
        }
    }

    impl StackServer for StackMessages {
        fn attach(&self, rings: Region, cards: &[NicInfo]) -> Result<(), AttachError> {
            for (number, info) in cards.iter().enumerate() {
                self.0.add_card(number, NicDescription::of(info))?;
            }
            self.0.attach(rings)
        }
        fn add_pool(&self, pool: Region, first: FrameId) -> Result<(), AttachError> {
            self.0.add_pool(pool, first.0)
        }
    }
}

#[cfg(any(not(target_os = "none"), skerry_process))]
mod server {
    use super::*;
    use crate::sockets::remote::NetworkService;
    use alloc::{sync::Arc, vec::Vec};
    use rt::{
        lock_class,
        memory::{FrameId, attach_pool},
        sync::Mutex,
    };

    lock_class! {
        static CARDS = "network.service.cards";
    }

    /// Serves [`StackControl`] for a stack.
    pub struct StackService {
        network: Arc<NetworkService>,
        cards: Mutex<Vec<NicInfo>>,
    }

    impl StackService {
        /// Makes the service for `network`.
        pub fn new(network: Arc<NetworkService>) -> StackService {
            StackService { network, cards: Mutex::new(&CARDS, Vec::new()) }
        }
    }

    impl StackControl for StackService {
        fn add_card(&self, number: usize, description: NicDescription) -> Result<(), AttachError> {
            let info = description.info().ok_or(AttachError::Senseless)?;
            let mut cards = self.cards.lock();
            if number > cards.len() {
                return Err(AttachError::Senseless);
            }
            // A message that was lost is repeated.
            cards.truncate(number);
            cards.push(info);
            Ok(())
        }
        fn attach(&self, rings: Region) -> Result<(), AttachError> {
            let cards = core::mem::take(&mut *self.cards.lock());
            self.network.attach(rings, cards)
        }
        fn add_pool(&self, pool: Region, first: u32) -> Result<(), AttachError> {
            Ok(attach_pool(pool, FrameId(first))?)
        }
    }
}

pub use client::StackMessages;
#[cfg(any(not(target_os = "none"), skerry_process))]
pub use server::StackService;
