//! SQL's third truth value.

/// What a condition says about a record. A comparison with null is neither true nor false.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    /// NOT: unknown stays unknown.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}
