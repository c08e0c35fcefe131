//! The orders of `actor`: the label of a call; word 0 of the answer is the result, its label 1 where there was none.

/// Makes a region.
pub const NEW_REGION: u64 = 1;
/// Makes an endpoint.
pub const NEW_ENDPOINT: u64 = 2;
/// Gives what it has, with the rights in word 0 (1 to serve, 2 to write), and answers with it.
pub const GIVE: u64 = 3;
/// Takes back what it gave last.
pub const TAKE_BACK: u64 = 4;
/// Answers with a copy of what it has.
pub const COPY: u64 = 5;
/// Answers with what it has, and has it no more.
pub const MOVE: u64 = 6;
/// Has what comes along: 1 a region, 2 an endpoint.
pub const TAKE: u64 = 7;
/// Reads word number word 0 of its region.
pub const READ: u64 = 8;
/// Writes word 0 there; what was there before.
pub const WRITE: u64 = 9;
/// Looks there for ever in a thread of its own, and fails where it sees [`SEEN_TOO_LATE`].
pub const WATCH: u64 = 10;
/// Calls by its endpoint in a thread of its own.
pub const CALL: u64 = 11;
/// The same, with a deadline far away.
pub const CALL_WITH_DEADLINE: u64 = 12;
/// Receives by its endpoint in a thread of its own.
pub const RECEIVE: u64 = 13;
/// Answers with the results of these threads: the sum of their error numbers, plus [`RESULT_UNIT`] for each that ended.
pub const RESULTS: u64 = 14;
/// Sends its region to nobody; the number of the error, if it has it still.
pub const FAIL_TO_SEND: u64 = 15;

/// Opens a window on bytes 8 to 64 of its region, and answers with it; word 0 as of [`GIVE`], and 4 to read.
pub const OPEN: u64 = 16;
/// Shuts it.
pub const SHUT: u64 = 17;
/// Copies the word at offset word 0 of the window that it took.
pub const COPY_FROM: u64 = 18;
/// Copies word 1 to offset word 0 there.
pub const COPY_TO: u64 = 19;
/// Copies the words at offsets 0, 8 and 16 there, each changed by word 0, to offsets 24, 32 and 40; their sum.
pub const COPY_LISTS: u64 = 20;
/// Copies one, two, three ... to offset 0 there, in a thread of its own, until the window is taken back ([`RESULTS`]).
pub const COPY_ON: u64 = 21;
/// Answers with as many words as it gets, each one more.
pub const LONG: u64 = 22;
/// Calls by its endpoint with [`LONG`] of every length; how many answers were right.
pub const CALL_LONG: u64 = 23;
/// Wakes who waits at word number word 0 of its region.
pub const WAKE: u64 = 24;
/// Waits there for no time, as long as word 1 is there; 1 if it was not.
pub const WAIT: u64 = 25;
/// Starts two threads that wait for each other in turn, at word number word 0 there, for ever.
pub const PASS: u64 = 26;
/// The answers of [`COPY_FROM`] and [`COPY_TO`] where the window was taken back, and where it does not show that.
pub const COPY_GONE: u64 = u64::MAX;
/// See [`COPY_GONE`].
pub const COPY_FAULT: u64 = u64::MAX - 1;

/// The badge of what it gives.
pub const BADGE: u64 = 77;
/// A value that nobody may see who lost the memory before.
pub const SEEN_TOO_LATE: u64 = 99;
/// See [`RESULTS`].
pub const RESULT_UNIT: u64 = 1 << 16;
