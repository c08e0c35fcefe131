//! The start in the process world ([`start`]).
//!
//! The service thread answers the supervisor's pings and introductions. The news thread tells the clients of successors, which
//! they call. The main thread waits for the introductions, and then starts the components and the personality.
use crate::{Component, SystemCalls, introductions::Introductions, start::personality};
use alloc::sync::Arc;
use interfaces::{introduction::IntroductionServer, service, supervisor::Services};
use rt::{
    NoMemory, message,
    thread::{self, Policy},
};

/// Policy of the threads that serve the supervisor: before ordinary programs.
const SERVICE: Policy = Policy::Fair { nice: -10 };

/// Starts `components` and the personality `name` in its process.
///
/// # Panics
/// Panics if there is nothing to run, or no memory to start. The supervisor gets the reason as the cause of the process's end.
pub fn start(name: &'static str, components: &'static [Component], system_calls: SystemCalls) {
    let introductions = Arc::new(Introductions::default());
    if serve(name, &introductions).is_err() {
        panic!("no memory for the threads that serve the supervisor");
    }
    introductions.wait_until_complete();
    let supervisor = introductions.supervisor();
    let services: Arc<dyn Services> = introductions;
    let end = personality(components, system_calls, Some(services), supervisor);
    panic!("{end}");
}

fn serve(name: &'static str, introductions: &Arc<Introductions>) -> Result<(), NoMemory> {
    let (served, told) = (introductions.clone(), introductions.clone());
    let serves = move || {
        let ended = service::run(&message::service(), &[IntroductionServer::new(name, served)]);
        log::error!("no more calls: {ended:?}");
    };
    thread::spawn("service", SERVICE, serves)?;
    thread::spawn("news", SERVICE, move || told.tell())?;
    Ok(())
}
