//! What ids mean, as functions of their inputs: no clock, no thread, no file and no network.
//!
//! Every node applies the same commands to the same [`state`], and walks the segments and windows that the log granted
//! it. The caller passes in times and random numbers. So the simulation and the tests run this code as it ships.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`limits`] | The bounds that clients meet |
//! | [`version`] | The name of this release |
//! | `specification` | What a cluster may do with its number lines; only with the feature of that name |
//! | [`snowflake`] | What the bits of a snowflake id mean; the generator of a process |
//! | [`tag`] | The names that a tag may have |
//! | [`steps`] | How many ids one grab of a tag may reserve |
//! | [`segment`] | The double buffer of a tag, and how many ids the next grab reserves |
//! | [`sequence`] | The counters of keys in bounded memory, and the sections of a tag's keys |
//! | [`shape`] | The look and the order of a tag's ids, and the lines that they come from |
//! | [`state`] | The replicated state, and the one function that changes it |
//! | [`encoding`] | The bytes of commands, responses and snapshots |
//! | [`backup`] | Backups: files that hold the whole state |

pub mod backup;
pub mod encoding;
pub mod limits;
pub mod segment;
pub mod sequence;
pub mod shape;
pub mod snowflake;
#[cfg(any(test, feature = "specification"))]
pub mod specification;
pub mod state;
pub mod steps;
pub mod tag;
pub mod version;
