//! [`Offer`]: an instance of an interface that a component offers to its system, in any world.
//!
//! A component's crate has a function `start` that returns its offers. The kernel of a system takes them directly; in the
//! process world [`serve`] answers messages for each of them.
use crate::{
    audit_log::AuditLog,
    block::Block,
    clock::Clock,
    entropy::Entropy,
    file_system::{FileSystem, FsError},
    monitor::Monitor,
    nic::Nic,
    sockets::{Network, ResumableNetwork},
    terminal::Resumable,
};
use alloc::{sync::Arc, vec::Vec};

/// Makes a mounted file system of one type from a disk (if the type has one) and mount options.
pub type MakeFileSystem = fn(Option<Arc<dyn Block>>, &[u8]) -> Result<Arc<dyn FileSystem>, FsError>;

/// An instance of an interface.
#[derive(Clone)]
pub enum Offer {
    /// A disk.
    Disk(Arc<dyn Block>),
    /// A terminal's or a session's stream of bytes.
    Port(Arc<dyn Resumable>),
    /// A clock.
    Clock(Arc<dyn Clock>),
    /// A source of entropy.
    Entropy(Arc<dyn Entropy>),
    /// A network interface.
    Nic(Arc<dyn Nic>),
    /// A network stack in the kernel, or the client of one.
    Network(Arc<dyn Network>),
    /// A network stack that is served to its client.
    Stack(Arc<dyn ResumableNetwork>),
    /// A reference monitor. It has no server: it lives in the kernel.
    Monitor(Arc<dyn Monitor>),
    /// A writer of audit records.
    AuditLog(Arc<dyn AuditLog>),
    /// A type of file system, by the name that mount(2) takes. It has no server: such a component lives in the kernel.
    FileSystem(&'static str, MakeFileSystem),
}

/// The function that starts a component.
pub type Start = fn() -> Vec<Offer>;

/// The function that starts a component of the kernel world which uses others: it is given their offers of the interfaces that
/// it uses.
pub type StartUser = fn(Vec<Offer>) -> Vec<Offer>;

#[cfg(all(target_os = "none", skerry_process))]
mod server {
    use super::{Arc, Offer, Vec};
    use crate::{
        audit_log::AuditLogServer,
        block::{BlockControlServer, BlockService},
        clock::ClockServer,
        entropy::EntropyServer,
        nic::{NicControlServer, NicService},
        service::{self, Serve},
        sockets::remote::{
            NetworkService, StackControlServer, StackService,
            mail::{MailControlServer, MailService},
        },
        terminal::{PortControlServer, PortService},
    };
    use alloc::boxed::Box;
    use rt::message;

    /// Makes the servers of `offer`. The name of one is that of the instance, or the component's name `name` if the instance has none.
    fn servers(name: &str, offer: Offer) -> Vec<Box<dyn Serve>> {
        let one: Box<dyn Serve> = match offer {
            Offer::Disk(disk) => {
                let name = disk.info().name;
                Box::new(BlockControlServer::new(&name, Arc::new(BlockService::new(disk))))
            }
            Offer::Port(port) => {
                let name = port.name();
                Box::new(PortControlServer::new(&name, Arc::new(PortService::new(port))))
            }
            Offer::AuditLog(log) => Box::new(AuditLogServer::new(name, log)),
            Offer::Clock(clock) => Box::new(ClockServer::new(name, clock)),
            Offer::Entropy(source) => Box::new(EntropyServer::new(name, source)),
            Offer::Nic(nic) => {
                let name = nic.info().name;
                Box::new(NicControlServer::new(&name, Arc::new(NicService::new(nic))))
            }
            Offer::Stack(stack) => {
                let network = NetworkService::new(stack);
                let mail = Arc::new(MailService::new(network.handler()));
                let control = Arc::new(StackService::new(network));
                return Vec::from([
                    Box::new(StackControlServer::new(name, control)) as _,
                    Box::new(MailControlServer::new(name, mail)) as _,
                ]);
            }
            Offer::Network(_) => {
                log::error!("{name} is not served: it is a stack of the kernel's, or a client");
                return Vec::new();
            }
            Offer::Monitor(_) => {
                log::error!("{name} is not served: a monitor lives in the kernel");
                return Vec::new();
            }
            Offer::FileSystem(kind, _) => {
                log::error!("{kind} is not served: file systems live in the kernel");
                return Vec::new();
            }
        };
        Vec::from([one])
    }

    /// Serves `offers` of the component `name`, each under its index, until the supervisor ends the component.
    pub fn serve(name: &str, offers: Vec<Offer>) {
        let instances: Vec<_> = offers.into_iter().flat_map(|offer| servers(name, offer)).collect();
        let ended = service::run(&message::service(), &instances);
        log::info!("no more calls: {ended:?}");
    }
}

#[cfg(all(target_os = "none", skerry_process))]
pub use server::serve;
