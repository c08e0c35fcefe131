//! `/proc`.
