//! Descriptions of components and of systems: their fields and rules, and the programs that are generated from them.
//!
//! A component's folder holds a `component.toml` ([`Component`]): the interfaces that it implements and uses, the devices, ports and
//! interrupts that it drives, the worlds in which it can live, and its limits in the process world. A system (`systems/NAME.toml`,
//! [`System`]) lists its components with the world of each, and may be based on another system. There is no other list of components.
//!
//! Everything absent is denied, and everything unknown is refused, with the file, the line and the change that helps. So a
//! description is the list of all privileges that are enforced. `checks` has the rules, `known` the names that descriptions may
//! use, `placement` the rules for worlds, and `wiring` the programs: the kernel ([`System::kernel`]) and one for each process
//! ([`System::program`]).
//! `tests/descriptions.rs` has a refusal for each field.
#![forbid(unsafe_code)]

mod checks;
mod component;
mod known;
mod parts;
mod placement;
mod sources;
mod system;
mod wiring;

pub use component::{Component, EntryPoint, KernelWorld, Process};
pub use sources::Sources;
pub use system::{Member, System, World};

use std::ops::Range;
use toml::Spanned;

/// A fault of a description, and its place in the text.
#[derive(Debug)]
struct Wrong {
    span: Range<usize>,
    what: String,
}

impl Wrong {
    fn at<T>(place: &Spanned<T>, what: impl Into<String>) -> Wrong {
        Wrong { span: place.span(), what: what.into() }
    }

    /// Formats the fault with its line in `text`.
    fn in_text(self, text: &str) -> String {
        let before = text.get(..self.span.start).unwrap_or_default();
        format!("line {}: {}", before.matches('\n').count() + 1, self.what)
    }
}
