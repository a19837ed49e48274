//! Plays `cases.json` to the tests of client libraries, until standard input ends.

use std::io::{Read, Write};

use mintleaf_conformance::{case::Cases, control};

/// The cases of this build.
const CASES: &str = include_str!("../cases.json");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cases: Cases = serde_json::from_str(CASES)?;
    let at = control::serve(cases)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", serde_json::json!({"control": format!("http://{at}")}))?;
    out.flush()?;
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    Ok(())
}
