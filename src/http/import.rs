//! `/v1/import`: tags of another system, taken over as it left them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use mintleaf_core::limits::{ID_END, STEP_DEFAULT, STEP_MAX};
use mintleaf_core::tag::{BizTag, check_import};
use serde::Serialize;

use super::access::Sender;
use super::body::{Fields, required};
use super::problem::Problem;
use super::tags;
use crate::limits::IMPORT_TAGS_MAX;
use crate::service::{Imported, TagService, TagToImport};

pub(super) async fn take_over(
    State(service): State<Arc<TagService>>,
    sender: Sender,
    mut fields: Fields,
) -> Result<Json<Outcomes>, Problem> {
    let import = required("import", fields.text("import")?)?;
    // By apply as well; but a dry run proposes nothing.
    check_import(&import).map_err(|error| Problem::invalid_argument(error.to_string()))?;
    let given = required("tags", fields.objects("tags", IMPORT_TAGS_MAX)?)?;
    let dry_run = fields.flag("dry_run")?.unwrap_or(false);
    fields.finish()?;
    let given = given.into_iter().map(to_import).collect::<Result<Vec<_>, _>>()?;
    let mut outcomes = Vec::with_capacity(given.len());
    let mut allowed = Vec::with_capacity(given.len());
    for given in given {
        outcomes.push(sender.check(&given.tag).err().map(|problem| refused(&given.tag, problem)));
        if outcomes.last().is_some_and(Option::is_none) {
            allowed.push(given);
        }
    }
    let names: Vec<BizTag> = allowed.iter().map(|given| given.tag.clone()).collect();
    let done = match dry_run {
        true => service.plan_import(&allowed).await?,
        false => service.import(&sender.actor(), &import, allowed).await,
    };
    let mut done = names.iter().zip(done).map(|(tag, outcome)| match outcome {
        Ok((imported, max_id)) => carried_out(tag, imported, max_id),
        Err(error) => refused(tag, error.into()),
    });
    let tags = outcomes.into_iter().filter_map(|refused| refused.or_else(|| done.next())).collect();
    Ok(Json(Outcomes { tags }))
}

fn to_import(mut fields: Fields) -> Result<TagToImport, Problem> {
    let tag = required("tag", fields.text("tag")?)?;
    let tag = BizTag::parse(&tag).map_err(|error| Problem::invalid_argument(error.to_string()))?;
    let max_id = required("max_id", fields.big_integer("max_id", 1..=ID_END)?)?;
    let step = fields.integer("step", 1..=STEP_MAX)?.unwrap_or(STEP_DEFAULT);
    let description = tags::description(&mut fields)?.unwrap_or_default();
    fields.finish()?;
    Ok(TagToImport { tag, step, max_id, description })
}

/// The outcome for each tag, in the order of the request.
#[derive(Serialize)]
pub(super) struct Outcomes {
    tags: Vec<Outcome>,
}

#[derive(Serialize)]
struct Outcome {
    tag: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

fn carried_out(tag: &BizTag, imported: Imported, max_id: u64) -> Outcome {
    let outcome = match imported {
        Imported::Created => "created",
        Imported::Raised => "raised",
        Imported::Unchanged => "unchanged",
    };
    let max_id = Some(max_id.to_string());
    Outcome { tag: tag.to_string(), outcome, max_id, code: None, detail: None }
}

fn refused(tag: &BizTag, problem: Problem) -> Outcome {
    let (code, detail) = (Some(problem.code()), Some(problem.into_detail()));
    Outcome { tag: tag.to_string(), outcome: "refused", max_id: None, code, detail }
}
