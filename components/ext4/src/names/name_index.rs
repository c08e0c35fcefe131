//! The index of the names in a block of a directory: a lookup compares with one of them and not with all.
use crate::{
    names::entries::{Span, Spans},
    store::index::Index,
};

/// The index of the entries of `bytes`; `None` where one makes no sense, or without memory.
pub(crate) fn make(bytes: &[u8]) -> Option<Index> {
    let mut names = 0;
    for entry in Spans::new(bytes, bytes.len()) {
        names += usize::from(entry.ok()?.inode != 0);
    }
    let mut index = Index::new(names)?;
    for entry in Spans::new(bytes, bytes.len()).flatten().filter(|entry| entry.inode != 0) {
        index.add(entry.name, entry.offset)?;
    }
    Some(index)
}

/// The entry of `bytes`, which the index was made of, that stands for `name`.
pub(crate) fn find<'a>(index: &Index, bytes: &'a [u8], name: &[u8]) -> Option<Span<'a>> {
    let mut entries = index.offsets(name).map_while(|offset| Spans::one(bytes, offset));
    entries.find(|entry| entry.is(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::index::Searched;
    use alloc::vec::Vec;

    /// Returns a block of 4 KiB with these names, of inodes from 11 on.
    fn block(names: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let length = (8 + name.len()).next_multiple_of(4);
            let is_last = number + 1 == names.len();
            let length = if is_last { 4096 - bytes.len() } else { length };
            let end = bytes.len() + length;
            bytes.extend((number as u32 + 11).to_le_bytes());
            bytes.extend((length as u16).to_le_bytes());
            bytes.extend([name.len() as u8, 1]);
            bytes.extend(name);
            bytes.resize(end, 0);
        }
        bytes
    }

    fn names(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|number| format!("n{number}").into_bytes()).collect()
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        for count in [1, 2, 3, 100, 300] {
            let names = names(count);
            let bytes = block(&names);
            let index = make(&bytes).unwrap();
            for (number, name) in names.iter().enumerate() {
                assert_eq!(find(&index, &bytes, name).unwrap().inode, number as u32 + 11);
            }
            for absent in [&b"n"[..], b"n300", b"", b"n01", b"x"] {
                assert!(find(&index, &bytes, absent).is_none());
            }
        }
    }

    #[test]
    fn entries_without_an_inode_stand_for_nothing() {
        let mut bytes = block(&names(3));
        bytes[..4].fill(0);
        let index = make(&bytes).unwrap();
        assert!(find(&index, &bytes, b"n0").is_none());
        assert!(find(&index, &bytes, b"n1").is_some());
    }

    #[test]
    fn a_block_with_an_unsound_entry_has_no_index() {
        let mut bytes = block(&names(3));
        bytes[4..6].fill(0);
        assert!(make(&bytes).is_none());
        let searched = Searched::default();
        assert!((0..5).all(|_| searched.index(|| make(&bytes)).is_none()));
    }

    #[test]
    fn a_block_has_an_index_from_its_third_search_on() {
        let bytes = block(&names(20));
        let searched = Searched::default();
        let found: Vec<bool> = (0..4).map(|_| searched.index(|| make(&bytes)).is_some()).collect();
        assert_eq!(found, [false, false, true, true]);
    }
}
