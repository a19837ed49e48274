//! How founders form their cluster, in two steps: `bond.rs` has the rules, and why they hold.
//!
//! Every founder asks all others who they are, again and again, until it takes part in a cluster.
//! What it learns on the way: which cluster may take it in, which of those it bound are still to
//! hear that they are free, and whether it is free itself. The coordinator does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mintleaf_storage::planted;
use tokio::time::{Instant, sleep};

use crate::bond::{Answer, Bond, Offer, Plan, Standing, plan};
use crate::error::{NodeError, StopReason};
use crate::form::{Introduction, Known, Purpose, ROUND_INTERVAL};
use crate::guard::{self, Header, Identity, Refusal};
use crate::node::Inner;
use crate::runtime::{random_below, random_u128};
use crate::transport::{CallError, Request, Response};
use crate::types::Member;

/// A founder that waits says for whom this often.
const REMINDER_INTERVAL: Duration = Duration::from_secs(5);
/// How long a founder may take to write down its bond, or its end.
const BIND_TIMEOUT: Duration = Duration::from_secs(2);
/// A coordinator that has not bound everybody after this gives its id up, so that those whom it bound
/// are free for another while somebody is missing.
const BINDING_MAX: Duration = Duration::from_secs(5);
/// Two coordinators that were in each other's way wait for up to so long: far longer than binding
/// everybody takes, so that the next time one of them is first.
const RETREAT_MAX: Duration = Duration::from_secs(2);

/// What each of the other founders answered, and those that did as members.
type Answers = BTreeMap<u64, (Answer, Option<Member>)>;

/// What a round of asking came to.
enum Round {
    Formed,
    Missing(String),
    GivenUp(String),
}

impl Inner {
    /// The list of founders that this node was started with, in order; empty for who joins.
    pub(crate) fn founders(&self) -> String {
        let listed = self.options.peers.iter().map(|(id, address)| format!("{id}={address}"));
        listed.collect::<Vec<_>>().join(",")
    }

    /// Answers a coordinator's offer.
    pub(crate) async fn bind_for_coordinator(
        &self,
        header: Option<&Header>,
        offer: Offer,
    ) -> Result<Response, Refusal> {
        let from = header.map(|header| (header.from.node_id, header.from.store));
        if from != Some((offer.bond.coordinator, offer.bond.store)) {
            return Err(Refusal::Failed("the offer is not the sender's".to_owned()));
        }
        self.local.bind(&self.founders(), offer).await?;
        Ok(Response::Done)
    }

    /// Takes part in forming the cluster; returns once there is one that holds this node.
    pub(crate) async fn found(&self) -> Result<(), NodeError> {
        let (mut reminded, mut bound_since) = (Instant::now(), Instant::now());
        while self.formed().is_none() {
            let missing = match self.found_once(&mut bound_since).await? {
                Round::Formed => return Ok(()),
                Round::Missing(missing) => missing,
                Round::GivenUp(why) => {
                    tracing::warn!(%why, "gave up a cluster id, and draws another one soon");
                    sleep(random_below(RETREAT_MAX)).await;
                    why
                }
            };
            if reminded.elapsed() >= REMINDER_INTERVAL {
                reminded = Instant::now();
                self.remind(&missing);
                if self.is_known_otherwise().await {
                    let why = format!("no cluster can form: {}", guard::KNOWN_OTHERWISE);
                    return Err(NodeError::Stopped(StopReason::operator(why)));
                }
            }
            sleep(ROUND_INTERVAL).await;
        }
        Ok(())
    }

    /// Whether all other founders belong to one cluster that knows this node's id with another data
    /// directory. Then waiting is of no use. This directory holds nothing yet, so ending loses nothing.
    async fn is_known_otherwise(&self) -> bool {
        let mut clusters = BTreeSet::new();
        for (&id, address) in &self.options.peers {
            if id == self.local.node_id() {
                continue;
            }
            match self.say_hello(address, Purpose::Found { founders: self.founders() }).await {
                Ok((
                    from,
                    Introduction { cluster: Some(cluster), asker: Known::Otherwise, .. },
                )) if from.node_id == id => {
                    clusters.insert(cluster);
                }
                _ => return false,
            }
        }
        clusters.len() == 1
    }

