//! The functions of a kernel: addresses and names.
use crate::symbols;
use anyhow::{Context, Result, bail};
use std::{collections::BTreeMap, path::Path};

/// Names of functions by first address.
#[derive(Clone, Debug)]
pub struct Names(BTreeMap<u64, String>);

impl Names {
    /// Reads the functions of the kernel at `kernel` from the file with its symbols beside it, and those of a personality that
    /// it starts in a process.
    ///
    /// # Errors
    /// Fails if such a file cannot be read or has no symbols.
    pub fn of(kernel: &Path) -> Result<Names> {
        let mut names = BTreeMap::new();
        let personality = symbols::personality(kernel);
        let kernel = (symbols::beside(kernel), symbols::KERNEL_BASE);
        let personality = personality.exists().then_some((personality, calls::SERVER_BASE));
        for (path, base) in [kernel].into_iter().chain(personality) {
            let elf =
                std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let functions = symbols::functions_from(&elf, base)
                .with_context(|| format!("{} has no symbols", path.display()))?;
            names.extend(functions.into_iter().map(|(offset, name)| {
                let name = String::from_utf8_lossy(&name).into_owned();
                let name = format!("{:#}", rustc_demangle::demangle(&name));
                (base + u64::from(offset), name)
            }));
        }
        Ok(Names(names))
    }

    /// Returns the first addresses, ascending.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// Returns the function that contains `address`.
    pub fn at(&self, address: u64) -> Option<&str> {
        self.0.range(..=address).next_back().map(|(_, name)| name.as_str())
    }

    /// Returns the first address of the function `name`.
    ///
    /// # Errors
    /// Fails if the kernel has no such function.
    pub fn address(&self, name: &str) -> Result<u64> {
        let found = self.0.iter().find(|(_, other)| *other == name).map(|(&address, _)| address);
        found.with_context(|| format!("the kernel has no function {name}"))
    }

    /// Returns the addresses of the function `text`; if no function has just that name, of the shortest name that holds it.
    ///
    /// # Errors
    /// Fails if no name holds `text`; the function may have been inlined.
    pub fn holding(&self, text: &str) -> Result<Vec<u64>> {
        let holds = |(_, name): &(&u64, &String)| name.contains(text);
        let Some((_, best)) = self.0.iter().filter(holds).min_by_key(|(_, name)| name.len()) else {
            bail!("the kernel has no function {text:?}, or it was inlined");
        };
        Ok(self.0.iter().filter(|(_, name)| *name == best).map(|(&address, _)| address).collect())
    }
}

#[cfg(test)]
impl Names {
    /// Makes names for tests.
    pub fn named<const N: usize>(all: [(u64, &str); N]) -> Names {
        Names(all.map(|(address, name)| (address, name.to_owned())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_an_address_in_it_and_by_a_part_of_its_name() {
        let names = Names::named([
            (0x10, "posix::fork"),
            (0x20, "posix::fork::copy"),
            (0x30, "posix::fork"),
        ]);
        assert_eq!(names.at(0x1f), Some("posix::fork"));
        assert_eq!(names.at(0xf), None);
        assert_eq!(names.holding("fork").unwrap(), [0x10, 0x30]);
        assert_eq!(names.holding("copy").unwrap(), [0x20]);
        assert!(names.holding("exec").is_err() && names.address("fork").is_err());
    }
}
