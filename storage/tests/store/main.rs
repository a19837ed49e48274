//! The store from outside: what it keeps through closing, crashing and damage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod crash;
mod damage;
mod dir;
mod engine;
mod legacy;
mod model;
mod power;
mod snapshot;
mod stopped;
