//! `/v1/pools`: pools of worker ids for programs, and the leases of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use mintleaf_core::limits::{FLOOR_MS_MAX, LEASE_MS_MIN};
use mintleaf_core::snowflake::WorkerPool;
use mintleaf_core::state::{LeaseRow, PoolWorkers};
use mintleaf_core::tag::BizTag;
use serde::Serialize;

use super::access::Sender;
use super::body::{Fields, OptionalFields, required};
use super::decimal;
use super::problem::Problem;
use super::query::Query;
use crate::service::{LEASE_SECONDS_MAX, LeaseName, LeasedWorker, PoolPage, PoolService, PoolView};
use crate::text::path_segment;

type Pools = State<Arc<PoolService>>;

/// Leases on one page, at most and by default.
const PAGE_LEASES_MAX: usize = 1_000;
/// The shortest lease, in seconds.
const LEASE_SECONDS_MIN: u64 = LEASE_MS_MIN / 1_000;
/// A lease's seconds when none are given.
const LEASE_SECONDS_DEFAULT: u64 = 60;

/// A pool with its leases in answers.
#[derive(Serialize)]
pub(super) struct HoldersBody {
    pool: String,
    workers: String,
    size: u32,
    taken: Vec<u16>,
    shared: Vec<SharedBody>,
    holders: Vec<HolderBody>,
    /// The next page begins after this worker id; `None` on the last page.
    next: Option<u16>,
}

/// Worker ids that a pool has in common with another pool, or with the nodes: then `pool` is `None`.
#[derive(Serialize)]
struct SharedBody {
    pool: Option<String>,
    workers: String,
}

/// The holder of a worker id in answers. The lease is not shown: its name is the holder's proof.
#[derive(Serialize)]
struct HolderBody {
    worker_id: u16,
    holder: String,
    from_ms: String,
    until_ms: String,
}

#[derive(Serialize)]
pub(super) struct PoolsBody {
    pools: Vec<PoolView>,
}

/// A lease in answers to its holder.
#[derive(Serialize)]
pub(super) struct LeaseBody {
    pool: String,
    worker_id: u16,
    lease: String,
    from_ms: String,
    until_ms: String,
}

pub(super) async fn list(State(service): Pools, uri: Uri) -> Result<Json<PoolsBody>, Problem> {
    Query::parse(uri.query())?.finish()?;
    Ok(Json(PoolsBody { pools: service.list().await? }))
}

/// Makes a pool, or gives it more worker ids.
pub(super) async fn set(
    State(service): Pools,
    sender: Sender,
    uri: Uri,
    mut fields: Fields,
) -> Result<Json<HoldersBody>, Problem> {
    let pool = pool(&uri)?;
    let workers = required("workers", fields.text("workers")?)?;
    let invalid = |error| Problem::invalid("workers", error);
    let workers: WorkerPool = workers.parse().map_err(invalid)?;
    let taken = taken(&mut fields)?;
    fields.finish()?;
    service.set(&sender.actor(), &pool, workers, taken).await?;
    page(&service, &pool, None, PAGE_LEASES_MAX).await
}

pub(super) async fn get(State(service): Pools, uri: Uri) -> Result<Json<HoldersBody>, Problem> {
    let pool = pool(&uri)?;
    let mut query = Query::parse(uri.query())?;
    let after = query.integer("after", 0..=u16::MAX)?;
    let limit = query.integer("limit", 1..=PAGE_LEASES_MAX)?.unwrap_or(PAGE_LEASES_MAX);
    query.finish()?;
    page(&service, &pool, after, limit).await
}

