//! What other programs are told about this node, and its form on the way to the watcher.

/// Whether this node should have the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Availability {
    /// It serves.
    Available,
    /// It serves, but another node should do so.
    HandedOver,
    /// It does not serve.
    Unavailable,
}

/// A message of Weir to its watcher: a sign of life, or the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Alive(Availability),
    /// Another process announces from now on: the watcher ends, and changes nothing.
    Leave,
}

impl Sign {
    pub(super) const fn to_byte(self) -> u8 {
        match self {
            Self::Alive(Availability::Available) => b'a',
            Self::Alive(Availability::HandedOver) => b'h',
            Self::Alive(Availability::Unavailable) => b'u',
            Self::Leave => b'l',
        }
    }

    pub(super) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'a' => Some(Self::Alive(Availability::Available)),
            b'h' => Some(Self::Alive(Availability::HandedOver)),
            b'u' => Some(Self::Alive(Availability::Unavailable)),
            b'l' => Some(Self::Leave),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_read_as_it_was_written() {
        for sign in [
            Sign::Alive(Availability::Available),
            Sign::Alive(Availability::HandedOver),
            Sign::Alive(Availability::Unavailable),
            Sign::Leave,
        ] {
            assert_eq!(Sign::from_byte(sign.to_byte()), Some(sign));
        }
        assert_eq!(Sign::from_byte(0), None);
    }
}
