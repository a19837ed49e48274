//! The Redis protocol, versions 2 and 3: with it, any Redis client takes ids.
//!
//! ```text
//! connection          reads, answers, writes: one write for many answers
//!   commands          the table of commands
//!     id_commands     ids, and questions about tags
//!     sequence_commands  numbers of keys, of sequences and registers
//!     connect_commands  what clients send at connect
//!     cluster_commands  what clients of a cluster ask
//!     transaction_commands  what clients put around a transaction
//!       http_request  the answer to a request of HTTP
//!       permission    whether a connection may have a command carried out; its login
//!       call          one command that is carried out
//!       gathered      commands for numbers of keys that are carried out together
//!       later         other replies that have to be waited for
//!       slots         the slots of a cluster, and the replies that show them
//!       pending       ids that are not buffered, and how the reply shows them
//!       transaction   commands that are queued until `EXEC`
//!       session       what a connection remembers
//!   parser            bytes into commands
//!   reply             replies into bytes
//! ```
//!
//! Commands see the [`Services`](crate::service::Services) and nothing behind them. Commands for one id
//! of a tag whose segment is buffered allocate nothing. The commands of a connection are carried out one
//! after the other, so their answers come in order.

mod call;
mod cluster_commands;
mod commands;
mod connect_commands;
mod connection;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gathered;
mod http_request;
mod id_commands;
mod later;
mod parser;
mod pending;
mod permission;
mod reply;
mod sequence_commands;
mod session;
mod slots;
mod transaction;
mod transaction_commands;

pub(crate) use connection::{TURNED_AWAY, WITHOUT_TLS, serve};
