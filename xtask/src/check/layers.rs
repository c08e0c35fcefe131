//! Import directions: components -> interfaces, rt, libs; rt -> nucleus; image -> everything.
//!
//! A component of several crates declares their order in its README, in one line:
//!
//! ```text
//! Crates, from the bottom up: `vfs`, `memory`, `posix`.
//! ```
//! A crate of it imports only those before it.
use super::{
    Crate,
    floors::{COMPONENTS, declared},
};
use harness::shell;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The words before the crates of a component.
const DECLARATION: &str = "Crates, from the bottom up: ";

/// The orders of crates that components declare, by the component's folder.
type Orders = BTreeMap<String, Vec<String>>;

/// The layers of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Floor {
    Libs,
    Nucleus,
    Rt,
    Interfaces,
    Component,
    /// Components that measure: they see what components see, and the kernel calls below it.
    Bench,
    Image,
    Tool,
}

fn floor(folder: &Path) -> Floor {
    // These are a kernel image of its own, and components that turn others into hostile ones.
    if folder.starts_with("tests/nucleus") || folder.starts_with("tests/components") {
        return Floor::Image;
    }
    match folder.components().next().and_then(|part| part.as_os_str().to_str()) {
        Some("libs") => Floor::Libs,
        Some("nucleus") => Floor::Nucleus,
        Some("rt") => Floor::Rt,
        Some("interfaces") => Floor::Interfaces,
        Some("components") => Floor::Component,
        Some("bench") => Floor::Bench,
        Some("image") => Floor::Image,
        _ => Floor::Tool,
    }
}

/// The folder of the component that a crate is part of, if `folder` is one.
fn component(folder: &Path) -> Option<&str> {
    let name = folder.strip_prefix(COMPONENTS).ok()?.iter().next()?;
    name.to_str()
}

/// Reads the orders that the READMEs of components declare.
fn orders(crates: &[Crate], faults: &mut Vec<String>) -> Orders {
    let mut orders = Orders::new();
    let names: BTreeSet<&str> = crates.iter().filter_map(|one| component(&one.folder)).collect();
    for name in names {
        let path = Path::new(COMPONENTS).join(name).join("README.md");
        let readme = fs::read_to_string(shell::root().join(&path)).unwrap_or_default();
        match declared(&readme, DECLARATION) {
            Ok(Some(order)) => {
                let order = order.into_iter().map(str::to_owned).collect();
                orders.insert(name.to_owned(), order);
            }
            Ok(None) => {}
            Err(fault) => faults.push(format!("{}: {fault}", path.display())),
        }
    }
    orders
}

/// Whether `to` stands before `from` in the order of the component that both are part of.
fn is_below(from: &Crate, to: &Crate, orders: &Orders) -> bool {
    let (Some(own), Some(other)) = (component(&from.folder), component(&to.folder)) else {
        return false;
    };
    let Some(order) = orders.get(own).filter(|_| own == other) else { return false };
    let height = |one: &Crate| order.iter().position(|name| *name == one.name);
    height(to).zip(height(from)).is_some_and(|(to, from)| to < from)
}

/// May a crate of `from` use one of `to`?
fn may(from: &Crate, to: &Crate, orders: &Orders) -> bool {
    match (floor(&from.folder), floor(&to.folder)) {
        (Floor::Image, _) | (_, Floor::Libs) => true,
        // The driver library sees the runtime, as its users do; other libraries are pure.
        (Floor::Libs, Floor::Rt) => from.name == "virtio",
        (Floor::Rt, Floor::Nucleus) | (Floor::Interfaces, Floor::Rt | Floor::Interfaces) => true,
        (Floor::Component | Floor::Bench, Floor::Rt | Floor::Interfaces) => true,
        (Floor::Component, Floor::Component) => is_below(from, to, orders),
        (Floor::Tool, Floor::Tool) => true,
        _ => false,
    }
}

/// Adds a fault for each import that points upwards or sideways.
pub fn check(crates: &[Crate], faults: &mut Vec<String>) {
    let orders = orders(crates, faults);
    check_imports(crates, &orders, faults);
}

fn check_imports(crates: &[Crate], orders: &Orders, faults: &mut Vec<String>) {
    for from in crates {
        for name in &from.dependencies {
            let Some(to) = crates.iter().find(|one| one.name == *name) else { continue };
            if !may(from, to, orders) {
                faults.push(format!(
                    "{}/Cargo.toml: {} may not import {} (components see interfaces, rt, libs and those of their own crates that their README names before them; rt sees the nucleus)",
                    from.folder.display(),
                    from.name,
                    to.name
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(name: &str, folder: &str, dependencies: &[&str]) -> Crate {
        let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
        Crate { name: name.into(), folder: folder.into(), dependencies, ..Crate::default() }
    }

    #[test]
    fn a_component_may_not_see_the_nucleus_or_a_sibling() {
        let crates = [
            make("nucleus", "nucleus", &[]),
            make("ext4", "components/ext4", &["nucleus", "tmpfs"]),
            make("tmpfs", "components/tmpfs", &[]),
        ];
        let mut faults = Vec::new();
        check_imports(&crates, &Orders::new(), &mut faults);
        assert_eq!(faults.len(), 2, "{faults:?}");
    }

    #[test]
    fn a_crate_of_a_component_sees_those_below_it() {
        let crates = [
            make("vfs", "components/posix/vfs", &["memory", "stray"]),
            make("memory", "components/posix/memory", &["vfs"]),
            make("posix", "components/posix", &["vfs", "memory"]),
            make("stray", "components/posix/stray", &["vfs"]),
        ];
        let order = ["vfs", "memory", "posix"].map(str::to_owned).to_vec();
        let orders = Orders::from([("posix".to_owned(), order)]);
        let mut faults = Vec::new();
        check_imports(&crates, &orders, &mut faults);
        let refused =
            ["vfs may not import memory", "vfs may not import stray", "stray may not import vfs"];
        assert_eq!(faults.len(), refused.len(), "{faults:?}");
        for (fault, refused) in faults.iter().zip(refused) {
            assert!(fault.contains(refused), "{fault}");
        }
    }
}
