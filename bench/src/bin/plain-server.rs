//! Serves the interface by hand-written messages.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    use bench::adder::Sum;

    fn main() {
        let ended = bench::plain::serve(&rt::message::service(), &[Sum]);
        log::info!("no more calls: {ended:?}");
    }

    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}
