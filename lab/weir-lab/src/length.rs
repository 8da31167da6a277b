//! Lengths of time as people write them, in scenarios and on the command line: `"4s"`, `"500ms"`.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(text: D) -> Result<Duration, D::Error> {
    let length = SignedDuration::deserialize(text)?;
    Duration::try_from(length).map_err(|_| serde::de::Error::custom("a length of time is not negative"))
}

pub(crate) fn serialize<S: Serializer>(length: &Duration, to: S) -> Result<S::Ok, S::Error> {
    SignedDuration::try_from(*length).map_err(serde::ser::Error::custom)?.serialize(to)
}

/// A length of time such as `4s` or `1m 30s`.
pub(crate) fn read(text: &str) -> Result<Duration, String> {
    let length: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    match Duration::try_from(length) {
        Ok(length) if !length.is_zero() => Ok(length),
        _ => Err("a length of time is positive".to_owned()),
    }
}

/// The same for one that need not be there.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, SignedDuration};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(text: D) -> Result<Option<Duration>, D::Error> {
        let length = Option::<SignedDuration>::deserialize(text)?;
        length
            .map(|length| {
                Duration::try_from(length)
                    .map_err(|_| serde::de::Error::custom("a length of time is not negative"))
            })
            .transpose()
    }

    pub(crate) fn serialize<S: Serializer>(length: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        let length = length.map(SignedDuration::try_from).transpose().map_err(serde::ser::Error::custom)?;
        length.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::time::Duration;

    #[test]
    fn lengths_are_read() {
        assert_eq!(read("4s"), Ok(Duration::from_secs(4)));
        assert_eq!(read("1500ms"), Ok(Duration::from_millis(1500)));
        assert!(read("0s").is_err() && read("4").is_err() && read("-1s").is_err());
    }
}
