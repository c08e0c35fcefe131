//! The server's side of the mail ([`super`]).
use super::{
    Exchange, MailControl, MailError, NO_TICKET, PLACE_BYTES, PLACES, REGION_BYTES, REQUEST_MAX,
    place_of, read, write,
};
use crate::{AttachError, sockets::remote::ControlHandler};
use alloc::{sync::Arc, vec::Vec};
use rt::{lock_class, memory::Region, sync::Mutex};

lock_class! {
    static ATTACHED = "mail.attached";
    static PLACE = "mail.place";
}

/// The server's part of a place.
#[derive(Default)]
struct PlaceState {
    /// The pieces of a request, and its ticket.
    request: Vec<u8>,
    asked: u64,
    /// The last answer, and its ticket.
    answer: Vec<u8>,
    answered: u64,
}

impl PlaceState {
    /// Returns the first `from` bytes of the request with that ticket.
    fn request_to(&mut self, ticket: u64, from: usize) -> Option<&mut Vec<u8>> {
        if self.asked != ticket {
            (self.request, self.asked) = (Vec::new(), ticket);
        }
        self.request.truncate(from);
        (self.request.len() == from).then_some(&mut self.request)
    }
}

/// Gives the requests of one client, which come through a region, to a handler.
///
/// Locks: `mail.place` over the handler > those of the handler; `mail.attached` for a moment.
pub struct MailService {
    handler: Arc<dyn ControlHandler>,
    /// The region and its epoch.
    attached: Mutex<Option<(Region, u64)>>,
    places: [Mutex<PlaceState>; PLACES],
}

impl MailService {
    /// Makes a service that has no region yet.
    pub fn new(handler: Arc<dyn ControlHandler>) -> MailService {
        let places = core::array::from_fn(|_| Mutex::new(&PLACE, PlaceState::default()));
        MailService { handler, attached: Mutex::new(&ATTACHED, None), places }
    }
    /// Returns the region and the state of the place of an exchange.
    fn place(&self, exchange: Exchange) -> Result<(Region, &Mutex<PlaceState>), MailError> {
        let attached = self.attached.lock().clone();
        let (region, _) =
            attached.filter(|(_, epoch)| *epoch == exchange.epoch).ok_or(MailError::Detached)?;
        let state = self.places.get(exchange.place).ok_or(MailError::Malformed)?;
        Ok((region, state))
    }
}

impl MailControl for MailService {
    fn attach(&self, region: Region, epoch: u64) -> Result<(), AttachError> {
        if region.words().len() * size_of::<u64>() < REGION_BYTES {
            return Err(AttachError::TooSmall);
        }
        *self.attached.lock() = Some((region, epoch));
        for place in &self.places {
            *place.lock() = PlaceState::default();
        }
        Ok(())
    }

    fn post(&self, exchange: Exchange, from: usize) -> Result<(), MailError> {
        let (region, state) = self.place(exchange)?;
        if from > REQUEST_MAX - PLACE_BYTES {
            return Err(MailError::Malformed);
        }
        let place = place_of(&region, exchange.place).ok_or(MailError::Malformed)?;
        let mut state = state.lock();
        let request = state.request_to(exchange.ticket, from).ok_or(MailError::Unknown)?;
        read(place, PLACE_BYTES, request);
        Ok(())
    }

    fn call(&self, exchange: Exchange, length: usize) -> Result<usize, MailError> {
        let (region, state) = self.place(exchange)?;
        if length > REQUEST_MAX || exchange.ticket == NO_TICKET {
            return Err(MailError::Malformed);
        }
        let place = place_of(&region, exchange.place).ok_or(MailError::Malformed)?;
        let state = &mut *state.lock();
        if state.answered != exchange.ticket {
            let pieces = length.saturating_sub(1) / PLACE_BYTES * PLACE_BYTES;
            let request = state.request_to(exchange.ticket, pieces).ok_or(MailError::Unknown)?;
            read(place, length - pieces, request);
            let request = core::mem::take(request);
            (state.asked, state.answer) = (NO_TICKET, Vec::new());
            self.handler.handle(&request, &mut state.answer);
            state.answered = exchange.ticket;
        }
        write(place, state.answer.get(..PLACE_BYTES).unwrap_or(&state.answer));
        Ok(state.answer.len())
    }

    fn fetch(&self, exchange: Exchange, from: usize) -> Result<usize, MailError> {
        let (region, state) = self.place(exchange)?;
        let place = place_of(&region, exchange.place).ok_or(MailError::Malformed)?;
        let state = &mut *state.lock();
        if exchange.ticket == NO_TICKET {
            *state = PlaceState::default();
            return Ok(0);
        }
        if state.answered != exchange.ticket {
            return Err(MailError::Unknown);
        }
        let rest = state.answer.get(from..).ok_or(MailError::Malformed)?;
        write(place, rest.get(..PLACE_BYTES).unwrap_or(rest));
        Ok(state.answer.len())
    }
}
