//! The rules for a description; a violation is told with the change that repairs it.
use super::{
    Component, Process, System, Wrong,
    known::{self, Known, Worlds},
    parts, table,
};
use calls::Call;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

type Checked = Result<(), Wrong>;

/// Of a machine's memory isolated components may be promised one part in this many.
const MEMORY_SHARE: u64 = 4;
/// Longest time a field of milliseconds may say: a day.
const MS_MAX: u64 = 86_400_000;

/// Checks everything and puts the components into the order of starting.
pub(super) fn check(system: &mut System) -> Checked {
    let mut seen = BTreeSet::new();
    for component in &system.component {
        let name = component.name.get_ref();
        if !seen.insert(name) {
            return Err(Wrong::at(
                &component.name,
                format!("component `{name}` is there twice: leave one out"),
            ));
        }
        check_component(component).map_err(|wrong| Wrong {
            what: format!("component `{name}`: {}", wrong.what),
            span: wrong.span,
        })?;
    }
    if let Some(word) = &system.system_calls
        && parts::system_calls(word.get_ref()).is_none()
    {
        let what = "is not known; known are anywhere and master";
        return Err(Wrong::at(word, format!("system_calls `{}` {what}", word.get_ref())));
    }
    if !seen.contains(&"posix".to_owned()) {
        return Err(Wrong {
            span: 0..0,
            what: "there is no component `posix` to start: add one".to_owned(),
        });
    }
    check_offers(system)?;
    check_overlaps(system)?;
    check_memory(system)?;
    let order = order(&system.component)?;
    system.component.sort_by_key(|component| {
        order.iter().position(|name| name == component.name.get_ref()).unwrap_or(usize::MAX)
    });
    Ok(())
}

/// Every interface used is offered.
fn check_offers(system: &System) -> Checked {
    let offers = system.component.iter().flat_map(|component| &component.implements);
    let offered: BTreeSet<&str> = offers.map(|name| name.get_ref().as_str()).collect();
    for component in &system.component {
        let missing = component.uses.iter().find(|name| !offered.contains(name.get_ref().as_str()));
        if let Some(missing) = missing {
            return Err(Wrong::at(
                missing,
                format!(
                    "component `{}` uses `{}`, which nobody implements: add a component that does",
                    component.name.get_ref(),
                    missing.get_ref()
                ),
            ));
        }
    }
    Ok(())
}

/// No port, line or kind of device has two owners.
fn check_overlaps(system: &System) -> Checked {
    let mut ports: Vec<((u16, u16), &str)> = Vec::new();
    let mut lines: BTreeMap<u32, &str> = BTreeMap::new();
    let mut devices: BTreeMap<&str, &str> = BTreeMap::new();
    for component in &system.component {
        let name = component.name.get_ref().as_str();
        let taken = |by: &str, what: String| format!("component `{name}`: {what} {by}'s already");
        for range in &component.ports {
            let Some(wanted) = parts::ports(range.get_ref()) else { continue };
            if let Some((_, by)) = ports.iter().find(|(other, _)| parts::overlap(*other, wanted)) {
                let what = format!("ports `{}` overlap: some are", range.get_ref());
                return Err(Wrong::at(range, taken(by, what)));
            }
            ports.push((wanted, name));
        }
        for line in &component.interrupts {
            if let Some(by) = lines.insert(*line.get_ref(), name) {
                return Err(Wrong::at(line, taken(by, format!("interrupt {} is", line.get_ref()))));
            }
        }
        for device in &component.devices {
            if let Some(by) = devices.insert(device.get_ref(), name) {
                let what = format!("device `{}` is", device.get_ref());
                return Err(Wrong::at(device, taken(by, what)));
            }
        }
    }
    Ok(())
}

/// The isolated components' memory fits the smallest machine.
fn check_memory(system: &System) -> Checked {
    let processes = system.component.iter().filter_map(Component::isolated);
    let memory_kib = |process: &Process| process.memory_kib.saturating_add(process.kept_kib);
    let wanted_kib = processes.fold(0u64, |sum, process| sum.saturating_add(memory_kib(process)));
    let share_kib = (system.memory_mib.get_ref().saturating_mul(1024)) / MEMORY_SHARE;
    if wanted_kib > share_kib {
        return Err(Wrong::at(
            &system.memory_mib,
            format!(
                "isolated components may have {wanted_kib} KiB, more than the {share_kib} KiB that are a quarter of the \
                 machine's memory: lower a `memory_kib` or raise `memory_mib`"
            ),
        ));
    }
    Ok(())
}

