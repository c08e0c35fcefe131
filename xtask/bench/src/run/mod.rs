//! The highest floor: the options, and what `./x bench` and `./x test` do with them.
pub mod compared;
pub mod options;
pub mod profiled;
pub mod test;
