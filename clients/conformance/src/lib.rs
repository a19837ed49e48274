//! A scripted server that plays cases to client libraries in any language; `docs/clients.md` specifies these.
//!
//! `README.md` describes the protocol and the format of `cases.json`.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`request`] | Requests, as they arrive |
//! | [`case`] | Cases, as `cases.json` has them |
//! | [`node`] | What a node would answer |
//! | [`stage`] | Plays a case |
//! | [`verdict`] | Judges the requests of a case |
//! | [`control`] | What a client's test talks to |

pub mod case;
pub mod control;
pub mod node;
pub mod request;
pub mod stage;
pub mod verdict;
