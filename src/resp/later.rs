//! Commands whose reply has to be waited for, other than those for ids.

use tokio::time::timeout;

use super::pending;
use super::reply::Reply;
use super::slots::SlotsView;
use crate::limits::REQUEST_MAX;
use crate::metrics::Mode;
use crate::service::{Error, IdService, KeyName, LastNumber, Services};

/// A command whose reply is still to come.
#[derive(Debug)]
pub(super) enum LaterReply {
    /// The last number of a key.
    LastOfKey(KeyName),
    /// Which nodes serve now, and their slots.
    Slots(SlotsView),
    /// Whether a tag with this first id was created.
    Created { tag: String, start: u64, reply: CreatedReply },
}

/// How a reply says whether a tag was created.
#[derive(Clone, Copy, Debug)]
pub(super) enum CreatedReply {
    /// 1 or 0, to `SETNX`.
    Integer,
    /// `OK` or null, to `SET`.
    OkOrNull,
}

impl LaterReply {
    /// The mode that counts the command.
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::LastOfKey(_) => Mode::Sequence,
            Self::Slots(_) => Mode::Admin,
            Self::Created { .. } => Mode::Segment,
        }
    }

    /// Waits for what the command asks, and returns the reply.
    pub(super) async fn written(self, services: &Services, resp3: bool) -> Vec<u8> {
        let (mode, mut out) = (self.mode(), Vec::new());
        let mut reply = Reply { out: &mut out, resp3 };
        let written = timeout(REQUEST_MAX, self.write(services, &mut reply)).await;
        let late = |_| Err(Error::unavailable("no answer could be had in time"));
        if let Err(error) = written.unwrap_or_else(late) {
            let code = pending::refuse(&error, &mut Reply { out: &mut out, resp3 });
            services.ids.metrics().request_failed(mode, code);
        }
        out
    }

    /// Writes the reply once there is one, and nothing before.
    async fn write(self, services: &Services, reply: &mut Reply<'_>) -> Result<(), Error> {
        match self {
            Self::LastOfKey(of) => last_of_key(&services.ids, of, reply).await?,
            Self::Slots(view) => {
                let cluster = &services.cluster;
                let nodes = cluster.redis_nodes().await;
                view.write(&nodes, (cluster.node_id(), cluster.redis_address()), reply);
            }
            Self::Created { tag, start, reply: style } => {
                match (services.ids.create_if_new(&tag, start).await?, style) {
                    (created, CreatedReply::Integer) => reply.integer(u64::from(created)),
                    (true, CreatedReply::OkOrNull) => reply.ok(),
                    (false, CreatedReply::OkOrNull) => reply.null(),
                }
            }
        }
        Ok(())
    }
}

/// Writes the last number of a key, or one that it cannot exceed; null where nothing was given.
async fn last_of_key(ids: &IdService, of: KeyName, reply: &mut Reply<'_>) -> Result<(), Error> {
    match ids.last_of_key(of).await? {
        LastNumber { number: Some(number), .. } => reply.digits(number),
        LastNumber { number: None, .. } => reply.null(),
    }
    Ok(())
}
