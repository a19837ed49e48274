//! One tag as a register: which sequences of operations are legal.

use crate::evidence::{AdminOp, Kind, PackedRow, Told};

/// The state of a tag. `None` means not known yet: a tag may be older than the history.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct State {
    exists: Option<bool>,
    step: Option<u32>,
    description: Option<u32>,
}

/// What an operation does to a tag, or shows about it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Step {
    /// The tag was absent, and now has this row.
    Create(PackedRow),
    /// The tag existed, and is changed to the first row. The answer shows it as the second.
    Update(PackedRow, Option<PackedRow>),
    /// The tag existed, and is now absent.
    Delete,
    /// The tag exists.
    Exists,
    /// The tag has this row.
    Is(PackedRow),
    /// The tag does not exist.
    Absent,
    /// The tag may have been created, if it was absent.
    MayCreate(PackedRow),
    /// The tag may have been changed, if it existed.
    MayUpdate(PackedRow),
    /// The tag may have been deleted.
    MayDelete,
}

impl Step {
    /// The step of an operation; `None` for one that changed nothing and showed nothing.
    pub(crate) fn of(op: &AdminOp) -> Option<Self> {
        let row = op.row;
        match (op.told, op.kind) {
            (Told::Exists, _) => Some(Self::Exists),
            (Told::Absent, _) => Some(Self::Absent),
            (Told::Done, Kind::Create) => row.map(Self::Create),
            (Told::Done, Kind::Update) => row.map(|row| Self::Update(row, op.seen)),
            (Told::Done, Kind::Delete) => Some(Self::Delete),
            (Told::Done, _) => row.map(Self::Is),
            (Told::Unknown, _) => Self::of(&AdminOp { told: Told::Done, ..*op })?.doubted(),
        }
    }

    /// The step of an operation whose outcome is unknown; `None` if only its answer would have shown something.
    pub(crate) fn doubted(self) -> Option<Self> {
        match self {
            Self::Create(row) | Self::MayCreate(row) => Some(Self::MayCreate(row)),
            Self::Update(row, _) | Self::MayUpdate(row) => Some(Self::MayUpdate(row)),
            Self::Delete | Self::MayDelete => Some(Self::MayDelete),
            Self::Exists | Self::Is(_) | Self::Absent => None,
        }
    }
}

impl State {
    const ABSENT: Self = Self { exists: Some(false), step: None, description: None };

    /// The state as that of an existing tag; `None` if the tag does not exist.
    fn existing(self) -> Option<Self> {
        (self.exists != Some(false)).then_some(Self { exists: Some(true), ..self })
    }

    fn with(self, row: PackedRow) -> Self {
        Self {
            step: row.step.or(self.step),
            description: row.description.or(self.description),
            ..self
        }
    }

    /// The state combined with a row from an answer; `None` when the two contradict each other.
    fn agrees(self, row: PackedRow) -> Option<Self> {
        let known = self.existing()?;
        let may_be = |known: Option<u32>, told: Option<u32>| {
            known.is_none() || told.is_none() || known == told
        };
        let agrees = may_be(known.step, row.step) && may_be(known.description, row.description);
        agrees.then(|| known.with(row))
    }

    /// The state after a step; `None` if the step is not possible.
    pub(crate) fn after(self, step: Step) -> Option<Self> {
        let fresh = Self { exists: Some(true), ..Self::default() };
        match (step, self.exists) {
            (Step::Create(_), Some(true)) => None,
            (Step::Create(row), _) => Some(fresh.with(row)),
            (Step::Update(row, seen), _) => {
                let updated = self.existing()?.with(row);
                seen.map_or(Some(updated), |seen| updated.agrees(seen))
            }
            (Step::Delete, _) => self.existing().map(|_| Self::ABSENT),
            (Step::Exists, _) => self.existing(),
            (Step::Is(row), _) => self.agrees(row),
            (Step::Absent, Some(true)) => None,
            (Step::Absent | Step::MayDelete, _) => Some(Self::ABSENT),
            (Step::MayCreate(_), Some(true)) => Some(self),
            (Step::MayCreate(row), Some(false)) => Some(fresh.with(row)),
            (Step::MayCreate(_), None) => Some(fresh),
            (Step::MayUpdate(_), Some(false)) => Some(self),
            (Step::MayUpdate(row), Some(true)) => Some(self.with(row)),
            (Step::MayUpdate(_), None) => Some(Self::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: u32, description: u32) -> PackedRow {
        PackedRow { step: Some(step), description: Some(description), max_id: None }
    }

    fn legal(steps: &[Step]) -> bool {
        steps.iter().try_fold(State::default(), |state, &step| state.after(step)).is_some()
    }

    #[test]
    fn a_life_is_legal() {
        let update = PackedRow { step: Some(9), description: None, max_id: None };
        assert!(legal(&[
            Step::Absent,
            Step::Create(row(5, 0)),
            Step::Exists,
            Step::Update(update, Some(row(9, 0))),
            Step::Is(row(9, 0)),
            Step::Delete,
            Step::Absent,
            Step::MayUpdate(update),
            Step::MayCreate(row(6, 1)),
            Step::Is(row(6, 1)),
        ]));
    }

    #[test]
    fn what_a_register_cannot_do_is_not_legal() {
        let create = Step::Create(row(5, 0));
        assert!(!legal(&[create, create]));
        assert!(!legal(&[create, Step::Absent]));
        assert!(!legal(&[create, Step::Is(row(5, 1))]));
        assert!(!legal(&[create, Step::Is(row(6, 0))]));
        assert!(!legal(&[create, Step::Delete, Step::Exists]));
        assert!(!legal(&[create, Step::Delete, Step::Delete]));
        assert!(!legal(&[create, Step::Delete, Step::Update(row(1, 1), None)]));
        assert!(!legal(&[create, Step::Update(row(6, 0), Some(row(5, 0)))]));
        assert!(!legal(&[create, Step::MayUpdate(row(6, 1)), Step::Is(row(5, 0))]));
        assert!(!legal(&[Step::Absent, Step::Is(row(5, 0))]));
    }

    #[test]
    fn a_tag_that_is_older_than_the_history_is_what_it_turns_out_to_be() {
        for first in [Step::Absent, Step::Exists, Step::Delete, Step::Is(row(5, 0))] {
            assert!(legal(&[first]), "{first:?}");
        }
        assert!(!legal(&[Step::Is(row(5, 0)), Step::Is(row(6, 0))]));
        assert!(legal(&[Step::MayCreate(row(5, 0)), Step::Is(row(6, 0))]));
    }
}
