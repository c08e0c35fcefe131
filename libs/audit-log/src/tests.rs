//! Any bytes are read without a panic, and what was packed is read again.
use crate::*;
use alloc::{vec, vec::Vec};
use proptest::prelude::*;

const PLACE: BatchPlace = BatchPlace { id: 5, generation: 3, block: 10, record: 1 };

#[test]
fn a_batch_ends_before_the_record_that_has_no_room() {
    let text = vec![b'x'; 300];
    let records = (1..10).map(|number| RecordPiece::whole(number, 7, &text));
    let (blocks, count) = pack(PLACE, records.clone(), 2);
    assert_eq!((blocks.len(), count), (2 * BLOCK_BYTES, 2));
    let (blocks, count) = pack(PLACE, records, 0);
    assert!(blocks.is_empty() && count == 0);
}

#[test]
fn the_newer_head_holds_and_a_damaged_one_does_not() {
    let medium = RING + 2 * WINDOW;
    let head =
        |generation| LogHead { id: 1, generation, blocks: 2 * WINDOW, first: 3, end: 5, record: 9 };
    let mut block = head(4).encode();
    assert_eq!(LogHead::decode(&block, medium), Some(head(4)));
    assert_eq!(LogHead::decode(&block, medium + WINDOW), None, "another medium");
    assert_eq!(newer_head(Some(head(4)), Some(head(5))), Some(head(5)));
    block[9] ^= 1;
    assert_eq!(newer_head(LogHead::decode(&block, medium), Some(head(3))), Some(head(3)));
    assert_eq!(newer_head(None, None), None);
}

#[test]
fn blocks_of_a_batch_that_was_not_flushed_end_the_log() {
    let blocks = 2 * WINDOW;
    let head = LogHead { id: 5, generation: 3, blocks, first: 0, end: 1, record: 2 };
    let see = |number, block, record| Sighting {
        number,
        batch: BatchPlace { id: 5, generation: 3, block, record },
        ends: Some(number + 1),
    };
    assert_eq!(end_of_log(&head, &[]), LogEnd { block: 1, record: 2 });
    // A hole in the last batch.
    let seen = [see(1, 1, 2), see(3, 1, 2)];
    assert_eq!(end_of_log(&head, &seen), LogEnd { block: 2, record: 3 });
    // A hole before it is damage.
    let seen = [see(1, 1, 2), see(3, 3, 4), see(4, 3, 4)];
    assert_eq!(end_of_log(&head, &seen), LogEnd { block: 5, record: 6 });
    // The first block of the only batch is missing.
    assert_eq!(end_of_log(&head, &[see(2, 1, 2)]), LogEnd { block: 1, record: 2 });
}

#[test]
fn a_block_behind_the_end_of_the_head_has_its_generation() {
    let blocks = 2 * WINDOW;
    let (bytes, _) = pack(PLACE, core::iter::once(RecordPiece::whole(1, 7, b"text")), 1);
    let block = LogBlock::decode(bytes.first_chunk().expect("a block"), 5).expect("a block");
    let head = |generation, end| LogHead { id: 5, generation, blocks, first: 0, end, record: 1 };
    assert!(is_new(&head(3, 10), &block) && !is_new(&head(4, 10), &block));
    assert!(!is_new(&head(3, 11), &block));
}

proptest! {
    #[test]
    fn what_is_packed_is_read(lengths in prop::collection::vec(0usize..2000, 1..30)) {
        let texts: Vec<Vec<u8>> = lengths.iter().map(|length| vec![*length as u8; *length]).collect();
        let records = texts.iter().zip(1..).map(|(text, number)| RecordPiece::whole(number, 9, text));
        let (blocks, count) = pack(PLACE, records, WINDOW);
        prop_assert_eq!(count as usize, texts.len());
        let mut joiner = PieceJoiner::default();
        let mut found = Vec::new();
        for (block, number) in blocks.as_chunks().0.iter().zip(PLACE.block..) {
            let block = LogBlock::decode(block, 5).expect("a block");
            prop_assert_eq!((block.number, block.batch), (number, PLACE));
            found.extend(pieces(block.list).filter_map(|piece| joiner.take(&piece)));
        }
        let expected: Vec<_> = texts.into_iter().zip(1..).map(|(text, number)| (number, 9, text)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), BLOCK_BYTES)) {
        let mut joiner = PieceJoiner::default();
        pieces(&bytes).for_each(|piece| drop(joiner.take(&piece)));
        bytes[..6].copy_from_slice(b"SKAUDB");
        let mut block: [u8; BLOCK_BYTES] = bytes.try_into().expect("a block");
        bytes::seal(&mut block);
        let id = u64::from_le_bytes(block[8..16].try_into().expect("a word"));
        if let Some(block) = LogBlock::decode(&block, id) {
            pieces(block.list).for_each(|piece| drop(joiner.take(&piece)));
        }
        block[..8].copy_from_slice(b"SKAUDIT1");
        bytes::seal(&mut block);
        let _ = LogHead::decode(&block, 520);
    }
}