    fn remind(&self, missing: &str) {
        match self.local.bond() {
            Some(bond) if bond.store != self.local.store() => {
                let bound = bond.refusal();
                tracing::warn!(%bound, %missing, "waiting for the cluster to form");
            }
            _ => tracing::info!(%missing, "waiting for the cluster to form"),
        }
    }

    async fn found_once(&self, bound_since: &mut Instant) -> Result<Round, NodeError> {
        let before = self.local.bond();
        let answers = self.ask_founders().await;
        self.settle_bonds(before, &answers).await;
        let (own, founders) = (self.local.bond(), self.founders());
        let coordinates = self.options.peers.keys().next() == Some(&self.local.node_id());
        let me = self.local.store();
        let said = answers.iter().map(|(&id, (answer, _))| (id, answer));
        let plan = plan(me, own.as_ref(), &founders, said);
        match own {
            Some(own) if own.store == me => {
                let why = match plan {
                    _ if !coordinates => "this node does not coordinate any more".to_owned(),
                    Plan::GiveUp(why) => why,
                    Plan::Wait(why) if bound_since.elapsed() >= BINDING_MAX => why,
                    _ if bound_since.elapsed() >= BINDING_MAX => "it took too long".to_owned(),
                    Plan::Wait(missing) => return Ok(Round::Missing(missing)),
                    Plan::Draw | Plan::Offer => return self.offer_to_all(own, answers).await,
                };
                self.give_up(own, why, &answers).await
            }
            None if coordinates && plan == Plan::Draw => {
                *bound_since = Instant::now();
                self.draw(founders, answers).await
            }
            None if coordinates => match plan {
                Plan::Wait(missing) => Ok(Round::Missing(missing)),
                _ => Ok(Round::Missing("this node's own bond".to_owned())),
            },
            _ => Ok(Round::Missing(missing_of(&answers))),
        }
    }

    async fn draw(&self, founders: String, answers: Answers) -> Result<Round, NodeError> {
        let (cluster, store) = (random_u128(), self.local.store());
        let bond = Bond { cluster, coordinator: self.local.node_id(), store, founders };
        if !self.local.bind_itself(bond.clone()).await? {
            return Ok(Round::Missing("this node was let in elsewhere".to_owned()));
        }
        self.offer_to_all(bond, answers).await
    }

    /// Binds every other founder to this coordinator's cluster, and forms it once all are.
    async fn offer_to_all(&self, bond: Bond, answers: Answers) -> Result<Round, NodeError> {
        let mut members = BTreeMap::from([(self.local.node_id(), self.myself())]);
        for (&id, (answer, member)) in &answers {
            let (Answer::Stands(standing), Some(member)) = (answer, member) else {
                return Ok(Round::Missing(format!("node {id}")));
            };
            match self.offer(&bond, id, member, standing).await {
                Ok(()) => members.extend([(id, member.clone())]),
                Err(error @ CallError::Refused { .. }) => {
                    let why = format!("node {id}: {error}");
                    return self.give_up(bond, why, &answers).await;
                }
                Err(error) => return Ok(Round::Missing(format!("node {id}: {error}"))),
            }
        }
        if !self.local.enter(bond.cluster).await? {
            return Ok(Round::Missing("this node was let in elsewhere".to_owned()));
        }
        tracing::info!(founders = ?members.keys().collect::<Vec<_>>(), "forming the cluster");
        self.raft.initialize(members).await.map_err(NodeError::raft)?;
        Ok(Round::Formed)
    }

    async fn offer(
        &self,
        bond: &Bond,
        id: u64,
        member: &Member,
        standing: &Standing,
    ) -> Result<(), CallError> {
        if planted("founded-without-bonds") {
            return Ok(());
        }
        let bind = Request::Bind(Offer { bond: bond.clone(), ticket: standing.ticket });
        self.client.call_as(bond.cluster, id, member, bind, BIND_TIMEOUT).await.map(drop)
    }

