//! Takes over the tags of another system, as it left them.

use mintleaf_raft::PROPOSAL_BYTES_MAX;
use tokio::time::Instant;

use super::audit;
use super::error::Error;
use super::log_access::{Consistency, refresh};
use super::tag_creation::{AT_ONCE_MAX, TagCreation};
use crate::limits::{
    ACTOR_CHARS_MAX, DESCRIPTION_CHARS_MAX, IMPORT_CHARS_MAX, TAG_CHANGE_MAX, TAG_CHARS_MAX,
};
use crate::replica::Replica;
use crate::state::{Actor, Change, Command, Response};
use crate::tag::BizTag;

/// Tags of one proposal: so many of the longest fit one, and they wait for no more places than there are.
const TOGETHER_MAX: usize = 12;
/// Bytes of the longest of these commands: its texts, and at most 64 bytes besides.
const COMMAND_BYTES_MAX: usize =
    4 * (TAG_CHARS_MAX + DESCRIPTION_CHARS_MAX + IMPORT_CHARS_MAX + ACTOR_CHARS_MAX) + 64;
const _: () = assert!(TOGETHER_MAX <= AT_ONCE_MAX as usize);
const _: () = assert!(TOGETHER_MAX * COMMAND_BYTES_MAX <= PROPOSAL_BYTES_MAX);

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

/// Imports these tags, [`TOGETHER_MAX`] by one proposal. What is wrong with one of them in this cluster does not keep the
/// others out.
pub(super) async fn import(
    creation: &TagCreation,
    actor: &Actor,
    import: &str,
    tags: Vec<TagToImport>,
) -> ImportOutcomes {
    let deadline = Instant::now() + TAG_CHANGE_MAX;
    let mut outcomes = ImportOutcomes::with_capacity(tags.len());
    let mut tags = tags.into_iter().peekable();
    while tags.peek().is_some() {
        let some = tags.by_ref().take(TOGETHER_MAX);
        let (names, changes): (Vec<BizTag>, Vec<Command>) = some
            .map(|TagToImport { tag, step, max_id, description }| {
                let import = import.into();
                let name = tag.clone();
                let change = Change::ImportTag { import, tag, step, max_id, description };
                (name, audit::command(actor, &change))
            })
            .unzip();
        let responses = match changes.iter().try_for_each(Command::check) {
            Ok(()) => creation.import(names, changes, deadline).await,
            Err(bound) => vec![Err(bound.into()); names.len()],
        };
        outcomes.extend(responses.into_iter().map(|response| match response? {
            Response::Imported { before, row } => Ok((imported(before, row.max_id), row.max_id)),
            rejection => Err(Error::rejected(&creation.replica, &rejection)),
        }));
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
