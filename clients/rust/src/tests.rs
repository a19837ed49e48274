//! The cases of `docs/clients.md` that need no network: a script answers, and time passes when everybody waits.
//!
//! | file | which cases |
//! | --- | --- |
//! | `script` | what answers |
//! | `nodes` | nodes that die, linger, rest and come back |
//! | `leases` | sizes, flights, threads and old snowflakes |
//! | `shapes` | what is never kept, texts and sequences |
//! | `refusals` | what is asked again, when, and what is not |
//! | `closing` | the end of a client |

mod closing;
mod leases;
mod nodes;
mod refusals;
mod script;
mod shapes;