    /// Gives the cluster id up that this store has drawn, for good, and then tells those who may be
    /// bound to it. Who cannot be told is told when it answers next.
    async fn give_up(&self, own: Bond, why: String, answers: &Answers) -> Result<Round, NodeError> {
        let ended = self.local.release(own.cluster, self.local.store()).await;
        ended.map_err(|refusal| NodeError::Stopped(StopReason::restart(refusal.to_string())))?;
        if self.local.bond().is_some_and(|bond| bond.cluster == own.cluster) {
            return Ok(Round::Missing("this node was let in meanwhile".to_owned()));
        }
        for (&id, (_, member)) in answers {
            if let Some(member) = member {
                self.tell_free(own.cluster, id, member).await;
            }
        }
        Ok(Round::GivenUp(why))
    }

    async fn tell_free(&self, cluster: u128, id: u64, member: &Member) {
        let release = Request::Release { cluster };
        let told = self.client.call_as(cluster, id, member, release, BIND_TIMEOUT).await;
        if let Err(error) = told {
            tracing::debug!(node = id, %error, "cannot be told that it is free");
        }
    }

    /// Sets those free who are bound to an id that this store has given up, and this store, if its
    /// coordinator has. A store draws one id at a time: every other that it drew, it gave up.
    ///
    /// `before` is what this store was bound to when it asked. Of a later bond an answer may know
    /// nothing yet.
    async fn settle_bonds(&self, before: Option<Bond>, answers: &Answers) {
        let me = self.local.store();
        for (&id, (answer, member)) in answers {
            let (Answer::Stands(standing), Some(member)) = (answer, member) else { continue };
            if let Some(theirs) = &standing.bond
                && theirs.is_given_up(me, &self.local.standing())
            {
                self.tell_free(theirs.cluster, id, member).await;
            }
            if let Some(ours) = &before
                && ours.is_given_up(member.store, standing)
            {
                let _ = self.local.release(ours.cluster, member.store).await;
            }
        }
    }

    /// What every other founder answers. They are asked one after the other: the list is short.
    async fn ask_founders(&self) -> Answers {
        let mut answers = Answers::new();
        let mut clusters = Vec::new();
        for (&id, address) in &self.options.peers {
            if id != self.local.node_id() {
                let answer = self.ask_founder(id, address).await;
                if let Answer::Stands(Standing { cluster: Some(cluster), .. }) = &answer.0 {
                    clusters.push(*cluster);
                }
                answers.insert(id, answer);
            }
        }
        clusters.sort_unstable();
        clusters.dedup();
        match clusters[..] {
            [] => {}
            [cluster] => self.local.invite(Some(cluster)),
            // The operator has mixed clusters up.
            _ => self.local.invite(None),
        }
        answers
    }

    async fn ask_founder(&self, id: u64, address: &str) -> (Answer, Option<Member>) {
        let purpose = Purpose::Found { founders: self.founders() };
        match self.say_hello(address, purpose).await {
            Ok((from, introduction)) if from.node_id == id => known(&from, introduction),
            Ok((from, _)) => {
                let other = from.node_id;
                let why =
                    format!("node {other} answered at {address}, which --peers gives to node {id}");
                (Answer::Silent(why), None)
            }
            Err(error @ CallError::Refused { .. }) => (Answer::Refused(error.to_string()), None),
            Err(error) => (Answer::Silent(error.to_string()), None),
        }
    }
}

fn known(from: &Identity, introduction: Introduction) -> (Answer, Option<Member>) {
    let Introduction { raft, http, cluster, bond, ticket, .. } = introduction;
    let member = Member { raft, http, store: from.store };
    (Answer::Stands(Standing { cluster, bond, ticket }), Some(member))
}

/// What keeps a founder waiting that does not coordinate.
fn missing_of(answers: &Answers) -> String {
    let hindered = answers.iter().find_map(|(id, (answer, _))| match answer {
        Answer::Silent(why) | Answer::Refused(why) => Some(format!("node {id}: {why}")),
        Answer::Stands(Standing { cluster: Some(_), .. }) => {
            Some(format!("node {id} belongs to a cluster already; waiting to be let in"))
        }
        Answer::Stands(_) => None,
    });
    hindered.unwrap_or_else(|| "the founder with the lowest id, to bind all others".to_owned())
}
