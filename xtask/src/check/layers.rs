//! Import directions: components -> interfaces, rt, libs; rt -> nucleus; image -> everything.
use super::Crate;
use std::path::Path;

/// The floors of the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Floor {
    Libs,
    Nucleus,
    Rt,
    Interfaces,
    Component,
    Image,
    Tool,
}

fn floor(folder: &Path) -> Floor {
    // A kernel image of its own, and components that turn others into hostile ones.
    if folder.starts_with("tests/nucleus") || folder.starts_with("tests/components") {
        return Floor::Image;
    }
    match folder.components().next().and_then(|part| part.as_os_str().to_str()) {
        Some("libs") => Floor::Libs,
        Some("nucleus") => Floor::Nucleus,
        Some("rt") => Floor::Rt,
        Some("interfaces") => Floor::Interfaces,
        Some("components") => Floor::Component,
        Some("image" | "bench") => Floor::Image,
        _ => Floor::Tool,
    }
}

/// May a crate of `from` use one of `to`?
fn may(from: &Crate, to: &Crate) -> bool {
    match (floor(&from.folder), floor(&to.folder)) {
        (Floor::Image, _) | (_, Floor::Libs) => true,
        // The driver library sees the runtime, as its users do; other libraries are pure.
        (Floor::Libs, Floor::Rt) => from.name == "virtio",
        (Floor::Rt, Floor::Nucleus) | (Floor::Interfaces, Floor::Rt | Floor::Interfaces) => true,
        (Floor::Component, Floor::Rt | Floor::Interfaces) => true,
        // Parts of one component: a crate below another's folder belongs to it.
        (Floor::Component, Floor::Component) => to.folder.starts_with(&from.folder),
        _ => false,
    }
}

/// Adds a fault for each import that points upwards or sideways.
pub fn check(crates: &[Crate], faults: &mut Vec<String>) {
    for from in crates {
        for name in &from.dependencies {
            let Some(to) = crates.iter().find(|one| one.name == *name) else { continue };
            if !may(from, to) {
                faults.push(format!(
                    "{}/Cargo.toml: {} may not import {} (components see interfaces, rt and libs; rt sees the nucleus)",
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
        Crate { name: name.into(), folder: folder.into(), files: Vec::new(), dependencies }
    }

    #[test]
    fn a_component_may_not_see_the_nucleus_or_a_sibling() {
        let crates = [
            make("nucleus", "nucleus", &[]),
            make("ext4", "components/ext4", &["nucleus", "tmpfs"]),
            make("tmpfs", "components/tmpfs", &[]),
            make("posix", "components/posix", &["vfs"]),
            make("vfs", "components/posix/vfs", &[]),
        ];
        let mut faults = Vec::new();
        check(&crates, &mut faults);
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
