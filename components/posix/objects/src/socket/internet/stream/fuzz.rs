//! Random options of streams that have a connection: whatever they are, the socket answers, and bytes come unchanged.
//!
//! `SKERRY_FUZZ_COUNT` is the number of connections (1,000 by default), `SKERRY_FUZZ_SEED` the first seed. `./x campaign packets` uses
//! more.
use super::tests::{get, pair, put};
use crate::socket::internet::test_support::{for_each_seed, input_of, random_option, stack};
use std::vec::Vec;
use vfs::{Credentials, file::File};

const COUNT: u64 = 1000;
/// Options that are set of one connection.
const STEPS: usize = 12;

#[test]
fn random_options_of_a_stream_do_no_harm() {
    let inet = stack();
    for_each_seed(COUNT, |numbers| {
        let (client, child) = pair(&inet);
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for step in 0..STEPS {
            let one = if numbers.chance(1, 2) { &client } else { &child };
            let (option, value) = random_option(numbers);
            // Most are refused. What matters is that each is answered.
            let _ = one.set_internet_option(&Credentials::root(), option, &input_of(&value));
            let _ = one.internet_option(option, numbers.below(300));
            let data = [step as u8; 40];
            if let Ok(count) = put(&client, &data) {
                sent.extend(&data[..count]);
            }
            got.extend(get(&child, 1000).unwrap_or_default());
        }
        assert!(sent.starts_with(&got), "bytes are changed");
        client.closed();
        child.closed();
    });
}
