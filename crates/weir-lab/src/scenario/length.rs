//! Lengths of time in a scenario: `"4s"`, `"500ms"`.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn deserialize<'de, D: Deserializer<'de>>(text: D) -> Result<Duration, D::Error> {
    let length = SignedDuration::deserialize(text)?;
    Duration::try_from(length).map_err(|_| serde::de::Error::custom("a length of time is not negative"))
}

pub(super) fn serialize<S: Serializer>(length: &Duration, to: S) -> Result<S::Ok, S::Error> {
    SignedDuration::try_from(*length).map_err(serde::ser::Error::custom)?.serialize(to)
}

/// The same for one that need not be there.
pub(super) mod optional {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, SignedDuration};

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        text: D,
    ) -> Result<Option<Duration>, D::Error> {
        let length = Option::<SignedDuration>::deserialize(text)?;
        length
            .map(|length| {
                Duration::try_from(length)
                    .map_err(|_| serde::de::Error::custom("a length of time is not negative"))
            })
            .transpose()
    }

    pub(in super::super) fn serialize<S: Serializer>(
        length: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let length = length.map(SignedDuration::try_from).transpose().map_err(serde::ser::Error::custom)?;
        length.serialize(to)
    }
}
