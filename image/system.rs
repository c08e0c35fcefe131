//! A system description (`systems/NAME.toml`): what it may say, and the table of it for the kernel.
//!
//! What is absent is denied, and what is not known is refused, as is a world other than `kernel`: what
//! a description says must be what is enforced. A component can use no more than it is made to, so
//! that uses cannot go round in a circle. Part of `build.rs`; `tests/descriptions.rs` has a denial a
//! field.
use serde::Deserialize;
use std::{collections::BTreeSet, fmt::Write};

/// A system description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    component: Vec<Component>,
}

/// One component: its world, and everything it may touch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Component {
    name: String,
    world: String,
    /// Interfaces it offers.
    #[serde(default)]
    implements: Vec<String>,
    /// Interfaces it calls.
    #[serde(default)]
    uses: Vec<String>,
    /// Kinds of devices it may open (`virtio:block`); their interrupts come with them.
    #[serde(default)]
    devices: Vec<String>,
    /// Port ranges `FIRST+COUNT`.
    #[serde(default)]
    ports: Vec<String>,
    /// Interrupt lines.
    #[serde(default)]
    interrupts: Vec<u32>,
    /// Memory beyond its heap: `dma`.
    #[serde(default)]
    memory: Vec<String>,
    /// `fair`, or `fifo:N` with N from 1 to 99.
    priority: String,
    /// `never`: a component of the kernel world goes down with the system.
    restart: String,
}

/// What there is: name, what it implements, what it must use.
const KNOWN: [(&str, &[&str], &[&str]); 7] = [
    ("posix", &[], &["block", "file_system", "terminal", "clock"]),
    ("ext4", &["file_system"], &["block"]),
    ("tmpfs", &["file_system"], &[]),
    ("virtio-blk", &["block"], &[]),
    ("virtio-console", &["terminal"], &[]),
    ("uart", &["terminal"], &[]),
    ("rtc", &["clock"], &[]),
];
const DEVICES: [&str; 2] = ["virtio:block", "virtio:console"];

/// Reads and checks a description.
///
/// # Errors
/// What is wrong with it, for the one who wrote it.
pub fn parse(text: &str) -> Result<System, String> {
    let system: System = toml::from_str(text).map_err(|error| error.to_string())?;
    check_system(&system)?;
    Ok(system)
}

fn check_system(system: &System) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for component in &system.component {
        if !seen.insert(&component.name) {
            return Err(format!("component `{}` is there twice", component.name));
        }
        check_component(component)
            .map_err(|wrong| format!("component `{}`: {wrong}", component.name))?;
    }
    let offered: BTreeSet<_> =
        system.component.iter().flat_map(|component| &component.implements).collect();
    for component in &system.component {
        if let Some(missing) = component.uses.iter().find(|name| !offered.contains(name)) {
            return Err(format!(
                "component `{}` uses `{missing}`, which nobody implements",
                component.name
            ));
        }
    }
    if !seen.contains(&"posix".to_owned()) {
        return Err("there is no component `posix` to start".to_owned());
    }
    Ok(())
}

fn check_component(component: &Component) -> Result<(), String> {
    let Some((_, implements, uses)) = KNOWN.iter().find(|known| known.0 == component.name) else {
        let known: Vec<_> = KNOWN.iter().map(|known| known.0).collect();
        return Err(format!("not known; known are {}", known.join(", ")));
    };
    if component.world != "kernel" {
        return Err(format!("world `{}` does not exist yet; only `kernel` does", component.world));
    }
    if let Some(wrong) =
        component.implements.iter().find(|name| !implements.contains(&name.as_str()))
    {
        return Err(format!("does not implement `{wrong}`"));
    }
    if let Some(denied) = uses.iter().find(|name| !component.uses.iter().any(|used| used == *name))
    {
        return Err(format!("cannot run without `uses = [\"{denied}\"]`"));
    }
    if let Some(wrong) = component.uses.iter().find(|name| !uses.contains(&name.as_str())) {
        return Err(format!("has no use for `{wrong}`"));
    }
    if let Some(wrong) = component.devices.iter().find(|name| !DEVICES.contains(&name.as_str())) {
        return Err(format!("device `{wrong}` is not known; known are {}", DEVICES.join(", ")));
    }
    if let Some(wrong) = component.memory.iter().find(|kind| *kind != "dma") {
        return Err(format!("memory `{wrong}` is not known; known is dma"));
    }
    for range in &component.ports {
        parse_ports(range).ok_or_else(|| format!("ports `{range}` are not FIRST+COUNT"))?;
    }
    if let Some(line) = component.interrupts.iter().find(|line| **line > 255) {
        return Err(format!("interrupt {line} does not exist"));
    }
    parse_priority(&component.priority)
        .ok_or_else(|| format!("priority `{}` is not known", component.priority))?;
    if component.restart != "never" {
        return Err(format!(
            "restart `{}` needs a world of its own; `never` does not",
            component.restart
        ));
    }
    Ok(())
}

/// First port and count.
fn parse_ports(range: &str) -> Option<(u16, u16)> {
    let (first, count) = range.split_once('+')?;
    let first = u16::from_str_radix(first.strip_prefix("0x")?, 16).ok()?;
    let count: u16 = count.parse().ok()?;
    (count > 0 && u32::from(first) + u32::from(count) <= 1 << 16).then_some((first, count))
}

/// 0 for the fair class, else the fixed priority.
fn parse_priority(text: &str) -> Option<u8> {
    match text.strip_prefix("fifo:") {
        Some(number) => number.parse().ok().filter(|number| (1..=99).contains(number)),
        None => (text == "fair").then_some(0),
    }
}

/// The table as Rust.
pub fn table(name: &str, system: &System) -> String {
    let mut text = format!("/// The system's name.\npub const SYSTEM: &str = {name:?};\n");
    text.push_str("/// Its components.\nconst COMPONENTS: &[Component] = &[\n");
    for component in &system.component {
        let ports: Vec<_> = component.ports.iter().filter_map(|range| parse_ports(range)).collect();
        let priority = parse_priority(&component.priority).unwrap_or(0);
        let _ = writeln!(
            text,
            "    Component {{ name: {:?}, world: {:?}, implements: &{:?}, devices: &{:?}, ports: &{ports:?}, interrupts: &{:?}, can_use_dma: {}, fixed_priority: {priority} }},",
            component.name,
            component.world,
            component.implements,
            component.devices,
            component.interrupts,
            component.memory.iter().any(|kind| kind == "dma"),
        );
    }
    text.push_str("];\n");
    text
}
