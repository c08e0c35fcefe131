//! nucleus
#![no_std]
