//! IP: the stack, its input and output, and the protocols that serve it: ARP and ICMP.
pub mod arp;
pub mod icmp;
pub mod input;
pub mod output;
pub mod path;
pub mod stack;
pub mod statistics;
