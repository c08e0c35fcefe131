//! [`Row`]: tests for one value after another, as lists of values become. Where a program comes to the first of them the
//! accumulator is searched for among all.
use crate::operation::{Jumps, Operation};
use alloc::{boxed::Box, vec::Vec};

/// Tests in a row, each of which jumps where the accumulator is its constant and leads to the next where it is not.
#[derive(Debug)]
pub struct Row {
    /// Constants, in order, and where each jumps.
    cases: Box<[(u32, u16)]>,
    /// The instruction after the row.
    end: u16,
}

impl Row {
    /// Fewer tests are made one by one.
    pub const LENGTH_MIN: usize = 4;
    /// Bytes of memory that a test takes.
    pub const CASE_BYTES: usize = size_of::<(u32, u16)>();

    /// The row of `tests`, of which the first is instruction `first`.
    fn new(first: usize, tests: &[(Jumps, u32)]) -> Row {
        // A program has 4096 instructions at most.
        let place = |at: usize| u16::try_from(at).unwrap_or(0);
        let case = |(at, (jumps, constant)): (usize, (Jumps, u32))| {
            (constant, place(first + at + 1 + usize::from(jumps.then)))
        };
        let mut cases: Vec<(u32, u16)> = tests.iter().copied().enumerate().map(case).collect();
        // Stable: the first test for a constant counts.
        cases.sort_by_key(|(constant, _)| *constant);
        cases.dedup_by_key(|(constant, _)| *constant);
        Row { cases: cases.into(), end: place(first + tests.len()) }
    }

    /// The end that it leads to with `accumulator`.
    #[inline]
    pub fn next(&self, accumulator: u32) -> usize {
        let found = self.cases.binary_search_by_key(&accumulator, |(constant, _)| *constant);
        let case = found.ok().and_then(|at| self.cases.get(at));
        usize::from(case.map_or(self.end, |(_, target)| *target))
    }
}

/// Has the first test of each row stand for the whole; the others stay, as there may be jumps to them.
pub fn find(operations: &mut [Operation]) -> Box<[Row]> {
    let mut rows = Vec::new();
    let mut at = 0;
    while let Some(rest) = operations.get_mut(at..).filter(|rest| !rest.is_empty()) {
        let tests: Vec<_> = rest.iter().map_while(test).collect();
        if tests.len() >= Row::LENGTH_MIN
            && let Some(first) = rest.first_mut()
        {
            *first = Operation::Search(rows.len() as u32);
            rows.push(Row::new(at, &tests));
        }
        at += tests.len().max(1);
    }
    rows.into()
}

fn test(operation: &Operation) -> Option<(Jumps, u32)> {
    match operation {
        Operation::IfEqual(jumps, constant) if jumps.otherwise == 0 => Some((*jumps, *constant)),
        _ => None,
    }
}
