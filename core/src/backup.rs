//! Backups: files that hold the whole replicated state as of one moment.
//!
//! ```text
//! file         what is in a backup, written and read
//!   incoming   whether it can be one, from its first bytes on
//!     check    whether it is whole, from its bytes as they come
//! ```
//!
//! A backup is `["MLBK"][format u8][length u32 LE][head][sections][length u64 LE][SHA-256]`. The head says where the
//! copy comes from; the sections are those of a snapshot (`encoding/`). The length at the end is that of everything
//! before it, and the checksum is taken of everything before the checksum. So a backup that was cut short or altered
//! anywhere is refused as a whole, and so is one with anything behind its end.
//!
//! A backup holds everything that the cluster agrees on.

mod check;
mod file;
mod incoming;

pub use check::{BackupCheck, NotWhole};
pub use file::{BackupError, BackupHead, read_backup, read_head, write_backup};
pub use incoming::Incoming;
