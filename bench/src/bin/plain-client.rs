//! Calls the interface by hand-written messages: in another component, and between threads of its
//! own.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    use bench::{adder::Sum, plain, probe};
    use rt::{message::Endpoint, thread};

    fn main() {
        let service = rt::message::service();
        probe("call by hand", |count| calls(&service, count));
        let Ok(own) = Endpoint::new() else { return };
        let serving = own.clone();
        let thread = thread::spawn("server", thread::Policy::default(), move || {
            let ended = plain::serve(&serving, &[Sum]);
            log::info!("no more calls: {ended:?}");
        });
        if thread.is_ok() {
            probe("call by hand between threads", |count| calls(&own, count));
        }
        panic!("done");
    }

    /// Calls `count` times; each call must be answered.
    fn calls(endpoint: &Endpoint, count: u64) {
        for word in 0..count {
            assert_eq!(plain::add(endpoint, 0, [word, 2, 3]), Some(word + 5));
        }
    }

    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}
