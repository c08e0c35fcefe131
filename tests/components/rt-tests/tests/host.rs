//! The tests of every world, on the host.
#![cfg(not(target_os = "none"))]

#[test]
fn what_holds_in_every_world_holds_on_the_host() {
    for (name, test) in rt_tests::EVERYWHERE.iter().copied().flatten() {
        println!("{name}");
        test();
    }
}
