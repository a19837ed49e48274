//! What a client's connection needs below its protocol.
//!
//! | module | what it is |
//! | --- | --- |
//! | `origin` | Where clients are counted together |
//! | `drain` | How far the end of a node has come, as its connections see it |
//! | `watchdog` | The end of connections that make no progress, read too slowly, or rest while others want in |
//! | [`answer_budget`] | The memory of answers that clients have not read yet |
//! | [`tls`] | TLS for clients: what a node proves itself by, and how a connection begins |
//! | `outbox` | Answers on their way to a client |
//! | `buffers` | A connection with its buffers |

pub mod answer_budget;
pub(crate) mod buffers;
pub(crate) mod drain;
pub(crate) mod origin;
pub(crate) mod outbox;
pub mod tls;
pub(crate) mod watchdog;
