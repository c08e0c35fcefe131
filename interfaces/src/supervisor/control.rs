//! The messages by which a process shows and controls components ([`SupervisorProxy`]).
//!
//! The states of all components are more than a message holds: [`SupervisorControl::look`] makes a copy of them
//! ([`encode`](crate::marshal::encode)), and its parts are fetched.
use super::{Order, OrderError, Status, Supervisor};
use crate::{
    call::Failure,
    marshal::decode,
    wire::{Bytes, Name},
};
use alloc::vec::Vec;
use interfaces_macro::interface;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static LOOK = "supervisor.look";
}

/// The greatest number of bytes in a part of the copy.
pub const STATUS_PART_BYTES: usize = 480;

impl From<Failure> for OrderError {
    fn from(_: Failure) -> OrderError {
        OrderError::Lost
    }
}

/// The supervisor, as it shows a process the components that the process may see.
#[interface(number = 11)]
pub trait SupervisorControl: Send + Sync {
    /// Carries out an order ([`Supervisor::order`]).
    fn order(&self, name: Name, order: Order) -> Result<(), OrderError>;
    /// A count that changes with every change of a component's state.
    #[idempotent]
    fn changes(&self) -> Option<u64>;
    /// Makes a copy of the components' states. Returns its length in bytes.
    #[idempotent]
    fn look(&self) -> Option<u64>;
    /// Returns the part of the copy that begins at byte `first`.
    #[idempotent]
    fn part(&self, first: u64) -> Option<Bytes<STATUS_PART_BYTES>>;
}

/// The supervisor in another world.
pub struct SupervisorProxy {
    control: SupervisorControlClient,
    /// Held while the parts of a copy are fetched.
    look: Mutex<()>,
}

impl SupervisorProxy {
    /// Makes a supervisor of which `control` is the client.
    pub fn new(control: SupervisorControlClient) -> SupervisorProxy {
        SupervisorProxy { control, look: Mutex::new(&LOOK, ()) }
    }

    fn copy(&self) -> Option<Vec<u8>> {
        let _look = self.look.lock();
        let length = self.control.look()?;
        let mut copy = Vec::new();
        while (copy.len() as u64) < length {
            let part = self.control.part(copy.len() as u64)?;
            if part.as_slice().is_empty() {
                return None;
            }
            copy.extend_from_slice(part.as_slice());
        }
        Some(copy)
    }
}

impl Supervisor for SupervisorProxy {
    fn status(&self) -> Vec<Status> {
        self.copy().and_then(|copy| decode(&copy)).unwrap_or_default()
    }
    fn order(&self, name: &str, order: Order) -> Result<(), OrderError> {
        self.control.order(Name::cut(name), order)
    }
    fn changes(&self) -> u64 {
        self.control.changes().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        call::Caller,
        marshal::encode,
        service,
        supervisor::{Ending, State},
    };
    use rt::{message::Endpoint, time::Instant};
    use std::{
        format,
        string::ToString,
        sync::{Arc, Mutex},
        thread,
    };

    struct Model {
        states: Vec<Status>,
        copy: Mutex<Vec<u8>>,
        orders: Mutex<Vec<(Name, Order)>>,
    }

    impl SupervisorControl for Model {
        fn order(&self, name: Name, order: Order) -> Result<(), OrderError> {
            self.orders.lock().unwrap().push((name, order));
            if name.as_str() == "rtc" { Ok(()) } else { Err(OrderError::Unknown) }
        }
        fn changes(&self) -> Option<u64> {
            Some(7)
        }
        fn look(&self) -> Option<u64> {
            let mut copy = self.copy.lock().unwrap();
            *copy = encode(&self.states);
            Some(copy.len() as u64)
        }
        fn part(&self, first: u64) -> Option<Bytes<STATUS_PART_BYTES>> {
            let copy = self.copy.lock().unwrap();
            Bytes::new(copy[first as usize..].chunks(STATUS_PART_BYTES).next().unwrap_or(&[]))
        }
    }

    fn status(name: &str, endings: u64) -> Status {
        let texts = |text: &str| (0..9).map(|at| format!("{text} {at}")).collect::<Vec<_>>();
        let ending = |at| Ending {
            at: Instant(at),
            cause: format!("page fault {at}"),
            registers: texts("r"),
            backtrace: texts("in"),
            trace: texts("switch"),
        };
        Status {
            name: name.to_string(),
            state: State::Waiting,
            started: Instant(11),
            restarts: endings,
            outage_ns: 12,
            memory_bytes: 13,
            memory_bytes_max: 14,
            share_percent: 15,
            threads: 16,
            cpu_ns: 17,
            calls: 18,
            refused: [("dma".to_string(), 2), ("Log".to_string(), 3)].into(),
            endings: (0..endings).map(ending).collect(),
        }
    }

    #[test]
    fn a_process_sees_and_controls_components_as_the_kernel_does() {
        let endpoint = Endpoint::new().unwrap();
        let states: Vec<Status> = [status("rtc", 8), status("uart", 0)].into();
        let (copy, orders) = (Mutex::default(), Mutex::default());
        let model = Arc::new(Model { states: states.clone(), copy, orders });
        let (serves, at) = (SupervisorControlServer::new("", model.clone()), endpoint.clone());
        let serving = thread::spawn(move || service::run(&at, &[serves]).unwrap());
        let control = SupervisorControlClient::new(Caller::new(endpoint.clone(), 0, None));
        let supervisor = SupervisorProxy::new(control);
        assert_eq!(supervisor.status(), states);
        assert_eq!(supervisor.changes(), 7);
        assert_eq!(supervisor.order("rtc", Order::Kill), Ok(()));
        assert_eq!(supervisor.order("cron", Order::Stop), Err(OrderError::Unknown));
        let orders = [(Name::cut("rtc"), Order::Kill), (Name::cut("cron"), Order::Stop)];
        assert_eq!(*model.orders.lock().unwrap(), orders);
        endpoint.signal(1);
        serving.join().unwrap();
        let encoded = encode(&states);
        assert!((0..encoded.len()).all(|cut| decode::<Vec<Status>>(&encoded[..cut]).is_none()));
    }
}
