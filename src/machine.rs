//! What a node asks of its machine: [`clock`], a trait over the machine's clocks, and [`entropy`], random numbers.

pub mod clock;
pub mod entropy;
