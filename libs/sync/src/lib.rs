//! locks
#![cfg_attr(not(any(test, loom)), no_std)]
