//! The tables as Rust, for `src/wiring.rs`.
use super::{Component, Process, System, known, parts, parts::Priority};
use calls::Call;
use std::{collections::BTreeSet, fmt::Write};
use toml::Spanned;

const NS_PER_MS: u64 = 1_000_000;

/// The tables: the components, and the plans of those in the process world.
pub fn table(name: &str, system: &System) -> String {
    let mut text = format!("/// The system's name.\npub const SYSTEM: &str = {name:?};\n");
    let calls = system.system_calls.as_ref().map_or("anywhere", |word| word.get_ref());
    let variant = parts::system_calls(calls).unwrap_or("Anywhere");
    let _ = writeln!(
        text,
        "/// Where system calls run.\nconst SYSTEM_CALLS: ::posix::start::SystemCalls = ::posix::start::SystemCalls::{variant};"
    );
    text.push_str("/// Its components, in the order of starting.\n");
    text.push_str("const COMPONENTS: &[Component] = &[\n");
    for component in &system.component {
        text.push_str(&line(component));
    }
    text.push_str("];\n/// Those of the process world, in the order of starting.\n");
    text.push_str("const PLANS: &[::supervisor::Plan] = &[\n");
    for component in &system.component {
        if let Some(process) = component.isolated() {
            text.push_str(&plan(component, process));
        }
    }
    text.push_str("];\n");
    text
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

fn line(component: &Component) -> String {
    format!(
        "    Component {{ name: {:?}, world: {:?}, implements: &{:?}, devices: &{:?}, ports: &{:?}, interrupts: &{:?} }},\n",
        component.name.get_ref(),
        component.world.get_ref(),
        texts(&component.implements),
        texts(&component.devices),
        ports(component),
        interrupts(component),
    )
}

/// The numbers of the calls that a component may make.
pub(super) fn calls(process: &Process) -> BTreeSet<u64> {
    let names = process.calls.iter();
    let calls: Vec<Call> =
        names.filter_map(|name| known::calls_of(name.get_ref())).flatten().collect();
    calls.into_iter().map(|call| call as u64).collect()
}

fn plan(component: &Component, process: &Process) -> String {
    let devices = component.devices.iter().filter_map(|wanted| {
        known::DEVICES.iter().find(|(name, _)| name == wanted.get_ref()).map(|(_, text)| *text)
    });
    let policy = match parts::priority(component.priority.get_ref()) {
        Some(Priority::Fifo(priority)) => format!("::rt::thread::Policy::Fifo({priority})"),
        Some(Priority::Fair(nice)) => format!("::rt::thread::Policy::Fair {{ nice: {nice} }}"),
        None => "::rt::thread::Policy::Fair { nice: 0 }".to_owned(),
    };
    let restarts = if process.restart.get_ref() == "never" { 0 } else { process.restarts };
    let mut text = format!("    ::supervisor::Plan {{ name: {:?},", component.name.get_ref());
    let calls: Vec<u64> = calls(process).into_iter().collect();
    let _ = write!(
        text,
        " parameters: {:?}, calls: &{calls:?}, devices: &[{}], ports: &{:?}, interrupts: &{:?}, can_use_dma: {}, memory_bytes: {}, kept_bytes: {}, vectors: {}, log_lines: ({}, {}), threads: {}, device_memory_bytes: {}, device_threads: {}, devices_max: usize::MAX, policy: {policy}, share_percent: {},",
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
        " ping_ns: {}, ping_deadline_ns: {}, request_ns: {}, rules: ::supervisor::life::Rules {{ restarts_max: {restarts}, window_ns: {}, pause_ns: {}, pause_ns_max: {} }} }},",
        process.ping_ms * NS_PER_MS,
        process.ping_deadline_ms * NS_PER_MS,
        process.request_ms * NS_PER_MS,
        process.window_ms * NS_PER_MS,
        process.pause_ms * NS_PER_MS,
        process.pause_max_ms * NS_PER_MS,
    );
    text
}
