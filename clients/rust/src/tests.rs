//! The cases of `clients/conformance` that need no network. A script answers, and time passes when all tasks wait.
//!
//! | file | which cases |
//! | --- | --- |
//! | `script` | the endpoints' answers |
//! | `nodes` | nodes that die, hang, rest and come back |
//! | `leases` | sizes, flights, threads and old snowflakes |
//! | `shapes` | ids that are never kept, texts and sequences |
//! | `refusals` | which requests are repeated, when, and which are not |
//! | `closing` | closing a client |

mod closing;
mod leases;
mod nodes;
mod refusals;
mod script;
mod shapes;
