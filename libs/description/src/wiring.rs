//! Generates the programs that connect components: the kernel of a system, and the program of an isolated
//! component.
use crate::{
    component::{Component, EntryPoint, Process},
    known,
    parts::{self, Priority},
    system::{Member, System, World},
};
use calls::Call;
use std::{collections::BTreeSet, fmt::Write, path::Path};
use toml::Spanned;

const NS_PER_MS: u64 = 1_000_000;

impl System {
    /// Returns the source of the kernel: a static `image::System`. `archive` is the path of the programs of the
    /// isolated components.
    pub fn kernel(&self, archive: &Path) -> String {
        let calls = parts::system_calls(&self.system_calls).unwrap_or("Anywhere");
        let parameters: Vec<_> =
            self.in_world(World::Kernel).map(Member::kernel_parameters).collect();
        let parameters = parameters.join(" ");
        let mut text = format!(
            "//! The kernel of the system `{name}`, written from its description.\n#![no_std]\n#![no_main]\n\n\
             static SYSTEM: image::System = image::System {{\n\
             \x20   name: {name:?},\n\
             \x20   system_calls: image::SystemCalls::{calls},\n\
             \x20   parameters: {parameters:?},\n\
             \x20   components: &[\n",
            name = self.name,
            parameters = parameters.trim(),
        );
        self.members.iter().for_each(|member| text.push_str(&line(member)));
        text.push_str("    ],\n    plans: &[\n");
        for member in self.in_world(World::Process) {
            if let Some(process) = &member.component.process {
                text.push_str(&plan(member, process.get_ref()));
            }
        }
        let _ = writeln!(text, "    ],\n    archive: include_bytes!({archive:?}),\n}};");
        text.push_str("image::run!(SYSTEM);\n");
        text
    }
}

/// Returns the source of the program of `member` in the process world.
pub fn program(member: &Member) -> String {
    let (name, path) = (&member.name, member.crate_name());
    let main = match member.component.entry {
        EntryPoint::Main => format!("rt::component_main!({path}::main);\n"),
        EntryPoint::Start | EntryPoint::User | EntryPoint::Personality => format!(
            "fn main() {{\n    interfaces::offer::serve({name:?}, {path}::start());\n}}\nrt::component_main!(main);\n"
        ),
    };
    format!(
        "//! The isolated component `{name}`, written from its description.\n\
         #![no_std]\n#![no_main]\n\n{main}"
    )
}

impl Member {
    /// Returns the package of the component's crate.
    pub fn package(&self) -> &str {
        self.component.package.as_ref().map_or(&self.name, |package| package.get_ref())
    }
    /// Returns the Rust name of the component's crate.
    pub fn crate_name(&self) -> String {
        self.package().replace('-', "_")
    }
    /// Returns its parameters in the kernel world.
    pub(crate) fn kernel_parameters(&self) -> &str {
        let parameters = self.component.kernel.parameters.as_ref();
        parameters.map_or("", |parameters| parameters.get_ref().as_str())
    }
}

fn texts(list: &[Spanned<String>]) -> Vec<&str> {
    list.iter().map(|one| one.get_ref().as_str()).collect()
}

fn ports(component: &Component) -> Vec<(u16, u16)> {
    component.ports.iter().filter_map(|range| parts::ports(range.get_ref())).collect()
}

fn interrupts(component: &Component) -> Vec<u32> {
    component.interrupts.iter().map(|line| *line.get_ref()).collect()
}

/// Returns the virtio device types that the component drives.
fn devices(component: &Component) -> Vec<u32> {
    let kind = |wanted: &Spanned<String>| {
        known::DEVICES.iter().find(|(name, _)| name == wanted.get_ref()).map(|(_, kind)| *kind)
    };
    component.devices.iter().filter_map(kind).collect()
}

fn line(member: &Member) -> String {
    let Member { name, component, .. } = member;
    let world = match (member.world, component.entry) {
        (World::Process, _) => "image::ComponentWorld::Process".to_owned(),
        (World::Kernel, EntryPoint::Start) => {
            format!("image::ComponentWorld::Kernel(Some({}::start))", member.crate_name())
        }
        (World::Kernel, EntryPoint::User) => {
            format!("image::ComponentWorld::KernelUser({}::start)", member.crate_name())
        }
        (World::Kernel, EntryPoint::Main | EntryPoint::Personality) => {
            "image::ComponentWorld::Kernel(None)".to_owned()
        }
    };
    format!(
        "        image::Component {{ name: {name:?}, world: {world}, implements: &{:?}, devices: &{:?}, ports: &{:?}, interrupts: &{:?}, uses: &{:?} }},\n",
        texts(&component.implements),
        devices(component),
        ports(component),
        interrupts(component),
        component.used().collect::<Vec<_>>(),
    )
}

/// Returns the numbers of the calls that a component may make.
pub(crate) fn calls(process: &Process) -> BTreeSet<u64> {
    let names = process.calls.iter();
    let calls: Vec<Call> =
        names.filter_map(|name| known::calls_of(name.get_ref())).flatten().collect();
    calls.into_iter().map(|call| call as u64).collect()
}

fn plan(member: &Member, process: &Process) -> String {
    let Member { name, component, .. } = member;
    let devices = devices(component);
    let devices =
        devices.iter().map(|kind| format!("image::supervisor::DeviceKind::Virtio({kind})"));
    let policy = match parts::priority(component.priority.get_ref()) {
        Some(Priority::Fifo(priority)) => format!("Fifo({priority})"),
        Some(Priority::Fair(nice)) => format!("Fair {{ nice: {nice} }}"),
        None => "Fair { nice: 0 }".to_owned(),
    };
    let restarts = if process.restart.get_ref() == "never" { 0 } else { process.restarts };
    let mut text = format!("        image::supervisor::Plan {{ name: {name:?},");
    let calls: Vec<u64> = calls(process).into_iter().collect();
    let _ = write!(
        text,
        " parameters: {:?}, calls: &{calls:?}, partners: &[], devices: &[{}], ports: &{:?}, interrupts: &{:?}, can_use_dma: {}, memory_bytes: {}, memory_percent: 0, kept_bytes: {}, vectors: {}, log_lines: ({}, {}), threads: {}, device_memory_bytes: {}, device_threads: {}, devices_max: usize::MAX, policy: image::Policy::{policy}, share_percent: {},",
        process.parameters,
        devices.collect::<Vec<_>>().join(", "),
        ports(component),
        interrupts(component),
        component.memory.iter().any(|kind| kind.get_ref() == "dma"),
        process.memory_kib << 10,
        process.kept_kib << 10,
        process.vectors,
        process.log_lines,
        process.log_burst,
        process.threads,
        process.device_memory_kib << 10,
        process.device_threads,
        process.share_percent.get_ref(),
    );
    let _ = writeln!(
        text,
        " ping_ns: {}, ping_deadline_ns: {}, request_ns: {}, rules: image::supervisor::life::Rules {{ restarts_max: {restarts}, window_ns: {}, pause_ns: {}, pause_ns_max: {} }} }},",
        process.ping_ms * NS_PER_MS,
        process.ping_deadline_ms * NS_PER_MS,
        process.request_ms * NS_PER_MS,
        process.window_ms * NS_PER_MS,
        process.pause_ms * NS_PER_MS,
        process.pause_max_ms * NS_PER_MS,
    );
    text
}
