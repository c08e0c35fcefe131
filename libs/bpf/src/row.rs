//! [`Row`]: a run of tests for one value after another, to which programs compile lists of values. The program searches
//! for the accumulator among all values when it reaches the first test.
use crate::operation::{Jumps, Operation};
use alloc::{boxed::Box, vec::Vec};

/// Tests in a row. Each jumps if the accumulator is its constant, and leads to the next one otherwise.
#[derive(Debug)]
pub struct Row {
    /// The constants in order, each with the target of its jump.
    cases: Box<[(u32, u16)]>,
    /// The instruction after the row.
    end: u16,
}

impl Row {
    /// Least number of tests that make a row. Fewer are done one by one.
    pub const LENGTH_MIN: usize = 4;
    /// Bytes of memory that one test takes.
    pub const CASE_BYTES: usize = size_of::<(u32, u16)>();

    /// Makes the row of `tests`, of which the first is instruction `first`.
    fn new(first: usize, tests: &[(Jumps, u32)]) -> Row {
        // A program has at most 4096 instructions.
        let place = |at: usize| u16::try_from(at).unwrap_or(0);
        let case = |(at, (jumps, constant)): (usize, (Jumps, u32))| {
            (constant, place(first + at + 1 + usize::from(jumps.then)))
        };
        let mut cases: Vec<(u32, u16)> = tests.iter().copied().enumerate().map(case).collect();
        // The sort is stable, because the first test for a constant counts.
        cases.sort_by_key(|(constant, _)| *constant);
        cases.dedup_by_key(|(constant, _)| *constant);
        Row { cases: cases.into(), end: place(first + tests.len()) }
    }

    /// Returns the instruction that follows for `accumulator`.
    #[inline]
    pub fn next(&self, accumulator: u32) -> usize {
        let found = self.cases.binary_search_by_key(&accumulator, |(constant, _)| *constant);
        let case = found.ok().and_then(|at| self.cases.get(at));
        usize::from(case.map_or(self.end, |(_, target)| *target))
    }
}

/// Finds the rows and replaces the first test of each by a search. The other tests stay, because there may be jumps to
/// them.
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
