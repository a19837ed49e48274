//! Names the commit that is built, for `mintleaf --version`. The same commit gives the same name: no time, no path
//! and no network comes in. Changes that are not committed do not show.

use std::path::Path;
use std::process::Command;

/// What to call a build of which no commit is known.
const UNKNOWN: &str = "unknown";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MINTLEAF_COMMIT");
    // Where the sources are built without their repository, as in a container, the variable names the commit.
    #[expect(clippy::disallowed_methods)] // Of the build, and no setting of a node.
    let given = std::env::var("MINTLEAF_COMMIT").ok().filter(|commit| is_commit(commit));
    let commit =
        given.or_else(of_repository).or_else(of_package).unwrap_or_else(|| UNKNOWN.to_owned());
    println!("cargo::rustc-env=MINTLEAF_COMMIT={commit}");
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo::rustc-env=MINTLEAF_VERSION_AND_COMMIT={version} ({commit})");
}

/// The commit that is checked out, if these sources have a repository of their own.
fn of_repository() -> Option<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Sources that were unpacked inside of another repository are none of its commits.
    let root = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&root).canonicalize().ok()? != sources.canonicalize().ok()? {
        return None;
    }
    // Every commit and every checkout writes to the second; a path that is not there would be looked at each time.
    for path in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", path])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"]).filter(|commit| is_commit(commit))
}

/// The commit that `cargo package` made these sources of, as `cargo install mintleaf` unpacks them.
fn of_package() -> Option<String> {
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cargo_vcs_info.json");
    let written = std::fs::read_to_string(written).ok()?;
    let (_, behind) = written.split_once("\"sha1\": \"")?;
    behind.get(..12).filter(|commit| is_commit(commit)).map(str::to_owned)
}

fn is_commit(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The one line that git answers in the directory of the sources; `None` where there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let asked =
        Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let answer = asked.ok().filter(|answer| answer.status.success())?;
    Some(String::from_utf8(answer.stdout).ok()?.trim().to_owned()).filter(|line| !line.is_empty())
}
