//! The rules for descriptions, and the error messages for descriptions that break them.
use crate::{
    Wrong,
    component::{Component, EntryPoint, Process},
    known, parts, placement,
    system::{Member, System, World},
    wiring,
};
use calls::Call;
use std::collections::BTreeMap;
use toml::Spanned;

type Checked = Result<(), Wrong>;

/// The memory of all isolated components together is at most one part in this many of the machine's.
const MEMORY_SHARE: u64 = 4;
/// The greatest percentage of the machine's memory that isolated components together may have by `memory_percent`.
const PERCENT_MAX: u64 = 70;
/// Longest time that a field in milliseconds may have: a day.
const MS_MAX: u64 = 86_400_000;

/// Checks that `word` is a valid value of `system_calls`.
pub(crate) fn system_calls(word: &str) -> Result<(), String> {
    match parts::system_calls(word) {
        Some(_) => Ok(()),
        None => Err(format!("system_calls `{word}` is not known; known are anywhere and master")),
    }
}

/// Checks the rules between the components of a system and sorts them into the order of starting.
pub(crate) fn system(system: &mut System) -> Result<(), String> {
    if system.memory_mib == 0 {
        return Err("`memory_mib` is missing: the memory of the smallest machine".to_owned());
    }
    let listed = system.members.iter().filter(|member| member.set.is_none());
    match listed.filter(|member| member.is_personality()).count() {
        1 => {}
        0 => return Err("there is no personality to start: list `posix`".to_owned()),
        _ => return Err("there are two personalities: leave one out".to_owned()),
    }
    check_sets(system)?;
    placement::check(system)?;
    system.members.iter().try_for_each(check_parameters)?;
    check_offers(system)?;
    check_overlaps(system)?;
    check_memory(system)?;
    let order = order(&system.members)?;
    let place = |member: &Member| order.iter().position(|name| *name == member.name);
    system.members.sort_by_key(|member| place(member).unwrap_or(usize::MAX));
    Ok(())
}

/// Checks that each set of instances has one personality, to which the others belong.
fn check_sets(system: &System) -> Result<(), String> {
    for set in system.members.iter().filter_map(|member| member.set.as_ref()) {
        let of_set = system.members.iter().filter(|member| member.set.as_ref() == Some(set));
        if of_set.filter(|member| member.is_personality()).count() != 1 {
            return Err(format!("the instances of `{set}` have no personality: list `posix`"));
        }
    }
    Ok(())
}

/// Checks that the parameters of a component in the kernel, which all components see, are its own.
fn check_parameters(member: &Member) -> Result<(), String> {
    let parameters = member.kernel_parameters();
    let is_own = |word: &&str| {
        let rest = word.strip_prefix(member.of.as_str()).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest.contains('='))
    };
    match parameters.split_whitespace().find(|word| !is_own(word)) {
        None => Ok(()),
        Some(wrong) => Err(format!(
            "component `{}`: parameter `{wrong}` is not {}.PARAMETER=VALUE",
            member.name, member.of
        )),
    }
}

/// Checks that every needed interface is offered.
fn check_offers(system: &System) -> Result<(), String> {
    for user @ Member { name, component, .. } in &system.members {
        let is_offered = |used: &&Spanned<String>| {
            system.visible(user).any(|member| member.component.implements(used.get_ref()))
        };
        if let Some(missing) = component.uses.iter().find(|used| !is_offered(used)) {
            let missing = missing.get_ref();
            return Err(format!(
                "component `{name}` uses `{missing}`, which no component implements: list one that does"
            ));
        }
    }
    Ok(())
}

