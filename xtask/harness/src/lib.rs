//! The library of the commands of `./x`: builds of kernels, programs and disk images, guests of QEMU, and what runs in them.
//!
//! | modules | about |
//! | --- | --- |
//! | [`shell`], [`packages`], [`random`] | other programs, packages of Debian, random numbers |
//! | [`build`], [`isolated`], [`link`], [`symbols`], [`plugin`] | kernels, components and programs |
//! | [`disk`], [`debian`], [`linux`], [`selinux`] | root disks, Debian's, its cloud kernel and its policy of levels |
//! | [`qemu`], [`accel`], [`sockets`], [`session`], [`guest`], [`until`], [`nucleus`] | machines and their sessions |
//! | [`tally`], [`watched`] | results of tests, commands of tests that may hang |
//! | [`profile`] | where a guest's instructions go |
#![forbid(unsafe_code)]
pub mod accel;
pub mod build;
pub mod debian;
pub mod disk;
pub mod frames;
pub mod guest;
pub mod isolated;
pub mod labels;
pub mod link;
pub mod linux;
pub mod nucleus;
pub mod packages;
pub mod plugin;
pub mod profile;
pub mod qemu;
pub mod random;
pub mod selinux;
pub mod session;
pub mod shell;
pub mod sockets;
pub mod symbols;
pub mod tally;
pub mod until;
pub mod watched;
