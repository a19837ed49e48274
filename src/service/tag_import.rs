//! Takes over the tags of another system, as it left them.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::audit;
use super::error::Error;
use super::log_access::{Consistency, refresh};
use super::tag_creation::TagCreation;
use crate::limits::TAG_CHANGE_MAX;
use crate::replica::Replica;
use crate::state::{Actor, Change};
use crate::tag::BizTag;

/// One tag as another system left it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TagToImport {
    /// Its name.
    pub tag: BizTag,
    /// Ids per grab, if the tag is new here.
    pub step: u32,
    /// The first id that the other system has not given.
    pub max_id: u64,
    /// Free text, if the tag is new here.
    pub description: String,
}

/// What an import did to a tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Imported {
    /// The tag was created.
    Created,
    /// The tag's mark was raised.
    Raised,
    /// The tag had a mark that was as high already.
    Unchanged,
}

/// What became of each tag, and its mark now, in the order in which they were given.
pub type ImportOutcomes = Vec<Result<(Imported, u64), Error>>;

/// Imports these tags, each by itself: what is wrong with one does not keep the others out. All of them are
/// under way at the same time, so their number is for the caller to bound.
pub(super) async fn import(
    creation: &Arc<TagCreation>,
    actor: &Actor,
    import: &str,
    tags: Vec<TagToImport>,
) -> ImportOutcomes {
    let deadline = Instant::now() + TAG_CHANGE_MAX;
    let mut under_way = JoinSet::new();
    let mut outcomes: ImportOutcomes = Vec::with_capacity(tags.len());
    for (at, TagToImport { tag, step, max_id, description }) in tags.into_iter().enumerate() {
        outcomes.push(Err(Error::unavailable("this node is stopping")));
        let name = tag.clone();
        let change = Change::ImportTag { import: import.into(), tag, step, max_id, description };
        let command = audit::command(actor, &change);
        let creation = Arc::clone(creation);
        under_way.spawn(async move { (at, creation.import(command, &name, deadline).await) });
    }
    // A task that does not end by itself ends with this process.
    while let Some(Ok((at, outcome))) = under_way.join_next().await {
        outcomes[at] = outcome.map(|(before, row)| (imported(before, row.max_id), row.max_id));
    }
    log(actor, import, &outcomes);
    outcomes
}

/// What importing these tags would do, if nothing changed before.
///
/// # Errors
/// [`Error::Unavailable`] without a quorum.
pub(super) async fn plan(replica: &Replica, tags: &[TagToImport]) -> Result<ImportOutcomes, Error> {
    refresh(replica, Consistency::Linearizable).await?;
    let planned = |given: &TagToImport| {
        let before = replica.read(|state| state.tag(given.tag.as_str())).map(|row| row.max_id);
        let after = before.map_or(given.max_id, |mark| mark.max(given.max_id));
        Ok((imported(before, after), after))
    };
    Ok(tags.iter().map(planned).collect())
}

fn imported(before: Option<u64>, after: u64) -> Imported {
    match before {
        None => Imported::Created,
        Some(mark) if mark < after => Imported::Raised,
        Some(_) => Imported::Unchanged,
    }
}

/// Writes one log line for the tags that one request has changed.
fn log(actor: &Actor, import: &str, outcomes: &ImportOutcomes) {
    let count = |what| {
        outcomes.iter().filter(|outcome| matches!(outcome, Ok((done, _)) if *done == what)).count()
    };
    let (created, raised) = (count(Imported::Created), count(Imported::Raised));
    if created + raised > 0 {
        audit::log_import(actor, import, created, raised);
    }
}
