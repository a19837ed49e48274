//! Takes over the tags of another system, as it left them.

use std::collections::BTreeMap;

use mintleaf_core::limits::{
    ACTOR_CHARS_MAX, DESCRIPTION_CHARS_MAX, IMPORT_CHARS_MAX, TAG_CHARS_MAX,
};
use mintleaf_core::state::{Actor, Change, Command, Response};
use mintleaf_core::tag::BizTag;
use mintleaf_raft::PROPOSAL_BYTES_MAX;
use tokio::time::Instant;

use super::audit;
use super::notes::all_take_note;
use super::tag_creation::AT_ONCE_MAX;
use super::tags::TagService;
use crate::limits::TAG_CHANGE_MAX;
use crate::replica::Replica;
use crate::service::error::Error;
use crate::service::log_access::{Consistency, refresh};

/// Bytes of a command besides its texts, at most.
const COMMAND_BYTES: usize = 64;
/// Bytes of the longest command. One proposal takes several commands.
const COMMAND_BYTES_MAX: usize = COMMAND_BYTES
    + 4 * (TAG_CHARS_MAX + DESCRIPTION_CHARS_MAX + IMPORT_CHARS_MAX + ACTOR_CHARS_MAX);
const _: () = assert!(COMMAND_BYTES_MAX <= PROPOSAL_BYTES_MAX);

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

/// The outcome for each tag, with the tag's mark now, in the order of the given tags.
pub type ImportOutcomes = Vec<Result<(Imported, u64), Error>>;

impl TagService {
    /// Imports tags of another system, each by itself: creates them at their marks, or raises them to there. As many
    /// share a proposal as fit. What is wrong with one of them in this cluster does not keep the others out.
    pub async fn import(
        &self,
        actor: &Actor,
        import: &str,
        tags: Vec<TagToImport>,
    ) -> ImportOutcomes {
        let deadline = Instant::now() + TAG_CHANGE_MAX;
        let mut outcomes: Vec<_> = match refused_names(&self.parts.replica, &tags).await {
            Ok(refused) => refused.into_iter().map(|refused| refused.map(Err)).collect(),
            Err(error) => return vec![Err(error); tags.len()],
        };
        let of_all = COMMAND_BYTES + actor.as_str().len() + import.len();
        let bytes =
            |given: &TagToImport| of_all + given.tag.as_str().len() + given.description.len();
        let is_left = |at: &usize| outcomes[*at].is_none();
        let left: Vec<usize> = (0..tags.len()).filter(is_left).collect();
        let mut left = left.as_slice();
        while !left.is_empty() {
            let mut room = PROPOSAL_BYTES_MAX;
            let fits = |at: &&usize| {
                let fits = bytes(&tags[**at]) <= room;
                room = room.saturating_sub(bytes(&tags[**at]));
                fits
            };
            let count = left.iter().take(AT_ONCE_MAX as usize).take_while(fits).count().max(1);
            let (together, rest) = left.split_at(count);
            let names: Vec<BizTag> = together.iter().map(|at| tags[*at].tag.clone()).collect();
            let commands: Vec<Command> =
                together.iter().map(|at| command(actor, import, &tags[*at])).collect();
            let responses = match commands.iter().try_for_each(Command::check) {
                Ok(()) => self.creation.import(names, commands, deadline).await,
                Err(bound) => vec![Err(bound.into()); count],
            };
            for (at, response) in together.iter().zip(responses) {
                outcomes[*at] = Some(response.and_then(|response| match response {
                    Response::Imported { before, row } => {
                        Ok((imported(before, row.max_id), row.max_id))
                    }
                    Response::OtherShape => Err(shaped()),
                    rejection => Err(Error::rejected(&self.parts.replica, &rejection)),
                }));
            }
            left = rest;
        }
        let outcomes: ImportOutcomes = outcomes.into_iter().flatten().collect();
        // A mark that changes no row may lie above ids that nodes hold.
        let is_mark = |it: &_| matches!(it, Ok((Imported::Raised | Imported::Unchanged, _)));
        if outcomes.iter().any(is_mark) {
            all_take_note(&self.parts.replica).await;
        }
        log(actor, import, &outcomes);
        outcomes
    }

    /// What importing these tags would do, if nothing changed before.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a quorum.
    pub async fn plan_import<'tags>(
        &self,
        tags: &'tags [TagToImport],
    ) -> Result<ImportOutcomes, Error> {
        refresh(&self.parts.replica, Consistency::Linearizable).await?;
        // The marks that tags have by then: one may be named several times.
        let mut marks: BTreeMap<&str, u64> = BTreeMap::new();
        let planned = |given: &'tags TagToImport| {
            let name = given.tag.as_str();
            let (row, shape) =
                self.parts.replica.read(|state| (state.tag(name), state.shape(name).cloned()));
            let is_refused = match (&row, &shape) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(_), Some(shape)) => !shape.takes_max_id(),
            };
            if is_refused {
                return Err(shaped());
            }
            let before = marks.get(name).copied().or(row.map(|row| row.max_id));
            if before.is_none() {
                given.tag.check_new()?;
            }
            let first = || self.parts.replica.read(|state| state.first_mark(name, given.max_id));
            let after = before.map_or_else(first, |mark| mark.max(given.max_id));
            marks.insert(name, after);
            Ok((imported(before, after), after))
        };
        Ok(tags.iter().map(planned).collect())
    }
}

fn command(actor: &Actor, import: &str, given: &TagToImport) -> Command {
    let TagToImport { tag, step, max_id, description } = given.clone();
    audit::command(
        actor,
        &Change::ImportTag { import: import.into(), tag, step, max_id, description },
    )
}

/// The error of each tag that would be created under a name that no new tag may have. The tag may have been created
/// where this node's copy is behind, so it is looked at again behind a read barrier.
///
/// # Errors
/// [`Error::Unavailable`] without a quorum.
async fn refused_names(
    replica: &Replica,
    tags: &[TagToImport],
) -> Result<Vec<Option<Error>>, Error> {
    let refused = |given: &TagToImport| {
        let is_new = replica.read(|state| state.tag(given.tag.as_str()).is_none());
        is_new.then(|| given.tag.check_new().err()).flatten().map(Error::from)
    };
    if tags.iter().any(|given| refused(given).is_some()) {
        refresh(replica, Consistency::Linearizable).await?;
    }
    Ok(tags.iter().map(refused).collect())
}

/// The error for a mark, where the name's tag has or had a shape with its own kind of lines.
fn shaped() -> Error {
    let why = "tag has or had a shape (kind, order, period, format or digits) that a mark of another system does \
               not fit";
    Error::invalid("tag", why)
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
