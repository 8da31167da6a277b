//! Where the TXT record of a challenge belongs: its name may be a CNAME into a zone that a key may change, as when the zone of the host is not to be touched (RFC 8555 section 8.4).
//!
//! CNAMEs are followed one by one, since the record at the end is not there yet. A CNAME that a wildcard in the zone makes for every name is none: the record itself takes its place.

use std::fmt;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use weir_config::Dns;

use super::issuer::IssuanceError;
use super::luck;
use crate::servers::dns_names;

/// CNAMEs that are followed from one name.
const CNAMES_MAX: usize = 8;

/// How long a name is looked up: beyond, it is taken for one without a CNAME.
const LOOKUP_TIME: Duration = Duration::from_secs(10);

/// The longest name in text (RFC 1035 section 2.3.4), with its final dot.
const NAME_LEN_MAX: usize = 254;

/// The name of the TXT record of a challenge. Names have a final dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordName {
    /// The one that the authority asks for.
    pub(super) challenge: String,
    /// Where the record belongs: where the CNAMEs lead.
    pub(super) target: String,
    /// Why there may be another CNAME.
    doubt: Option<String>,
}

impl RecordName {
    /// That of a host, where no CNAME is followed.
    pub(super) fn direct(host: &str) -> Self {
        let challenge = format!("_acme-challenge.{host}.");
        Self { target: challenge.clone(), challenge, doubt: None }
    }

    /// An error of a change of the record, with what led there.
    pub(super) fn explain(&self, mut error: IssuanceError) -> IssuanceError {
        if self.target != self.challenge {
            error.text.push_str(&format!("; `{}` leads to `{}` by CNAME", self.challenge, self.target));
        }
        if let Some(doubt) = &self.doubt {
            error.text.push_str(&format!("; {doubt}"));
        }
        error
    }
}

/// Where the record of a host belongs.
///
/// # Errors
/// When the CNAMEs lead nowhere that a record could be.
pub(super) async fn find(dns: &Dns, host: &str) -> Result<RecordName, IssuanceError> {
    let record = RecordName::direct(host);
    let resolver = match dns_names::new_resolver(dns) {
        Ok(resolver) => resolver,
        Err(error) => return Ok(in_doubt(record, &error.to_string())),
    };
    let found = follow(record, host, async |name| look_up(&resolver, &name).await).await?;
    if found.target != found.challenge {
        let (challenge, target) = (&*found.challenge, &*found.target);
        tracing::info!(host, challenge, target, "the record of a challenge belongs where its CNAME leads");
    }
    Ok(found)
}

/// Follows the CNAMEs that `look_up` knows.
async fn follow(
    mut record: RecordName,
    host: &str,
    look_up: impl AsyncFn(String) -> Result<Option<String>, String>,
) -> Result<RecordName, IssuanceError> {
    let mut path = vec![record.challenge.clone()];
    loop {
        let next = match look_up(record.target.clone()).await {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(record),
            Err(error) => return Ok(in_doubt(record, &error)),
        };
        if path.len() == 1 {
            let sibling = format!("_weir-{:016x}.{host}.", luck::random());
            match look_up(sibling).await {
                Ok(same) if same.as_ref() == Some(&next) => {
                    tracing::debug!(host, target = next, "a wildcard is no delegation of a challenge");
                    return Ok(record);
                }
                Ok(_) => {}
                Err(error) => return Ok(in_doubt(record, &error)),
            }
        }
        let wrong = match &next {
            _ if !is_usable(&next) => {
                Some("the last of them is no name that a record of a challenge can have")
            }
            _ if path.contains(&next) => Some("they lead in a circle"),
            _ if path.len() > CNAMES_MAX => Some("there are more than 8 of them"),
            _ => None,
        };
        path.push(next.clone());
        if let Some(wrong) = wrong {
            let chain = ShownPath(&path);
            return Err(IssuanceError::refused(format!(
                "the CNAMEs of the challenge cannot be followed: {chain}: {wrong}"
            )));
        }
        record.target = next;
    }
}

/// A lookup has failed. What follows from the name as it is may well be right: most challenges have no CNAME.
fn in_doubt(record: RecordName, error: &str) -> RecordName {
    let name = &*record.target;
    tracing::warn!(
        name,
        error,
        change = "see the [dns] section, or set `dns_follow_cname = false` where challenges have no CNAME",
        "whether the record of a challenge is a CNAME is not known: it is taken for none"
    );
    let doubt = format!("whether `{name}` is a CNAME is not known: {error}");
    RecordName { doubt: Some(doubt), ..record }
}

/// Whether each label is one of a host or begins with `_`: a program gets the name as an argument, and others may have written it.
fn is_usable(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && !label.starts_with('-') && label.bytes().all(is_known)
    };
    name.len() <= NAME_LEN_MAX
        && name
            .strip_suffix('.')
            .is_some_and(|labels| labels.contains('.') && labels.split('.').all(is_label))
}

