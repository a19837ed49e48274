//! Golden traces: what the nodes of a small cluster say to each other, in files that people read.
//!
//! `traces/NAME.txt` is the trace of the scene NAME. `scripts/simulate --traces` plays every scene again
//! and compares, to the byte; `--rewrite` writes the files anew.

mod narrator;
mod scenes;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub(crate) use narrator::{Fate, Narrator};
pub(crate) use scenes::Scene;
use scenes::{SCENES, SEED, play};

use crate::simulated;

impl Scene {
    /// The scene of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SCENES.iter().find(|scene| scene.name == name)
    }
}

/// Plays a scene in this process, and prints what belongs into its file.
pub(crate) fn play_here(scene: &Scene) -> ExitCode {
    let (played, panics) = simulated::run(SEED, async |dir| play(scene, dir).await);
    match played {
        Ok(trace) if panics.is_empty() => print!("{}", content(scene, &trace)),
        Ok(trace) => {
            println!(
                "{}
{trace}",
                panics.join("\n")
            );
            return ExitCode::FAILURE;
        }
        Err(why) => {
            println!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The file of a scene's trace.
fn path(scene: &Scene) -> PathBuf {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/traces");
    traces.join(scene.name).with_extension("txt")
}

/// What belongs into the file of a scene.
fn content(scene: &Scene, trace: &str) -> String {
    let mut content = String::new();
    for line in scene.head.lines() {
        let _ = writeln!(content, "{}", format!("# {line}").trim_end());
    }
    content + "\n" + trace
}

/// Plays every scene, each in a process of its own, and compares its trace with its file, or writes the
/// file anew. Fails when one differs.
pub(crate) fn check_all(rewrites: bool) -> ExitCode {
    let mut failed = 0;
    for scene in &SCENES {
        let path = path(scene);
        match replayed(scene) {
            Ok(now) if rewrites => std::fs::write(&path, now).expect("a trace can be written"),
            Ok(now) => {
                let kept = std::fs::read_to_string(&path).unwrap_or_default();
                if kept != now {
                    failed += 1;
                    println!("{} differs:\n{}", path.display(), difference(&kept, &now));
                }
            }
            Err(why) => {
                failed += 1;
                println!("scene {}: {why}", scene.name);
            }
        }
    }
    let count = SCENES.len();
    match (rewrites, failed) {
        (_, 1..) => {
            println!(
                "{failed} of {count} traces differ. Where that is meant: scripts/simulate --traces --rewrite"
            );
            return ExitCode::FAILURE;
        }
        (true, _) => println!("{count} traces were written"),
        (false, _) => println!("{count} traces are as they were"),
    }
    ExitCode::SUCCESS
}

/// What belongs into the file of a scene, by a process of its own.
fn replayed(scene: &Scene) -> Result<String, String> {
    let executable = std::env::current_exe().expect("this program has a path");
    let output = Command::new(executable).args(["--trace", scene.name]).output();
    let output = output.expect("this program can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stdout) + &text(&output.stderr)),
    }
}

/// The lines that only one of two texts has, by their longest common subsequence: `-` what is kept, `+`
/// what is there now.
fn difference(kept: &str, now: &str) -> String {
    let (kept, now): (Vec<_>, Vec<_>) = (kept.lines().collect(), now.lines().collect());
    // How many lines the rests of both have in common.
    let mut common = vec![vec![0_usize; now.len() + 1]; kept.len() + 1];
    for one in (0..kept.len()).rev() {
        for other in (0..now.len()).rev() {
            common[one][other] = match kept[one] == now[other] {
                true => common[one + 1][other + 1] + 1,
                false => common[one + 1][other].max(common[one][other + 1]),
            };
        }
    }
    let (mut one, mut other, mut shown) = (0, 0, String::new());
    while one < kept.len() || other < now.len() {
        let is_removed = one < kept.len()
            && (other == now.len() || common[one + 1][other] >= common[one][other + 1]);
        if one < kept.len() && other < now.len() && kept[one] == now[other] {
            (one, other) = (one + 1, other + 1);
        } else if is_removed {
            let _ = writeln!(shown, "- {}", kept[one]);
            one += 1;
        } else {
            let _ = writeln!(shown, "+ {}", now[other]);
            other += 1;
        }
    }
    shown
}
