//! The rules for the worlds of a system's components: the worlds in which each can live, whose process it may share, and which
//! components can call each other.
use crate::{
    component::EntryPoint,
    system::{Member, System, World},
};

/// Checks the world of each component of `system`.
pub(crate) fn check(system: &System) -> Result<(), String> {
    for member in &system.members {
        match &member.world {
            World::Kernel => check_kernel(system, member)?,
            World::Process => check_process(member)?,
            World::With(host) => check_guest(system, member, host)?,
        }
    }
    Ok(())
}

/// Checks that a component can live in the kernel, and that the personality can call it there.
fn check_kernel(system: &System, member: &Member) -> Result<(), String> {
    let name = &member.name;
    if !member.component.can_live_in("kernel") {
        return Err(format!("component `{name}` is isolated only: write {name} = \"process\""));
    }
    match system.isolated_personalities().next() {
        None => Ok(()),
        Some(Member { name: host, .. }) => Err(format!(
            "component `{name}` is in the kernel, where `{host}` in its process cannot call it: write {name} = \"process\" or \
             {name} = \"{host}\""
        )),
    }
}

/// Checks that a component can have a process of its own.
fn check_process(Member { name, component, .. }: &Member) -> Result<(), String> {
    if !component.can_live_in("process") {
        return Err(format!("component `{name}` cannot be isolated: write {name} = \"kernel\""));
    }
    match component.process {
        Some(_) => Ok(()),
        None => Err(format!(
            "component `{name}` has no table `[process]`, so it has no process of its own: write {name} = \"kernel\" or the name \
             of the component whose process it shares"
        )),
    }
}

/// Checks that a component can share the process of the component `host`.
fn check_guest(system: &System, guest: &Member, host: &str) -> Result<(), String> {
    let Member { name, component, .. } = guest;
    let wrong =
        |what: &str| Err(format!("component `{name}` shares the process of `{host}`, {what}"));
    if !component.can_live_in("process") {
        return wrong(&format!("but cannot be isolated: write {name} = \"kernel\""));
    }
    if !component.is_started() {
        let entry = match component.entry {
            EntryPoint::Main => "main",
            _ => "personality",
        };
        return wrong(&format!(
            "but one whose entry is `{entry}` has its own: write {name} = \"process\""
        ));
    }
    if let Some(field) = component.own_grant() {
        return wrong(&format!("which is not granted its `{field}`: write {name} = \"process\""));
    }
    match system.members.iter().find(|member| member.name == host) {
        None => wrong(&format!("which is no component of this system: list `{host}`")),
        Some(member) if member.world != World::Process => {
            wrong(&format!("which has none: write {host} = \"process\""))
        }
        Some(member) if !member.is_personality() => {
            wrong("but only the personality's process has room for others")
        }
        Some(_) => Ok(()),
    }
}
