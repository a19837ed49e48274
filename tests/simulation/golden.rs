//! Golden traces: the messages between the nodes of a small cluster, in files for readers.
//!
//! `traces/NAME.txt` is the trace of the scene NAME. `scripts/simulate --traces` plays every scene again and
//! compares its trace byte by byte; with `--rewrite` it rewrites the files.

mod narrator;
mod scenes;
mod stage;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use narrator::{Fate, Narrator};
pub(crate) use scenes::Scene;
use scenes::{SCENES, play};
use stage::SEED;

use crate::simulated;

impl Scene {
    /// The scene of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SCENES.iter().find(|scene| scene.name == name)
    }
}

/// Plays a scene in this process, and prints the contents of its file. Returns whether the scene was completed.
pub(crate) fn play_here(scene: &Scene) -> bool {
    let (played, panics) = simulated::run(SEED, async |dir| play(scene, dir).await);
    match &played {
        Ok(trace) => print!("{}", content(scene, trace)),
        Err(why) => println!("{why}"),
    }
    panics.iter().for_each(|panic| println!("{panic}"));
    played.is_ok() && panics.is_empty()
}

/// Plays every scene and compares its trace with its file. Returns whether all traces are unchanged.
pub(crate) fn compare_all() -> bool {
    let mut differing = 0;
    for scene in &SCENES {
        let path = path(scene);
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        match played(scene) {
            Ok(now) if now == kept => continue,
            Ok(now) => println!("{} differs:\n{}", path.display(), difference(&kept, &now)),
            Err(why) => println!("scene {}: {why}", scene.name),
        }
        differing += 1;
    }
    let count = SCENES.len();
    match differing {
        0 => println!("{count} golden traces are as they were"),
        _ => println!(
            "{differing} of {count} golden traces differ; if that is meant: \
             scripts/simulate --traces --rewrite"
        ),
    }
    differing == 0
}

/// Plays every scene and rewrites its file. Returns whether all scenes were completed.
pub(crate) fn rewrite_all() -> bool {
    let mut is_complete = true;
    for scene in &SCENES {
        match played(scene) {
            Ok(now) => std::fs::write(path(scene), now).expect("a trace can be written"),
            Err(why) => {
                is_complete = false;
                println!("scene {}: {why}", scene.name);
            }
        }
    }
    if is_complete {
        println!("{} golden traces were written", SCENES.len());
    }
    is_complete
}

/// The file of a scene's trace.
fn path(scene: &Scene) -> PathBuf {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/traces");
    traces.join(scene.name).with_extension("txt")
}

/// The contents of a scene's file.
fn content(scene: &Scene, trace: &str) -> String {
    let mut content = String::new();
    for line in scene.head.lines() {
        let _ = writeln!(content, "{}", format!("# {line}").trim_end());
    }
    content + "\n" + trace
}

/// Plays a scene in a separate process, as every run of the simulation. Returns the contents of its file.
fn played(scene: &Scene) -> Result<String, String> {
    let executable = std::env::current_exe().expect("this program has a path");
    let output = Command::new(executable).args(["--trace", scene.name]).output();
    let output = output.expect("this program can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stdout) + &text(&output.stderr)),
    }
}

/// The lines that only one of two texts has, according to their longest common subsequence: `-` for lines of
/// the file, `+` for lines of the new trace.
fn difference(kept: &str, now: &str) -> String {
    let (kept, now): (Vec<_>, Vec<_>) = (kept.lines().collect(), now.lines().collect());
    // The number of common lines of the remainders of both texts.
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