/// Names in an order where whom one uses goes before it.
fn order(components: &[Component]) -> Result<Vec<String>, Wrong> {
    let mut order: Vec<String> = Vec::new();
    let mut left: Vec<&Component> = components.iter().collect();
    while !left.is_empty() {
        let is_ready = |component: &&Component| {
            let mut others =
                left.iter().filter(|other| other.name.get_ref() != component.name.get_ref());
            let waits = |other: &&Component| {
                let used = |name: &str| component.uses.iter().any(|used| used.get_ref() == name);
                other.implements.iter().any(|name| used(name.get_ref()))
            };
            !others.any(waits)
                && !component
                    .implements
                    .iter()
                    .any(|name| component.uses.iter().any(|used| used.get_ref() == name.get_ref()))
        };
        let Some(next) = left.iter().position(is_ready) else {
            let names: Vec<&str> = left.iter().map(|one| one.name.get_ref().as_str()).collect();
            return Err(Wrong::at(
                &left[0].name,
                format!(
                    "the calls of {} go round in a circle: take a `uses` out",
                    names.join(", ")
                ),
            ));
        };
        order.push(left.remove(next).name.get_ref().clone());
    }
    Ok(order)
}

/// The first of `list` that is not among `known`.
fn stranger<'a>(list: &'a [Spanned<String>], known: &[&str]) -> Option<&'a Spanned<String>> {
    list.iter().find(|one| !known.contains(&one.get_ref().as_str()))
}

fn check_component(component: &Component) -> Checked {
    let name = component.name.get_ref();
    let Some(known) = known::COMPONENTS.iter().find(|known| known.name == name) else {
        let known: Vec<_> = known::COMPONENTS.iter().map(|known| known.name).collect();
        return Err(Wrong::at(
            &component.name,
            format!("not known; known are {}", known.join(", ")),
        ));
    };
    check_world(component, known)?;
    check_interfaces(component, known)?;
    let devices: Vec<_> = known::DEVICES.iter().map(|(name, _)| *name).collect();
    if let Some(wrong) = stranger(&component.devices, &devices) {
        let what =
            format!("device `{}` is not known; known are {}", wrong.get_ref(), devices.join(", "));
        return Err(Wrong::at(wrong, what));
    }
    if let Some(wrong) = stranger(&component.memory, &["dma"]) {
        let what = format!("memory `{}` is not known; known is dma", wrong.get_ref());
        return Err(Wrong::at(wrong, what));
    }
    for range in &component.ports {
        parts::ports(range.get_ref()).ok_or_else(|| {
            Wrong::at(
                range,
                format!("ports `{}` are not FIRST+COUNT, as in 0x70+2", range.get_ref()),
            )
        })?;
    }
    if let Some(line) = component.interrupts.iter().find(|line| *line.get_ref() > 255) {
        return Err(Wrong::at(line, format!("interrupt {} does not exist", line.get_ref())));
    }
    let priority = &component.priority;
    parts::priority(priority.get_ref()).ok_or_else(|| {
        let what = "is not known; known are fair, fair:-20 to fair:19, fifo:1 to fifo:99";
        Wrong::at(priority, format!("priority `{}` {what}", priority.get_ref()))
    })?;
    Ok(())
}

fn check_interfaces(component: &Component, known: &Known) -> Checked {
    if let Some(wrong) = stranger(&component.implements, known.implements) {
        return Err(Wrong::at(wrong, format!("does not implement `{}`", wrong.get_ref())));
    }
    let is_used = |name: &str| component.uses.iter().any(|used| used.get_ref() == name);
    if let Some(denied) = known.uses.iter().find(|name| !is_used(name)) {
        let what = format!("cannot run without `uses = [\"{denied}\"]`: add it");
        return Err(Wrong::at(&component.name, what));
    }
    if let Some(wrong) = stranger(&component.uses, known.uses) {
        let what = format!("has no use for `{}`: take it out", wrong.get_ref());
        return Err(Wrong::at(wrong, what));
    }
    Ok(())
}

fn check_world(component: &Component, known: &Known) -> Checked {
    let world = &component.world;
    let is_process = match world.get_ref().as_str() {
        "kernel" => false,
        "process" => true,
        other => {
            let what = format!("world `{other}` does not exist; there are kernel and process");
            return Err(Wrong::at(world, what));
        }
    };
    if is_process && known.worlds == Worlds::Kernel {
        return Err(Wrong::at(world, "cannot be isolated: write `world = \"kernel\"`"));
    }
    if !is_process && known.worlds == Worlds::Process {
        return Err(Wrong::at(world, "is isolated only: write `world = \"process\"`"));
    }
    match &component.process {
        Some(process) => check_process(component, process),
        None if is_process => Err(Wrong::at(
            world,
            "world `process` needs a table `[component.process]` that says what it may do: add it",
        )),
        None => Ok(()),
    }
}

