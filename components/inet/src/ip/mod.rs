//! IP: the stack, its input and output, and the protocols that serve it: ARP and ICMP.
pub mod announce;
pub mod arp;
pub mod autoconfigure;
pub mod events;
pub mod groups;
pub mod icmp;
pub mod icmpv6;
pub mod input;
pub mod input6;
pub mod ndp;
pub mod options;
pub mod output;
pub mod output6;
pub mod path;
pub mod reassemble;
pub mod stack;
pub mod statistics;
