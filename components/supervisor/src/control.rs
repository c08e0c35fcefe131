//! The components that a process shows and controls ([`Controlled`]): those that it calls, and itself.
use crate::keeper::Keeper;
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::{
    marshal::encode,
    supervisor::{Order, OrderError, STATUS_PART_BYTES, Status, SupervisorControl},
    wire::{Bytes, Name},
};
use rt::{
    lock_class,
    power::Action,
    sync::{Mutex, Once},
};

lock_class! {
    static COPY = "supervisor.copy";
}

/// The components that a process shows and controls.
pub(crate) struct Controlled {
    partners: Vec<Arc<Keeper>>,
    process: Once<Weak<Keeper>>,
    /// The copy of all states that the process fetches.
    copy: Mutex<Vec<u8>>,
}

impl Controlled {
    /// Makes the list of a process that calls `partners`.
    pub(crate) fn new(partners: Vec<Arc<Keeper>>) -> Controlled {
        Controlled { partners, process: Once::new(), copy: Mutex::new(&COPY, Vec::new()) }
    }
    /// Adds the process itself.
    pub(crate) fn add(&self, process: &Arc<Keeper>) {
        self.process.get_or_init(|| Arc::downgrade(process));
    }
    /// Ends the process, which asked for `action` and may not power the machine down.
    pub(crate) fn end(&self, action: Action) {
        let order = if action == Action::Restart { Order::Restart } else { Order::Stop };
        if let Some(process) = self.process.get().and_then(Weak::upgrade)
            && let Err(error) = process.order(order)
        {
            log::error!("{} does not end: {error:?}", process.name());
        }
    }
    fn all(&self) -> impl Iterator<Item = Arc<Keeper>> {
        let process = self.process.get().and_then(Weak::upgrade);
        self.partners.iter().cloned().chain(process)
    }
}

impl SupervisorControl for Controlled {
    fn order(&self, name: Name, order: Order) -> Result<(), OrderError> {
        let keeper = self.all().find(|keeper| keeper.name() == name.as_str());
        keeper.ok_or(OrderError::Unknown)?.order(order)
    }
    fn changes(&self) -> Option<u64> {
        Some(self.all().map(|keeper| keeper.changes()).sum())
    }
    fn look(&self) -> Option<u64> {
        let states: Vec<Status> = self.all().map(|keeper| keeper.status()).collect();
        let encoded = encode(&states);
        let length = encoded.len() as u64;
        *self.copy.lock() = encoded;
        Some(length)
    }
    fn part(&self, first: u64) -> Option<Bytes<STATUS_PART_BYTES>> {
        let copy = self.copy.lock();
        let rest = copy.get(usize::try_from(first).ok()?..)?;
        Bytes::new(rest.get(..STATUS_PART_BYTES.min(rest.len()))?)
    }
}
