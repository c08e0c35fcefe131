//! The processor architecture: all code that names x86-64 registers, tables and controllers.
pub mod x86_64;
pub use self::x86_64::*;
