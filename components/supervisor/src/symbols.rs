//! Names for addresses: the symbol table of a component's executable. Source: System V ABI, chapter 4.
use alloc::{format, string::String, vec::Vec};
use object::{Object, ObjectSymbol, SymbolKind, read::elf::ElfFile64};

/// The functions of an executable, in order of address.
#[derive(Debug, Default)]
pub struct Symbols<'a>(Vec<(u64, &'a str)>);

impl<'a> Symbols<'a> {
    /// Reads the functions of `file`; none if it has no symbols or is malformed.
    pub fn read(file: &'a [u8]) -> Symbols<'a> {
        let Ok(file) = ElfFile64::<object::LittleEndian>::parse(file) else {
            return Symbols::default();
        };
        let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let named = functions.filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)));
        let mut table: Vec<(u64, &str)> = named.collect();
        table.sort_unstable();
        Symbols(table)
    }

    /// Describes `address` as the function and the offset in it, or as the bare address.
    pub fn describe(&self, address: u64) -> String {
        let after = self.0.partition_point(|&(start, _)| start <= address);
        match after.checked_sub(1).and_then(|index| self.0.get(index)) {
            Some(&(start, name)) => {
                format!("{:#}+{:#x}", rustc_demangle::demangle(name), address.saturating_sub(start))
            }
            None => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Symbols<'static> {
        Symbols(vec![(0x1000, "_ZN3rtc4read17h0123456789abcdefE"), (0x2000, "_start")])
    }

    #[test]
    fn an_address_is_named_by_the_function_before_it() {
        assert_eq!(table().describe(0x1010), "rtc::read+0x10");
        assert_eq!(table().describe(0x2000), "_start+0x0");
        assert_eq!(table().describe(0xfff), "0xfff");
    }

    #[test]
    fn the_names_of_this_test_are_found() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let symbols = Symbols::read(&file);
        let names = symbols.0.iter().map(|&(_, name)| name);
        assert!(names.into_iter().any(|name| name.contains("the_names_of_this_test_are_found")));
    }

    #[test]
    fn a_file_may_lie_anywhere() {
        let mut archive = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for _ in 0..8 {
            archive.insert(0, 0);
            let file = &archive[archive.iter().position(|byte| *byte != 0).unwrap()..];
            assert!(!Symbols::read(file).0.is_empty());
        }
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read(bytes: Vec<u8>) {
            let mut file = b"\x7fELF\x02\x01\x01".to_vec();
            file.extend(bytes);
            Symbols::read(&file).describe(0x1000);
        }
    }
}