fn check_process(component: &Component, process: &Spanned<Process>) -> Checked {
    let fields = process.get_ref();
    if stranger(core::slice::from_ref(&fields.restart), &["never", "on-failure"]).is_some() {
        let wrong = fields.restart.get_ref();
        let what = format!("restart `{wrong}` is not known; known are never and on-failure");
        return Err(Wrong::at(&fields.restart, what));
    }
    if let Some(wrong) = fields.calls.iter().find(|name| known::calls_of(name.get_ref()).is_none())
    {
        let groups: Vec<_> = known::GROUPS.iter().map(|(name, _)| *name).collect();
        let what = format!(
            "kernel call `{}` is not known; known are the calls of libs/calls and the groups {}",
            wrong.get_ref(),
            groups.join(", ")
        );
        return Err(Wrong::at(wrong, what));
    }
    let granted = table::calls(fields);
    let needs: [(bool, Call, &str, &str); 5] = [
        (fields.kept_kib > 0, Call::MapRegion, "kept_kib", "regions"),
        (!component.ports.is_empty(), Call::PortsOpen, "ports", "ports"),
        (!component.interrupts.is_empty(), Call::InterruptOpen, "interrupts", "interrupts"),
        (!component.devices.is_empty(), Call::PciOpen, "devices", "devices"),
        (!component.memory.is_empty(), Call::DmaAllocate, "memory", "dma"),
    ];
    for (is_wanted, call, field, group) in needs {
        if is_wanted && !granted.contains(&(call as u64)) {
            let what = format!("has `{field}` but may not use them: add \"{group}\" to `calls`");
            return Err(Wrong::at(process, what));
        }
    }
    if component.devices.is_empty()
        && fields.device_memory_kib + u64::from(fields.device_threads) > 0
    {
        let what = "has `device_memory_kib` or `device_threads` but no `devices`: leave them out";
        return Err(Wrong::at(process, what));
    }
    for call in [Call::ReplyAndReceive, Call::Spawn, Call::Map, Call::Wait, Call::Clock] {
        if !granted.contains(&(call as u64)) {
            let what =
                format!("cannot run without the kernel call {}: add it to `calls`", call.name());
            return Err(Wrong::at(process, what));
        }
    }
    check_numbers(process)
}

fn check_numbers(process: &Spanned<Process>) -> Checked {
    let fields = process.get_ref();
    let positive = [
        ("memory_kib", fields.memory_kib),
        ("threads", u64::from(fields.threads)),
        ("ping_ms", fields.ping_ms),
        ("ping_deadline_ms", fields.ping_deadline_ms),
        ("request_ms", fields.request_ms),
        ("window_ms", fields.window_ms),
    ];
    if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
        return Err(Wrong::at(process, format!("`{name}` must not be 0")));
    }
    let share = fields.share_percent.get_ref();
    if !(1..=100).contains(share) {
        let what =
            format!("`share_percent` {share} is none: give it 1 to 100 of the processors' time");
        return Err(Wrong::at(&fields.share_percent, what));
    }
    let times = [
        ("ping_ms", fields.ping_ms),
        ("ping_deadline_ms", fields.ping_deadline_ms),
        ("request_ms", fields.request_ms),
        ("window_ms", fields.window_ms),
        ("pause_ms", fields.pause_ms),
        ("pause_max_ms", fields.pause_max_ms),
    ];
    if let Some((name, _)) = times.iter().find(|(_, value)| *value > MS_MAX) {
        return Err(Wrong::at(process, format!("`{name}` is more than a day")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_go_round_in_a_circle_are_refused() {
        let text = r#"
memory_mib = 64
[[component]]
name = "a"
world = "kernel"
implements = ["one"]
uses = ["two"]
priority = "fair"
[[component]]
name = "b"
world = "kernel"
implements = ["two"]
uses = ["one"]
priority = "fair"
"#;
        let system: System = toml::from_str(text).expect("a text");
        let wrong = order(&system.component).expect_err("a circle");
        assert!(wrong.what.contains("the calls of a, b go round in a circle"), "{}", wrong.what);
    }
}
