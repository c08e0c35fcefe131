//! The virtio consoles' driver as an isolated component: instance N is port N, its bytes come through rings.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    extern crate alloc;
    use alloc::{sync::Arc, vec::Vec};
    use interfaces::{
        service,
        terminal::{Port, PortControlServer, PortService},
    };
    use rt::message;

    fn main() {
        let consoles = virtio_console::probe();
        let ports = consoles.iter().flat_map(|console| console.ports());
        let serve = |port: Arc<virtio_console::ConsolePort>| {
            let name = port.name();
            PortControlServer::new(&name, Arc::new(PortService::new(port)))
        };
        let instances: Vec<_> = ports.into_iter().map(serve).collect();
        let ended = service::run(&message::service(), &instances);
        log::info!("no more calls: {ended:?}");
    }

    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}
