//! The roles, and what requests need of them.

use std::borrow::Cow;

use crate::text::path_segment;

/// What the holder of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Take ids of its tags and snowflakes, with what that needs: the creation of a tag on first use, and
    /// taking ids apart.
    Issue,
    /// Read everything but ids and backups.
    Read,
    /// Take backups, and nothing else: for a job that runs by itself.
    Backup,
    /// Everything.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Issue, Role::Read, Role::Backup, Role::Admin];
    /// Their names, for messages.
    pub const NAMES: &'static str = "issue, read, backup or admin";

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// The name in the auth file.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Issue => "issue",
            Role::Read => "read",
            Role::Backup => "backup",
            Role::Admin => "admin",
        }
    }

    /// Whether the role is enough for what needs this much.
    #[inline]
    pub(crate) const fn is_enough_for(self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::AnyRole => !matches!(self, Role::Backup),
            Needs::Issue => matches!(self, Role::Issue | Role::Admin),
            Needs::Read => matches!(self, Role::Read | Role::Admin),
            Needs::Backup => matches!(self, Role::Backup | Role::Admin),
            Needs::Admin => matches!(self, Role::Admin),
        }
    }
}

/// What a request needs of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: it is open to all.
    Nothing,
    /// Any role but `backup`.
    AnyRole,
    /// The role `issue`, or `admin`.
    Issue,
    /// The role `read`, or `admin`.
    Read,
    /// The role `backup`, or `admin`.
    Backup,
    /// The role `admin`.
    Admin,
}

impl Needs {
    /// The roles that are enough, for messages.
    pub(crate) fn roles(self) -> String {
        let roles = Role::ALL.into_iter().filter(|role| role.is_enough_for(self));
        let names: Vec<&str> = roles.map(Role::name).collect();
        names.join(" or ")
    }

    /// Whether each role is enough, as cells of the table in `docs/security.md`.
    #[cfg(test)]
    pub(crate) fn cells(self) -> String {
        let may = |role: Role| if role.is_enough_for(self) { "yes" } else { "-" };
        let nobody = if self == Self::Nothing { "yes" } else { "-" };
        // What `backup` may do is said in one sentence.
        let [issue, read, _, admin] = Role::ALL.map(may);
        format!("{nobody} | {issue} | {read} | {admin}")
    }
}

/// What part of the cluster a request is about: a token that is confined to some tags is refused if the request is
/// about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// No tag.
    NoTag,
    /// The tag that the first `{…}` of the path stands for.
    TagOfPath,
    /// The tag that the body names. The handler checks it, as soon as it has read the body.
    TagOfBody,
    /// The tag that a parameter names, in the query or in a form. Another one may bring the token, and the answer to
    /// one that does not hold is the path's own: the handler checks both.
    TagOfParameter,
    /// All tags, or the cluster itself.
    Everything,
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand<'a> {
    pub(crate) needs: Needs,
    pub(crate) scope: Scope,
    /// What the first `{…}` of the path stands for, as it came.
    pub(crate) first: Option<&'a str>,
}

impl<'a> Demand<'a> {
    /// The tag that the path names; `None` when it cannot be read.
    #[inline]
    pub(crate) fn tag(&self) -> Option<Cow<'a, str>> {
        path_segment::decode(self.first?)
    }
}
