//! Ids in strict order.

mod confirmed;
#[cfg(test)]
mod model;
