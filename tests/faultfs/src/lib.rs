//! Faults below the process: disks that forget, tear, flip and fail, and links that are cut.
//!
//! - [`Disk`] is what a disk is to a program, and what a power cut leaves of it; [`Device`] adds
//!   failures and delays; [`Mounted`] shows it as a file system.
//! - [`Control`] and [`serve_control`] are for a device in another process.
//! - [`links`] are networks of nodes, cut packet by packet.
//! - [`campaign`] breaks the disks of a cluster and looks whether it keeps its promises.
//!
//! Linux only, and root for all but [`Disk`]; [`why_not`] says what is missing.
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

pub use command::{COMMANDS, Command};
pub use cut::{Cut, Flipped};
pub use device::{Device, Stats};
pub use disk::{Attributes, Disk, Ino, ROOT, Strictness};
pub use faults::{Failure, Operation, Rule};
pub use mount::{Control, Mounted, remove_leftovers, serve_control, why_not};
