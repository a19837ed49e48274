//! What a directory holds before `dev` begins in it. Only a cluster's own data knows the ids that it has given. So
//! `dev` begins a new cluster only where it finds none, and goes on only with a whole one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mintleaf_raft::is_data_dir;

use super::failure::NodeFailure;

/// Refuses a directory that is itself a node's, or that holds another number of nodes than `nodes`, or only a part of
/// them.
///
/// # Errors
/// [`NodeFailure::Data`], or [`NodeFailure::Usage`] where another `--nodes` fits; both name what is there, and what
/// helps.
pub(super) fn refuse_other_data(data: &Path, nodes: u8) -> Result<(), NodeFailure> {
    let shown = data.display();
    if is_data_dir(data) {
        return Err(NodeFailure::Data(format!(
            "{shown} is the data directory of a single node, as mintleaf serve makes it: go on with mintleaf serve \
             --data {shown}, or give dev another --data"
        )));
    }
    let present = nodes_in(data);
    let Some(&last) = present.last() else { return Ok(()) };
    let missing: Vec<String> =
        (1..=last).filter(|number| !present.contains(number)).map(directory).collect();
    if !missing.is_empty() {
        let present: Vec<String> = present.into_iter().map(directory).collect();
        return Err(NodeFailure::Data(format!(
            "{shown} holds {} and lacks {}, without which a new cluster would give ids a second time: put that back, \
             or give another --data",
            present.join(", "),
            missing.join(", ")
        )));
    }
    if last != u64::from(nodes) {
        return Err(NodeFailure::Usage(format!(
            "{shown} holds a cluster of {last}: run dev with --nodes {last}, or give another --data"
        )));
    }
    Ok(())
}

fn directory(number: u64) -> String {
    format!("node-{number}")
}

/// The numbers of the nodes that a directory holds.
fn nodes_in(data: &Path) -> BTreeSet<u64> {
    let entries = fs::read_dir(data).into_iter().flatten().flatten();
    let number = |name: &str| {
        let number: u64 = name.strip_prefix("node-")?.parse().ok()?;
        (number > 0 && directory(number) == name).then_some(number)
    };
    entries.filter_map(|entry| number(&entry.file_name().to_string_lossy())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why a cluster of `nodes` nodes refuses a directory with these entries.
    fn refused(entries: &[&str], nodes: u8) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        entries.iter().for_each(|entry| fs::create_dir(dir.path().join(entry)).unwrap());
        refuse_other_data(dir.path(), nodes).err().map(|failure| failure.to_string())
    }

    #[test]
    fn a_cluster_begins_where_there_is_none_and_goes_on_where_all_of_it_is() {
        for (entries, nodes) in [
            (&[][..], 3),
            (&["lost+found", "node-", "node-x", "node-01", "node-0"], 1),
            (&["node-1"], 1),
            (&["node-1", "node-2", "node-3"], 3),
        ] {
            assert_eq!(refused(entries, nodes), None, "{entries:?}");
        }
        let nowhere = Path::new("/nowhere/at/all");
        assert!(refuse_other_data(nowhere, 1).is_ok(), "it is made");
    }

    #[test]
    fn what_is_there_is_named_with_what_helps() {
        for (entries, nodes, told) in [
            (&["node-1"][..], 3, "holds a cluster of 1: run dev with --nodes 1"),
            (&["node-1", "node-2", "node-3"], 1, "holds a cluster of 3: run dev with --nodes 3"),
            (&["node-2", "node-3"], 1, "holds node-2, node-3 and lacks node-1"),
            (&["node-2", "node-3"], 3, "holds node-2, node-3 and lacks node-1"),
            (&["node-1", "node-3"], 1, "holds node-1, node-3 and lacks node-2"),
            (&["identity", "node-1"], 1, "go on with mintleaf serve --data"),
        ] {
            let why = refused(entries, nodes).unwrap_or_default();
            assert!(why.contains(told), "{entries:?}: {why}");
        }
    }
}
