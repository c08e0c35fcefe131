//! Generates the programs that connect components: the kernel of a system, and the program of an isolated component or of the
//! components that share a process.
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
        let parameters: Vec<_> =
            self.in_world(World::Kernel).map(Member::kernel_parameters).collect();
        let parameters = parameters.join(" ");
        let isolated: Vec<&str> =
            self.isolated_personalities().map(|member| member.name.as_str()).collect();
        let (components, personality) = match isolated.as_slice() {
            [] => {
                let components = self.components(self.members.iter(), &World::Kernel);
                (components, format!("Kernel(|them| {})", self.launch("them")))
            }
            names => (String::new(), format!("Processes(&{names:?})")),
        };
        let kernel = || self.in_world(World::Kernel).map(|member| &member.component);
        let driven = self.members.iter().flat_map(|member| devices(&member.component));
        let mut text = format!(
            "//! The kernel of the system `{name}`, written from its description.\n#![no_std]\n#![no_main]\n\n{components}\
             static SYSTEM: image::System = image::System {{\n\
             \x20   name: {name:?},\n\
             \x20   parameters: {parameters:?},\n\
             \x20   ports: &{ports:?},\n\
             \x20   interrupts: &{interrupts:?},\n\
             \x20   driven: &{driven:?},\n\
             \x20   personality: image::PersonalityPlace::{personality},\n\
             \x20   plans: &[\n",
            name = self.name,
            parameters = parameters.trim(),
            ports = kernel().flat_map(ports).collect::<Vec<_>>(),
            interrupts = kernel().flat_map(interrupts).collect::<Vec<_>>(),
            driven = driven.collect::<Vec<_>>(),
        );
        for member in self.in_world(World::Process) {
            if let Some(process) = &member.component.process {
                text.push_str(&self.plan(member, process.get_ref()));
            }
        }
        let _ = writeln!(text, "    ],\n    archive: include_bytes!({archive:?}),\n}};");
        text.push_str("image::run!(SYSTEM);\n");
        text
    }

    /// Returns the source of the program of `member`, which is in the process world, and of those that share its process.
    pub fn program(&self, member: &Member) -> String {
        let (name, path) = (&member.name, member.crate_name());
        let (components, main) = match member.component.entry {
            EntryPoint::Main => (String::new(), format!("rt::component_main!({path}::main);\n")),
            EntryPoint::Start | EntryPoint::User => (
                String::new(),
                main_function(&format!("interfaces::offer::serve({name:?}, {path}::start());")),
            ),
            EntryPoint::Personality => (
                self.components(self.visible(member), &World::With(name.clone())),
                main_function(&format!("{};", self.launch(&format!("{name:?}")))),
            ),
        };
        format!(
            "//! The isolated component `{name}`, written from its description.\n\
             #![no_std]\n#![no_main]\n\n{components}{main}"
        )
    }

    /// Returns a static list of `members`, of which those in `world` are linked with it.
    fn components<'m>(&self, members: impl Iterator<Item = &'m Member>, world: &World) -> String {
        let lines: Vec<String> = members.map(|member| line(member, world)).collect();
        let mut text = format!("static COMPONENTS: [launch::Component; {}] = [\n", lines.len());
        lines.iter().for_each(|line| text.push_str(line));
        text.push_str("];\n\n");
        text
    }

    /// Returns the call that starts the components of that list, with the argument `them`.
    fn launch(&self, them: &str) -> String {
        let calls = parts::system_calls(&self.system_calls).unwrap_or("Anywhere");
        format!("launch::start({them}, &COMPONENTS, launch::SystemCalls::{calls})")
    }
}

fn main_function(statement: &str) -> String {
    format!("fn main() {{\n    {statement}\n}}\nrt::component_main!(main);\n")
}

impl Member {
    /// Returns the package of the component's crate.
    pub fn package(&self) -> &str {
        self.component.package.as_ref().map_or(&self.of, |package| package.get_ref())
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

/// Returns the devices that the component drives: virtio device types, and for one device its number among those of the type.
fn numbered_devices(component: &Component) -> Vec<(u32, Option<u32>)> {
    let kind = |wanted: &Spanned<String>| {
        let (wanted, number) = parts::device(wanted.get_ref())?;
        let (_, kind) = known::DEVICES.iter().find(|(name, _)| *name == wanted)?;
        Some((*kind, number))
    };
    component.devices.iter().filter_map(kind).collect()
}

/// Returns the virtio device types that the component drives.
fn devices(component: &Component) -> Vec<u32> {
    numbered_devices(component).into_iter().map(|(kind, _)| kind).collect()
}

/// Returns the entry of `member` in a list of components, of which those in `world` are linked with the list.
fn line(member: &Member, world: &World) -> String {
    let Member { name, component, .. } = member;
    let path = member.crate_name();
    let starter = match component.entry {
        EntryPoint::Personality => "Personality".to_owned(),
        EntryPoint::Start if member.world == *world => format!("Plain({path}::start)"),
        EntryPoint::User if member.world == *world => format!("User({path}::start)"),
        _ => "Isolated".to_owned(),
    };
    format!(
        "    launch::Component {{ name: {name:?}, world: {:?}, starter: launch::Starter::{starter}, implements: &{:?}, uses: &{:?}, is_driver: {} }},\n",
        member.world.name(),
        texts(&component.implements),
        component.used().collect::<Vec<_>>(),
        !(component.devices.is_empty() && component.ports.is_empty()),
    )
}

/// Returns the numbers of the calls that a component may make.
pub(crate) fn calls(process: &Process) -> BTreeSet<u64> {
    let names = process.calls.iter();
    let calls: Vec<Call> =
        names.filter_map(|name| known::calls_of(name.get_ref())).flatten().collect();
    calls.into_iter().map(|call| call as u64).collect()
}

impl System {
    /// Returns the parameters of `member`, and of those that share its process.
    fn process_parameters(&self, member: &Member) -> String {
        let members = core::iter::once(member).chain(self.guests(member));
        let processes = members.filter_map(|one| one.component.process.as_ref());
        let parameters: Vec<&str> =
            processes.map(|one| one.get_ref().parameters.as_str()).collect();
        parameters.join(" ").trim().to_owned()
    }

    fn plan(&self, member: &Member, process: &Process) -> String {
        let Member { name, component, .. } = member;
        let partners: Vec<&str> =
            self.partners(member).into_iter().map(|one| one.name.as_str()).collect();
        let devices = numbered_devices(component).into_iter().map(|(kind, number)| match number {
            None => format!("image::supervisor::DeviceKind::Virtio({kind})"),
            Some(number) => format!("image::supervisor::DeviceKind::OneVirtio({kind}, {number})"),
        });
        let is_alone = self.isolated_personalities().count() == 1;
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
            " parameters: {:?}, calls: &{calls:?}, partners: &{partners:?}, may_power_down: {}, devices: &[{}], ports: &{:?}, interrupts: &{:?}, can_use_dma: {}, memory_bytes: {}, memory_percent: {}, kept_bytes: {}, vectors: {}, log_lines: ({}, {}), threads: {}, device_memory_bytes: {}, device_threads: {}, devices_max: usize::MAX, policy: image::Policy::{policy}, share_percent: {},",
            self.process_parameters(member),
            is_alone && member.is_personality(),
            devices.collect::<Vec<_>>().join(", "),
            ports(component),
            interrupts(component),
            component.memory.iter().any(|kind| kind.get_ref() == "dma"),
            process.memory_kib << 10,
            process.memory_percent,
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
}
