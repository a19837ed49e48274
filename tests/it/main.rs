//! The product from outside: the real binary, real sockets, real data directories.
//!
//! ```text
//! kept                    an HTTP connection that stays open
//! harness                 the binary under test, for `mintleaf-harness`: processes, clusters, clients, load
//! api, hostile            one node as HTTP clients see it
//! exhaustion              clients that take all places, descriptors or memory
//! docs                    every command, name and link of the documents
//! resp                    one node as clients of the Redis protocol see it, including Redis' own
//! auth                    tokens and roles, over both protocols and in real clients
//! exposure                who can reach what: pages, proxies, strangers, and other users of the machine
//! tls                     TLS for clients, with certificates that change
//! cli                     the client commands, and what start-up refuses
//! import                  tables of Leaf and tinyid, through any node
//! marks                   raised marks bind what nodes hold
//! moving                  changes of tags while leadership moves, nodes drain, and nodes are removed
//! between_nodes           rogues, recordings, floods and new secrets at the ports between nodes
//! bootstrap               founders that exist twice, are cut off, killed, and lost
//! leaf_migration          from a real Leaf and back, under load
//! shaped, periods         tags with a format, hidden ids and periods; the last with clocks that jump
//! protection, audit       tags that are frozen or limited; who changed what
//! draining                a node that was asked to stop: out of rotation, its clients leave, a leader hands over
//! supervised              what a node reports to the service manager that started it
//! rolling                 three nodes rolled behind a load balancer, under load
//! releases                two releases in one cluster; what earlier releases have left on disk
//! leasing                 the client library in Rust, with nodes that are killed, hung, rolled, frozen and limited
//! warm_start              a restarted node holds ids of hot tags again
//! quorum_loss             what the last node reports
//! logs, unread_log        the log of a typical day; a log without a reader
//! alerts                  the dashboard, and rules that fire
//! strict                  ids that rise over all nodes, under any leader
//! granted                 ids lie in grants to processes, according to the nodes' logs
//! zones                   the zones of nodes
//! dev, ends, faults, full_disk, membership, mixups, poison, scale
//!                         nodes that are killed, paused, refused, removed, confused, deceived, and filled
//! restore                 backups, clusters that are made from them, and directories that were copied
//! pools                   worker ids that programs lease, over killed nodes
//! sequences               numbers of keys, over leaders that are killed and clusters that are restored
//! shapes                  tags that are strict, sequences, periods, formats and hidden, as they are made and kept
//! snowflake               time windows, with killed nodes and wrong clocks
//! ```
//!
//! Every process listens on separate ports, keeps its data in a separate directory, and ends
//! with the test that started it. Tests wait for what they need, up to a deadline; only a fault
//! lasts for a fixed time. `MINTLEAF_ROUNDS` and `MINTLEAF_TAGS` make the long tests longer, as do
//! `scripts/kill-test` and `scripts/clock-test`.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]
#![allow(clippy::disallowed_methods, reason = "tests poll other processes, which wake nobody here")]

mod alerts;
mod api;
mod audit;
mod auth;
mod between_nodes;
mod bootstrap;
mod cli;
mod dev;
mod docs;
mod draining;
mod ends;
mod exhaustion;
mod exposure;
mod faults;
mod flood;
mod full_disk;
mod granted;
mod harness;
mod hostile;
mod import;
mod json_numbers;
mod kept;
mod leaf_migration;
mod leasing;
mod logs;
mod marks;
mod membership;
mod mixups;
mod moving;
mod periods;
mod poison;
mod pools;
mod protection;
mod quorum_loss;
mod registers;
mod releases;
mod resp;
mod restore;
mod rolling;
mod scale;
mod sequences;
mod shaped;
mod shapes;
mod snowflake;
mod steps;
mod strict;
mod supervised;
mod tls;
mod unread_log;
mod warm_start;
mod zones;
