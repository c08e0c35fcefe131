//! Formats of packets: headers as `zerocopy` structures, their options, and the Internet checksum (RFC 1071). Pure code.
#![no_std]
#![forbid(unsafe_code)]