pub(super) async fn delete(
    State(service): Pools,
    sender: Sender,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Query::parse(uri.query())?.finish()?;
    service.delete(&sender.actor(), &pool(&uri)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn lease(
    State(service): Pools,
    uri: Uri,
    OptionalFields(mut fields): OptionalFields,
) -> Result<(StatusCode, Json<LeaseBody>), Problem> {
    Query::parse(uri.query())?.finish()?;
    let pool = pool(&uri)?;
    let seconds = seconds(&mut fields)?;
    let holder = fields.text("holder")?.unwrap_or_default();
    fields.finish()?;
    let lease = service.lease(pool.clone(), &holder, seconds * 1_000).await?;
    Ok((StatusCode::CREATED, Json(LeaseBody::of(&pool, lease))))
}

pub(super) async fn renew(
    State(service): Pools,
    uri: Uri,
    OptionalFields(mut fields): OptionalFields,
) -> Result<Json<LeaseBody>, Problem> {
    Query::parse(uri.query())?.finish()?;
    let (pool, name) = (pool(&uri)?, lease_name(&uri)?);
    let seconds = seconds(&mut fields)?;
    fields.finish()?;
    let lease = service.renew(pool.clone(), name, seconds * 1_000).await?;
    Ok(Json(LeaseBody::of(&pool, lease)))
}

/// Ends a lease. `last_ms` is the last millisecond that its holder has stamped; the rest goes back to the pool.
pub(super) async fn give_back(
    State(service): Pools,
    uri: Uri,
    mut fields: Fields,
) -> Result<StatusCode, Problem> {
    let (pool, name) = (pool(&uri)?, lease_name(&uri)?);
    let last_ms = required("last_ms", fields.big_integer("last_ms", 0..=FLOOR_MS_MAX)?)?;
    fields.finish()?;
    service.give_back(pool, name, last_ms + 1).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn page(
    service: &PoolService,
    pool: &BizTag,
    after: Option<u16>,
    limit: usize,
) -> Result<Json<HoldersBody>, Problem> {
    // One more than the page has, so that it knows whether there are more.
    let PoolPage { workers, shared, mut leases } = service.get(pool, after, limit + 1).await?;
    let has_next = leases.len() > limit;
    leases.truncate(limit);
    let next = leases.last().map(|lease| lease.worker_id).filter(|_| has_next);
    let PoolWorkers { workers, taken } = workers;
    let shared = shared.into_iter().map(|(owner, workers)| SharedBody {
        pool: owner.map(|pool| pool.to_string()),
        workers: workers.to_string(),
    });
    Ok(Json(HoldersBody {
        pool: pool.to_string(),
        size: workers.size(),
        workers: workers.to_string(),
        taken: taken.iter().flat_map(WorkerPool::worker_ids).collect(),
        shared: shared.collect(),
        holders: leases.into_iter().map(HolderBody::from).collect(),
        next,
    }))
}

/// The worker ids that programs use without a lease: none for an empty list, those of before without one.
fn taken(fields: &mut Fields) -> Result<Option<Option<WorkerPool>>, Problem> {
    let Some(ids) = fields.integers("taken", 0..=u16::MAX)? else { return Ok(None) };
    if ids.is_empty() {
        return Ok(Some(None));
    }
    let taken = WorkerPool::of_ids(ids).map_err(|error| Problem::invalid("taken", error))?;
    Ok(Some(Some(taken)))
}

fn seconds(fields: &mut Fields) -> Result<u64, Problem> {
    let seconds = fields.integer("seconds", LEASE_SECONDS_MIN..=LEASE_SECONDS_MAX)?;
    Ok(seconds.unwrap_or(LEASE_SECONDS_DEFAULT))
}

/// The pool that a path names: `/v1/pools/{pool}` and what follows.
fn pool(uri: &Uri) -> Result<BizTag, Problem> {
    let name = uri.path().split('/').nth(3).and_then(path_segment::decode);
    let malformed = || Problem::invalid("pool", "has %-escapes that are malformed or not UTF-8");
    let name = name.ok_or_else(malformed)?;
    BizTag::parse(&name).map_err(|error| Problem::invalid_argument(error.of("pool")))
}

/// The lease that a path ends with, as [`LeaseBody`] has named it.
fn lease_name(uri: &Uri) -> Result<LeaseName, Problem> {
    let text = uri.path().rsplit('/').next().unwrap_or_default();
    let read = |text: &str| {
        let (worker_id, nonce) = text.split_once('-')?;
        let is_hex = nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        let worker_id = u16::try_from(decimal::parse(worker_id)?).ok()?;
        Some(LeaseName {
            worker_id,
            nonce: u128::from_str_radix(nonce, 16).ok().filter(|_| is_hex)?,
        })
    };
    read(text).ok_or_else(|| Problem::invalid("lease", "is not the name of a lease"))
}

impl LeaseBody {
    fn of(pool: &BizTag, lease: LeasedWorker) -> Self {
        let LeasedWorker { name: LeaseName { worker_id, nonce }, from_ms, until_ms } = lease;
        Self {
            pool: pool.to_string(),
            worker_id,
            lease: format!("{worker_id}-{nonce:032x}"),
            from_ms: from_ms.to_string(),
            until_ms: until_ms.to_string(),
        }
    }
}

impl From<LeaseRow> for HolderBody {
    fn from(row: LeaseRow) -> Self {
        Self {
            worker_id: row.worker_id,
            holder: row.holder,
            from_ms: row.from_ms.to_string(),
            until_ms: row.until_ms.to_string(),
        }
    }
}