/// Checks that no port, line or kind of device has two owners.
fn check_overlaps(system: &System) -> Result<(), String> {
    let mut ports: Vec<((u16, u16), &str)> = Vec::new();
    let mut lines: BTreeMap<u32, &str> = BTreeMap::new();
    let mut devices: Vec<(&str, &str)> = Vec::new();
    for Member { name, component, .. } in &system.members {
        let taken =
            |what: String, by: &str| Err(format!("component `{name}`: {what} {by}'s already"));
        for range in &component.ports {
            let Some(wanted) = parts::ports(range.get_ref()) else { continue };
            if let Some((_, by)) = ports.iter().find(|(other, _)| parts::overlap(*other, wanted)) {
                return taken(format!("ports `{}` overlap: some are", range.get_ref()), by);
            }
            ports.push((wanted, name));
        }
        for line in &component.interrupts {
            if let Some(by) = lines.insert(*line.get_ref(), name) {
                return taken(format!("interrupt {} is", line.get_ref()), by);
            }
        }
        for device in &component.devices {
            let is_same =
                |(other, _): &&(&str, &str)| parts::is_same_device(other, device.get_ref());
            if let Some((_, by)) = devices.iter().find(is_same) {
                return taken(format!("device `{}` is", device.get_ref()), by);
            }
            devices.push((device.get_ref(), name));
        }
    }
    Ok(())
}

/// Checks that the isolated components' memory fits the smallest machine.
fn check_memory(system: &System) -> Result<(), String> {
    let processes =
        system.in_world(World::Process).filter_map(|one| one.component.process.as_ref());
    let memory_kib = |process: &Spanned<Process>| {
        process.get_ref().memory_kib.saturating_add(process.get_ref().kept_kib)
    };
    let wanted_kib = processes.fold(0u64, |sum, process| sum.saturating_add(memory_kib(process)));
    let processes =
        system.in_world(World::Process).filter_map(|one| one.component.process.as_ref());
    let percent: u64 = processes.map(|one| u64::from(one.get_ref().memory_percent)).sum();
    if percent > PERCENT_MAX {
        return Err(format!(
            "isolated components may have {percent} percent of the machine's memory, more than {PERCENT_MAX}: lower a \
             `memory_percent`"
        ));
    }
    let share_kib = system.memory_mib.saturating_mul(1024) / MEMORY_SHARE;
    if wanted_kib > share_kib {
        return Err(format!(
            "isolated components may have {wanted_kib} KiB, more than the {share_kib} KiB that are a quarter of the \
             machine's memory: lower a `memory_kib` or raise `memory_mib`"
        ));
    }
    Ok(())
}

/// Returns the names in an order in which each component comes after those that it uses, and personalities after all others.
fn order(members: &[Member]) -> Result<Vec<String>, String> {
    let mut order: Vec<String> = Vec::new();
    let mut left: Vec<&Member> = members.iter().collect();
    while !left.is_empty() {
        let uses = |user: &Member, other: &Member| {
            user.component.used().any(|name| other.component.implements(name))
        };
        let is_ready = |member: &&Member| {
            (!member.is_personality() || left.iter().all(|other| other.is_personality()))
                && left.iter().all(|other| !uses(member, other))
        };
        let Some(next) = left.iter().position(is_ready) else {
            let names: Vec<&str> = left.iter().map(|one| one.name.as_str()).collect();
            let names = names.join(", ");
            return Err(format!("the calls of {names} go round in a circle: take a `uses` out"));
        };
        order.push(left.remove(next).name.clone());
    }
    Ok(order)
}

/// Returns the first name of `list` that is not among `known`.
fn stranger<'a>(list: &'a [Spanned<String>], known: &[&str]) -> Option<&'a Spanned<String>> {
    list.iter().find(|one| !known.contains(&one.get_ref().as_str()))
}

/// Checks that all names of `list` are among `known`.
fn check_names(what: &str, list: &[Spanned<String>], known: &[&str]) -> Checked {
    match stranger(list, known) {
        None => Ok(()),
        Some(wrong) => {
            let (name, known) = (wrong.get_ref(), known.join(", "));
            Err(Wrong::at(wrong, format!("{what} `{name}` is not known; known are {known}")))
        }
    }
}

