//! Calls the interface by the client that the macro made: in another component, and in its own.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    extern crate alloc;
    use alloc::sync::Arc;
    use bench::{
        adder::{Adder, AdderClient, AdderHandle, Sum},
        probe,
    };
    use core::hint::black_box;
    use interfaces::call::Caller;
    use rt::message;

    fn main() {
        let client = AdderClient::new(Caller::new(message::service(), 0, None));
        probe("call of an interface", |count| calls(count, |word| client.add(word, 2, 3)));
        let object: &dyn Adder = black_box(&Sum);
        probe("call of a trait object", |count| calls(count, |word| object.add(word, 2, 3)));
        let handle: AdderHandle = black_box(Arc::new(Sum));
        probe("call of a handle", |count| calls(count, |word| handle.add(word, 2, 3)));
    }

    /// Calls `count` times; each call must be answered.
    #[inline(always)]
    fn calls(count: u64, call: impl Fn(u64) -> Option<u64>) {
        for word in 0..count {
            assert_eq!(call(word), Some(word + 5));
        }
    }

    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}
