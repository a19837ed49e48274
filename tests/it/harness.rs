//! What every test here begins with: the binary under test, and `mintleaf-harness`, which does the rest.

pub(crate) use mintleaf_harness::*;

/// The binary under test.
pub(crate) fn mintleaf() -> Binary {
    Binary::at(env!("CARGO_BIN_EXE_mintleaf"))
}