/// Checks that the devices are of known kinds, and that their numbers are numbers.
fn check_devices(list: &[Spanned<String>]) -> Checked {
    let known: Vec<_> = known::DEVICES.iter().map(|(name, _)| *name).collect();
    let is_known = |one: &&Spanned<String>| {
        parts::device(one.get_ref()).is_some_and(|(kind, _)| known.contains(&kind))
    };
    match list.iter().find(|one| !is_known(one)) {
        None => Ok(()),
        Some(wrong) => {
            let (name, known) = (wrong.get_ref(), known.join(", "));
            let what = format!(
                "device `{name}` is not known; known are {known}, and each with #N for one of them"
            );
            Err(Wrong::at(wrong, what))
        }
    }
}

/// Checks the description of a component by itself.
pub(crate) fn component(component: &Component) -> Checked {
    check_worlds(component)?;
    for list in [&component.implements, &component.uses, &component.may_use] {
        check_names("interface", list, &known::INTERFACES)?;
    }
    check_devices(&component.devices)?;
    check_names("memory", &component.memory, &["dma"])?;
    for range in &component.ports {
        parts::ports(range.get_ref()).ok_or_else(|| {
            let what = "are not FIRST+COUNT, as in 0x70+2";
            Wrong::at(range, format!("ports `{}` {what}", range.get_ref()))
        })?;
    }
    if let Some(line) = component.interrupts.iter().find(|line| *line.get_ref() > 255) {
        return Err(Wrong::at(line, format!("interrupt {} does not exist", line.get_ref())));
    }
    if let Some(package) = &component.package {
        let is_name =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if package.get_ref().is_empty() || !package.get_ref().bytes().all(is_name) {
            let what = format!("crate `{}` has no name of a crate", package.get_ref());
            return Err(Wrong::at(package, what));
        }
    }
    let priority = &component.priority;
    parts::priority(priority.get_ref()).ok_or_else(|| {
        let what = "is not known; known are fair, fair:-20 to fair:19, fifo:1 to fifo:99";
        Wrong::at(priority, format!("priority `{}` {what}", priority.get_ref()))
    })?;
    Ok(())
}

/// Checks that the worlds exist, and that the component has the fields that each of them needs.
fn check_worlds(component: &Component) -> Checked {
    let worlds = &component.worlds;
    check_names("world", worlds.get_ref(), &["kernel", "process"])?;
    let is_process = component.can_live_in("process");
    let wrong = |what: &str| Err(Wrong::at(worlds, what));
    match component.entry {
        _ if worlds.get_ref().is_empty() => return wrong("`worlds` is empty: name one"),
        EntryPoint::Main if component.can_live_in("kernel") => {
            return wrong("a component whose entry is `main` cannot live in the kernel");
        }
        _ => {}
    }
    match &component.process {
        Some(process) => check_process(component, process),
        // Other components can share the process of one that has the table.
        None if is_process && (!component.is_started() || component.own_grant().is_some()) => {
            wrong(
                "world `process` needs a table `[process]` that says what the component may do: add it",
            )
        }
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
    let granted = wiring::calls(fields);
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
    for call in [Call::ReplyAndReceive, Call::Spawn, Call::Map, Call::Wait] {
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
        let member = |name: &str, implements: &str, uses: &str| {
            let text = format!(
                "worlds = [\"kernel\"]\npriority = \"fair\"\nimplements = [\"{implements}\"]\nuses = [\"{uses}\"]"
            );
            Member {
                name: name.to_owned(),
                of: name.to_owned(),
                set: None,
                folder: name.into(),
                world: World::Kernel,
                component: Component::parse(&text).expect("a right description"),
            }
        };
        let circle = [member("a", "block", "clock"), member("b", "clock", "block")];
        let wrong = order(&circle).expect_err("a circle");
        assert!(wrong.contains("the calls of a, b go round in a circle"), "{wrong}");
        let alone = order(&[member("a", "block", "block")]).expect_err("a circle");
        assert!(alone.contains("the calls of a go round"), "{alone}");
    }
}
