//! Encodings and arithmetic of the x86-64 processor and of the devices that come with it: features ([`cpuid`]), page tables
//! ([`paging`]), segments and gates ([`descriptor`]), images of extended state ([`xsave`]), interrupt controllers ([`apic`],
//! [`ioapic`]), clocks of known rate ([`clock`]), chains of stack frames ([`chain`]), instructions that access ports
//! ([`port`]), traps ([`trap`]), the serial port ([`uart`]), instructions that access the memory of programs ([`usercopy`]), and
//! interrupt vectors ([`vectors`]).
//!
//! Nothing here accesses the machine; the nucleus does, with these numbers.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod apic;
pub mod chain;
pub mod clock;
pub mod cpuid;
pub mod descriptor;
pub mod ioapic;
pub mod paging;
pub mod port;
pub mod trap;
pub mod uart;
pub mod usercopy;
pub mod vectors;
pub mod xsave;
