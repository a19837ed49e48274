//! What a node does with the requests of its peers.

mod handler;
mod leader_checks;
mod vouchers;

pub(crate) use handler::RpcHandler;
