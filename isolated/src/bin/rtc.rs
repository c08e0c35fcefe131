//! The real-time clock's driver as an isolated component: instance 0 is the clock.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    use interfaces::{clock::ClockServer, service};
    use rt::message;

    fn main() {
        let instances: Option<_> = rtc::probe().map(|clock| ClockServer::new("rtc", clock));
        let ended = service::run(&message::service(), instances.as_slice());
        log::info!("no more calls: {ended:?}");
    }

    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}