/// Names from the first to the last.
struct ShownPath<'a>(&'a [String]);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in self.0.iter().enumerate() {
            let arrow = if number > 0 { " -> " } else { "" };
            write!(f, "{arrow}`{}`", name.escape_debug())?;
        }
        Ok(())
    }
}

/// The CNAME of a name, in lower case and with a final dot; `None`: it has none.
async fn look_up(resolver: &TokioResolver, name: &str) -> Result<Option<String>, String> {
    let asked = Name::from_ascii(name).map_err(|error| error.to_string())?;
    let found = tokio::time::timeout(LOOKUP_TIME, resolver.lookup(asked.clone(), RecordType::CNAME)).await;
    match found {
        Ok(Ok(found)) => {
            // A resolver may answer with the CNAMEs behind as well.
            let own = found.answers().iter().filter(|record| record.name == asked);
            Ok(own.into_iter().find_map(|record| match &record.data {
                RData::CNAME(target) => Some(target.0.to_lowercase().to_ascii()),
                _ => None,
            }))
        }
        Ok(Err(NetError::Dns(DnsError::NoRecordsFound(nothing))))
            if matches!(nothing.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
        {
            Ok(None)
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", LOOKUP_TIME.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows these CNAMEs from the challenge of `a.test`; a name that begins with `*` stands for every name that is not known.
    fn target(known: &[(&str, &str)]) -> Result<String, String> {
        let look_up = async |name: String| {
            let of = |name: &str| known.iter().find(|(owner, _)| *owner == name).map(|(_, to)| *to);
            match of(&name).or_else(|| of("*")) {
                Some("error") => Err("no answer".to_owned()),
                Some("none") => Ok(None),
                found => Ok(found.map(str::to_owned)),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(follow(RecordName::direct("a.test"), "a.test", look_up));
        found.map(|record| record.target).map_err(|error| error.text)
    }

    const CHALLENGE: &str = "_acme-challenge.a.test.";

    #[test]
    fn cnames_are_followed_to_their_end() {
        assert_eq!(target(&[]).as_deref(), Ok(CHALLENGE));
        assert_eq!(target(&[(CHALLENGE, "a.acme.test.")]).as_deref(), Ok("a.acme.test."));
        let chain = [(CHALLENGE, "_b.test."), ("_b.test.", "c.test."), ("c.test.", "d.test.")];
        assert_eq!(target(&chain).as_deref(), Ok("d.test."));
    }

    #[test]
    fn a_wildcard_is_none_but_may_come_later() {
        assert_eq!(target(&[("*", "www.test.")]).as_deref(), Ok(CHALLENGE));
        // The first one is of the challenge alone.
        let later = [(CHALLENGE, "b.test."), ("b.test.", "c.test."), ("c.test.", "none"), ("*", "c.test.")];
        assert_eq!(target(&later).as_deref(), Ok("c.test."));
    }

    #[test]
    fn circles_long_chains_and_odd_names_are_failures() {
        let circle = target(&[(CHALLENGE, "b.test."), ("b.test.", CHALLENGE)]).unwrap_err();
        assert_eq!(
            circle,
            "the CNAMEs of the challenge cannot be followed: `_acme-challenge.a.test.` -> `b.test.` -> `_acme-challenge.a.test.`: they \
             lead in a circle"
        );
        assert!(target(&[(CHALLENGE, CHALLENGE)]).unwrap_err().contains("circle"));
        let names: Vec<String> = (0..20).map(|number| format!("n{number}.test.")).collect();
        let mut long = vec![(CHALLENGE, &*names[0])];
        long.extend(names.windows(2).map(|pair| (&*pair[0], &*pair[1])));
        assert!(target(&long).unwrap_err().ends_with("there are more than 8 of them"));
        long.truncate(8);
        assert_eq!(target(&long).as_deref(), Ok("n7.test."));
        for odd in ["-x.test.", "$(id).test.", "a b.test.", "a\\.b.test.", "test.", ".", "a..test.", "a.test"]
        {
            assert!(target(&[(CHALLENGE, odd)]).unwrap_err().contains("no name that"), "{odd}");
        }
    }

    #[test]
    fn what_is_not_known_is_said_when_the_change_fails() {
        assert_eq!(target(&[(CHALLENGE, "error")]).as_deref(), Ok(CHALLENGE));
        assert_eq!(target(&[(CHALLENGE, "b.test."), ("b.test.", "error")]).as_deref(), Ok("b.test."));
        let record = in_doubt(RecordName::direct("a.test"), "no answer");
        let error = record.explain(IssuanceError::refused("refused"));
        assert_eq!(
            error.text,
            "refused; whether `_acme-challenge.a.test.` is a CNAME is not known: no answer"
        );
        let record = RecordName { target: "b.test.".to_owned(), ..RecordName::direct("a.test") };
        let error = record.explain(IssuanceError::refused("refused"));
        assert_eq!(error.text, "refused; `_acme-challenge.a.test.` leads to `b.test.` by CNAME");
    }
}
