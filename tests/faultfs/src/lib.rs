//! Faults below the process: disks that forget, tear, flip and fail, and links that are cut.
//!
//! - [`Disk`] is a file system in memory that models what a power cut would leave of it; [`Device`] adds failures and
//!   delays; [`Mounted`] mounts it.
//! - [`Control`] and [`serve_control`] are for a device in another process.
//! - [`links`] are networks of nodes that are cut packet by packet.
//! - [`campaign`] breaks the disks of a cluster under load, and has the history judged.
//! - [`power_cut`] cuts the power of a writer on a real ext4, in an image.
//!
//! It works on Linux only, and all of it except [`Disk`] needs root; [`why_not`] names what is missing.
#![cfg(target_os = "linux")]

mod backing;
pub mod campaign;
mod command;
mod cut;
mod device;
mod disk;
mod faults;
mod fuse;
mod glob;
pub mod links;
mod mount;
pub mod power_cut;

/// The exit code of a program that could not test anything on this machine.
pub const SKIPPED: u8 = 77;

pub use command::{COMMANDS, Command};
pub use cut::{Cut, Flipped};
pub use device::{Device, Stats};
pub use disk::{Attributes, Disk, Ino, ROOT, Strictness};
pub use faults::{Failure, Operation, Rule};
pub use mount::{Control, Mounted, remove_leftovers, serve_control, why_not};
