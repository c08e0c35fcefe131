//! The orders of the component `actor`, by the label of a call. Word 0 of the answer is the result; the answer's label
//! is 1 if there is none.

/// Makes a region.
pub const NEW_REGION: u64 = 1;
/// Makes an endpoint.
pub const NEW_ENDPOINT: u64 = 2;
/// Gives its capability, with the rights in word 0 (1 to serve, 2 to write), and answers with the derivation.
pub const GIVE: u64 = 3;
/// Takes back its last derivation.
pub const TAKE_BACK: u64 = 4;
/// Answers with a copy of its capability.
pub const COPY: u64 = 5;
/// Answers with its capability, which it then has no more.
pub const MOVE: u64 = 6;
/// Keeps the capability that comes along: word 0 is 1 for a region, 2 for an endpoint.
pub const TAKE: u64 = 7;
/// Reads the word of its region whose number is in word 0.
pub const READ: u64 = 8;
/// Writes a word of its region; answers with the old value.
pub const WRITE: u64 = 9;
/// Watches a word of its region for ever in a thread of its own, and fails if it sees [`SEEN_TOO_LATE`].
pub const WATCH: u64 = 10;
/// Calls its endpoint in a thread of its own.
pub const CALL: u64 = 11;
/// Calls its endpoint in a thread of its own, with a deadline far away.
pub const CALL_WITH_DEADLINE: u64 = 12;
/// Receives at its endpoint in a thread of its own.
pub const RECEIVE: u64 = 13;
/// Answers with the results of these threads: the sum of their error numbers, plus [`RESULT_UNIT`] for each that ended.
pub const RESULTS: u64 = 14;
/// Sends its region to an endpoint without a receiver; answers with the error's number if it still has the region.
pub const FAIL_TO_SEND: u64 = 15;

/// Opens a window on bytes 8 to 64 of its region, and answers with it. Word 0 has the rights as for [`GIVE`], and 4 to
/// read.
pub const OPEN: u64 = 16;
/// Takes the window back.
pub const SHUT: u64 = 17;
/// Copies a word from the offset in word 0 of the window that it was given.
pub const COPY_FROM: u64 = 18;
/// Copies word 1 to the offset in word 0 of that window.
pub const COPY_TO: u64 = 19;
/// Copies the words at offsets 0, 8 and 16 of that window, each changed by word 0, to offsets 24, 32 and 40; answers
/// with their sum.
pub const COPY_LISTS: u64 = 20;
/// Copies one, two, three ... to offset 0 of that window, in a thread of its own, until the window is revoked
/// ([`RESULTS`]).
pub const COPY_ON: u64 = 21;
/// Answers with as many words as it gets, each increased by one.
pub const LONG: u64 = 22;
/// Calls its endpoint with [`LONG`] of every length; answers with the number of right answers.
pub const CALL_LONG: u64 = 23;
/// Wakes the threads that wait at the word of its region whose number is in word 0.
pub const WAKE: u64 = 24;
/// Waits at that word with a deadline that has passed, if the word holds word 1; answers 1 if it does not.
pub const WAIT: u64 = 25;
/// Starts two threads that wait for each other in turn, for ever, at the word of its region whose number is in word 0.
pub const PASS: u64 = 26;
/// Attaches its region as a pool of frames, the first of which has the number in word 0.
pub const ATTACH: u64 = 27;
/// Takes the frame whose number is in word 0 as handed over, and keeps it. Answers with the word at offset word 1 of it, after it
/// has tried to change the frame.
pub const HAND: u64 = 28;
/// Drops the frame that it has kept longest. Answers with the references to it before.
pub const DROP: u64 = 29;
/// Answers with the frames that it has dropped since: 1 for each handing, plus the frame's number times [`RESULT_UNIT`].
pub const RELEASED: u64 = 30;
/// Answer of [`COPY_FROM`] and [`COPY_TO`] if the window was revoked.
pub const COPY_GONE: u64 = u64::MAX;
/// Answer of [`COPY_FROM`] and [`COPY_TO`] if the offset is not in the window.
pub const COPY_FAULT: u64 = u64::MAX - 1;

/// Badge of the endpoints that it gives.
pub const BADGE: u64 = 77;
/// A value that a thread may not see that lost the memory before.
pub const SEEN_TOO_LATE: u64 = 99;
/// Unit by which [`RESULTS`] counts ended threads.
pub const RESULT_UNIT: u64 = 1 << 16;
