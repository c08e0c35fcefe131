//! [`PieceJoiner`]: whole records out of pieces.
use crate::{RecordPiece, TEXT_MAX};
use alloc::vec::Vec;

/// Joins pieces to records. A record of which a piece is missing is left out.
#[derive(Clone, Debug, Default)]
pub struct PieceJoiner {
    /// Number, type and next piece of the record that is not whole.
    open: Option<(u64, u16, u16)>,
    text: Vec<u8>,
}

impl PieceJoiner {
    /// Takes the next piece. Returns the number, the type and the text of the record that it ends.
    pub fn take(&mut self, piece: &RecordPiece<'_>) -> Option<(u64, u16, Vec<u8>)> {
        let RecordPiece { number, kind, place, .. } = *piece;
        if place == 0 {
            self.text.clear();
        } else if self.open != Some((number, kind, place))
            || self.text.len() + piece.text.len() > TEXT_MAX
        {
            self.open = None;
            return None;
        }
        self.text.extend_from_slice(piece.text);
        self.open = (!piece.is_last).then_some((number, kind, place.saturating_add(1)));
        piece.is_last.then(|| (number, kind, core::mem::take(&mut self.text)))
    }
}
