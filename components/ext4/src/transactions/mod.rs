//! Changes as a whole: operations and their commits.
pub(crate) mod commit;
