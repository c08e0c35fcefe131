//! The virtio consoles' driver, some of whose lives end early ([`failing`]), but before they touch the device, because QEMU
//! discards input that the host was about to give when a console is reset.
#![cfg(all(target_os = "none", skerry_process))]
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
use alloc::{sync::Arc, vec::Vec};
use failing::may_fail;
use interfaces::{
    service,
    terminal::{Port, PortControlServer, PortService},
};
use rt::message::{self, Message};

/// Age of the system before which lives of the driver end early; the driver waits for the disks' driver before.
const SURELY_NS: u64 = 1_000_000_000;

/// The component's main function.
pub fn main() {
    may_fail("it finds its consoles", SURELY_NS);
    let consoles = virtio_console::probe();
    let ports = consoles.iter().flat_map(|console| console.ports());
    let serve = |port: Arc<virtio_console::ConsolePort>| {
        let name = port.name();
        PortControlServer::new(&name, Arc::new(PortService::new(port)))
    };
    let instances: Vec<_> = ports.into_iter().map(serve).collect();
    let endpoint = message::service();
    let mut message = Message::new(0);
    let mut received = endpoint.receive(&mut message, None);
    loop {
        if received.is_err() {
            received = endpoint.receive(&mut message, None);
            continue;
        }
        service::respond(&instances, &mut message);
        received = endpoint.reply_and_receive(&mut message, None);
    }
}
