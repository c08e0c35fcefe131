//! Clients of isolated components that lend their frames to them: disks, cards, network stacks.
use crate::clients::{Remote, RequiredComponent, connect};
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use interfaces::{
    AttachError,
    block::{Block, BlockControlClient, BlockProxy},
    call::Caller,
    nic::{Nic, NicControlClient, NicProxy},
    overdue::Check,
    sockets::{
        Network,
        remote::{
            NetworkProxy, StackControlClient, StackMessages,
            mail::{MailChannel, MailControlClient},
        },
    },
    supervisor::Services,
};

impl Remote for BlockProxy {
    fn name(&self) -> String {
        self.info().name
    }
    fn restarted(&self) -> Result<(), AttachError> {
        BlockProxy::restarted(self)
    }
    fn overdue(&self, check: &Check) -> Option<String> {
        BlockProxy::overdue(self, check)
    }
    fn close(&self) {
        BlockProxy::close(self);
    }
}

impl Remote for NicProxy {
    fn name(&self) -> String {
        self.info().name
    }
    fn restarted(&self) -> Result<(), AttachError> {
        NicProxy::restarted(self)
    }
    fn overdue(&self, check: &Check) -> Option<String> {
        NicProxy::overdue(self, check)
    }
    fn close(&self) {
        NicProxy::close(self);
    }
}

impl Remote for NetworkProxy {
    fn name(&self) -> String {
        "inet".into()
    }
    fn restarted(&self) -> Result<(), AttachError> {
        NetworkProxy::restarted(self)
    }
    fn overdue(&self, _: &Check) -> Option<String> {
        // A program waits for each request, and a server that answers no ping is ended.
        None
    }
    fn close(&self) {
        NetworkProxy::close(self);
    }
}

/// Returns the disks of component `name`, if it is isolated.
pub(crate) fn disks(services: &Arc<dyn Services>, name: &'static str) -> Vec<Arc<dyn Block>> {
    let disks = connect(services, name, BlockControlClient::INTERFACE, |caller, on_corrupt| {
        let knows = services.clone();
        BlockProxy::new(caller, on_corrupt, Box::new(move || knows.running(name)))
    });
    disks.into_iter().map(|disk| disk as Arc<dyn Block>).collect()
}

/// Returns the network interfaces of component `name`, if it is isolated.
pub(crate) fn nics(services: &Arc<dyn Services>, name: &'static str) -> Vec<Arc<dyn Nic>> {
    let nics = connect(services, name, NicControlClient::INTERFACE, |caller, on_corrupt| {
        let knows = services.clone();
        NicProxy::new(caller, on_corrupt, Box::new(move || knows.running(name)))
    });
    nics.into_iter().map(|nic| nic as Arc<dyn Nic>).collect()
}

/// Returns the network stacks of component `name`, if it is isolated. Their clients use `nics` for them.
pub(crate) fn networks(
    services: &Arc<dyn Services>,
    name: &'static str,
    nics: Vec<Arc<dyn Nic>>,
) -> Vec<Arc<dyn Network>> {
    let Some(endpoint) = services.endpoint(name) else { return Vec::new() };
    let mail = RequiredComponent::new(services, name)
        .instances(&endpoint, MailControlClient::INTERFACE)
        .into_iter()
        .next();
    let Some(mail) = mail else { return Vec::new() };
    let stacks = connect(services, name, StackControlClient::INTERFACE, |caller, on_corrupt| {
        let on_corrupt: Arc<dyn Fn() + Send + Sync> = Arc::from(on_corrupt);
        let blames = Arc::clone(&on_corrupt);
        // A request ends with its answer, or with the server.
        let channel = MailChannel::new(
            Caller::new(endpoint.clone(), mail, None),
            Box::new(move || blames()),
        )?;
        let ways = (Box::new(StackMessages::new(caller)) as _, Arc::new(channel) as _);
        NetworkProxy::new(ways, nics.clone(), Box::new(move || on_corrupt()))
    });
    stacks.into_iter().map(|stack| stack as Arc<dyn Network>).collect()
}
