//! Mintleaf mints ids; no two leaves alike.
pub mod cli;
pub mod clock;
pub mod config;
pub mod entropy;
pub mod http;
pub mod metrics;
pub mod replica;
pub mod segment;
pub mod server;
pub mod service;
pub mod state;
pub mod tag;
