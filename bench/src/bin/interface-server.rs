//! Serves the interface by the server that the macro made.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    extern crate alloc;
    use alloc::sync::Arc;
    use bench::adder::{AdderServer, Sum};
    use interfaces::service;
    use rt::message;

    fn main() {
        let ended = service::run(&message::service(), &[AdderServer::new("sum", Arc::new(Sum))]);
        log::info!("no more calls: {ended:?}");
    }

    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}
