//! The virtio disks' driver as an isolated component: instance N is disk N, its requests come through rings.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    extern crate alloc;
    use alloc::{sync::Arc, vec::Vec};
    use interfaces::{
        block::{Block, BlockControlServer, BlockService},
        service,
    };
    use rt::message;

    fn main() {
        let serve = |disk: Arc<virtio_blk::Disk>| {
            let name = disk.info().name;
            BlockControlServer::new(&name, Arc::new(BlockService::new(disk)))
        };
        let instances: Vec<_> = virtio_blk::probe().into_iter().map(serve).collect();
        let ended = service::run(&message::service(), &instances);
        log::info!("no more calls: {ended:?}");
    }

    rt::component_main!(main);
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}
