//! Changes put in place: from the journal, or in the order of [`Class`] without one. The caller commits.
use crate::{
    layout::{inode::inode_place, volume::Volume},
    store::{
        Store, bytes::clear, cache::Chunk, class::Class, committer::Committer, device::Piece,
        journal::Journal, log::RunningTransaction,
    },
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use interfaces::file_system::FsError;

/// The contents of a block at the end of a transaction.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) class: Class,
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) offset: usize,
}

/// Writes in place those blocks in the journal that are not.
pub(crate) fn write_logged(store: &Store, committer: &mut Committer) -> Result<(), FsError> {
    let bytes = store.area.block_bytes;
    let logged = committer.waiting.iter().filter_map(|(block, logged)| {
        let logged = logged.as_ref().filter(|logged| !logged.is_in_place)?;
        Some((store.area.sector(*block), logged.chunk.part(logged.offset, bytes)))
    });
    let pieces: Vec<Piece<'_>> = logged.collect();
    store.device.write(&pieces)?;
    drop(pieces);
    committer.waiting.values_mut().flatten().for_each(|logged| logged.is_in_place = true);
    Ok(())
}

/// Puts in place what the journal holds, and empties it.
pub(crate) fn checkpoint(store: &Store, committer: &mut Committer) -> Result<(), FsError> {
    if committer.journal.as_ref().is_none_or(Journal::is_empty) && committer.waiting.is_empty() {
        return Ok(());
    }
    write_logged(store, committer)?;
    let Committer { journal: Some(journal), waiting, .. } = committer else { return Ok(()) };
    store.device.flush()?;
    journal.reset(&store.device)?;
    store.device.flush()?;
    let settled = core::mem::take(waiting);
    settled.keys().for_each(|block| store.settle(*block));
    Ok(())
}

/// Writes a transaction in place, in the order of its blocks' classes; with `errors=continue`
/// all that can be written.
pub(crate) fn write_in_order(
    volume: &Volume,
    running: &RunningTransaction,
    blocks: &BTreeMap<u64, Version>,
) -> Result<(), FsError> {
    let Volume { geometry, store, .. } = volume;
    let written = store.log.written();
    let mut result = match blocks.values().any(|version| version.class == Class::Fresh) {
        // Their flush is the data's too.
        true => Ok(()),
        false => store.flush_data(),
    };
    let bytes = geometry.block_bytes;
    let mut tables: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for number in &running.new_inodes {
        let (block, offset) = inode_place(volume, *number)?;
        let Some(version) = blocks.get(&block) else { continue };
        let whole = || version.chunk.part(version.offset, bytes).to_vec();
        let copy = tables.entry(block).or_insert_with(whole);
        clear(copy, offset, geometry.inode_bytes);
    }
    for class in [Class::Fresh, Class::Other, Class::Directory, Class::Index] {
        let of_class = blocks.iter().filter(|(_, version)| version.class == class);
        let pieces: Vec<Piece<'_>> = of_class
            .map(|(block, version)| {
                let without_new = tables.get(block).map(Vec::as_slice);
                let whole = version.chunk.part(version.offset, bytes);
                (store.area.sector(*block), without_new.unwrap_or(whole))
            })
            .collect();
        if result.is_ok() || store.health.goes_on() {
            result = result.and(write_phase(store, &pieces));
        }
    }
    let with_new = tables.keys().filter_map(|block| {
        let version = blocks.get(block)?;
        Some((store.area.sector(*block), version.chunk.part(version.offset, bytes)))
    });
    if result.is_ok() || store.health.goes_on() {
        result = result.and(write_phase(store, &with_new.collect::<Vec<_>>()));
    }
    result.inspect(|()| store.log.note_flushed(written))
}

fn write_phase(store: &Store, pieces: &[Piece<'_>]) -> Result<(), FsError> {
    if pieces.is_empty() {
        return Ok(());
    }
    let mut result = store.device.write(pieces);
    if result.is_err() && store.health.goes_on() {
        // One by one: only those are lost that the device refuses.
        let each = pieces.iter().map(|piece| store.device.write(&[*piece]));
        result = each.fold(Ok(()), Result::and);
    }
    result.and(store.device.flush())
}
