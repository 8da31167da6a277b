//! The priority of a response (RFC 9218): how urgent it is, and whether it is of use in parts.

use crate::bytes::trim;

/// The priority that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether the client uses the response as it comes, so that it may share its turn with others of the same urgency.
    pub is_incremental: bool,
}

impl Default for Priority {
    /// That of a request that asks for none (RFC 9218 section 4).
    fn default() -> Self {
        Self { urgency: 3, is_incremental: false }
    }
}

impl Priority {
    /// Reads the value of a `Priority` field or of a PRIORITY_UPDATE frame: a dictionary (RFC 9651 section 3.2), of which members that mean
    /// nothing here, or have another type, are skipped. The last of several values holds.
    pub fn parse(value: &[u8]) -> Self {
        let mut priority = Self::default();
        for member in value.split(|byte| *byte == b',') {
            let item = trim(member.split(|byte| *byte == b';').next().unwrap_or_default());
            match item {
                [b'u', b'=', urgency @ b'0'..=b'7'] => priority.urgency = urgency - b'0',
                b"i" | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_others_are_skipped() {
        for (value, urgency, is_incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i, u=1", 1, true),
            (" i=?1 ,u=2;x=1", 2, true),
            ("i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1, i=1", 3, false),
            ("u=\"1\"", 3, false),
            ("u=1, u=5", 5, false),
            ("other=4, u=6", 6, false),
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, is_incremental }, "{value}");
        }
    }
}
