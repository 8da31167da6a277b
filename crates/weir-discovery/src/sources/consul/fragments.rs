//! Keys below a prefix of Consul's KV store, by `/v1/kv/PREFIX?recurse`.

use data_encoding::BASE64;
use serde_json::Value;
use weir_config::OfferedFragments;

use super::{BlockingQuestion, WAIT};
use crate::last_known::route_report::{RouteReporter, read_fragment};
use crate::sources::source_client::{RequestProblem, percent_encoded};

/// What the keys below a prefix are now.
pub(super) struct FragmentQuestion {
    pub(super) prefix: Box<str>,
    pub(super) datacenter: Option<Box<str>>,
    pub(super) reporter: RouteReporter,
}

impl BlockingQuestion for FragmentQuestion {
    type Answer = OfferedFragments;

    fn target(&self, index: u64) -> String {
        target(&self.prefix, self.datacenter.as_deref(), index)
    }

    fn read(&self, body: &[u8]) -> Result<Self::Answer, String> {
        fragments_of(body)
    }

    /// There is no key below the prefix.
    fn absent(&self) -> Option<Self::Answer> {
        Some(OfferedFragments::new())
    }

    fn said(&self, fragments: Self::Answer) {
        self.reporter.said(fragments);
    }

    fn failed(&self, why: &RequestProblem) {
        self.reporter.failed(why);
    }
}

fn target(prefix: &str, datacenter: Option<&str>, index: u64) -> String {
    let path: Vec<String> = prefix.split('/').map(percent_encoded).collect();
    let mut target = format!("/v1/kv/{}?recurse", path.join("/"));
    if index > 0 {
        target.push_str(&format!("&index={index}&wait={}s", WAIT.as_secs()));
    }
    if let Some(datacenter) = datacenter {
        target.push_str(&format!("&dc={}", percent_encoded(datacenter)));
    }
    target
}

/// The keys of an answer; those that end with `/` are folders of Consul's page.
fn fragments_of(body: &[u8]) -> Result<OfferedFragments, String> {
    let answer: Value = serde_json::from_slice(body)
        .map_err(|error| format!("it sent something that is no JSON: {error}"))?;
    let entries = answer.as_array().ok_or("it answered without a list of keys")?;
    let mut fragments = OfferedFragments::new();
    for entry in entries {
        let key =
            entry.get("Key").and_then(Value::as_str).ok_or("it answered with an entry without a key")?;
        let value = entry.get("Value").and_then(Value::as_str).unwrap_or_default();
        let value = BASE64.decode(value.as_bytes());
        let value = value.map_err(|error| format!("it sent something that is no base64: {error}"))?;
        if !(key.ends_with('/') && value.is_empty()) {
            fragments.insert(key.into(), read_fragment(&value));
        }
    }
    Ok(fragments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_name_prefix_and_index() {
        assert_eq!(target("weir/my routes/", None, 0), "/v1/kv/weir/my%20routes/?recurse");
        assert_eq!(target("weir/", Some("dc1"), 7), "/v1/kv/weir/?recurse&index=7&wait=60s&dc=dc1");
    }

    #[test]
    fn entries_are_fragments_and_folders_are_not() {
        let answer = br#"[{"Key":"weir/","Value":null},{"Key":"weir/a","Value":"YSA9IDE="},{"Key":"weir/b","Value":"/w=="}]"#;
        let fragments = fragments_of(answer).unwrap();
        assert_eq!(fragments.keys().map(|key| &**key).collect::<Vec<_>>(), ["weir/a", "weir/b"]);
        assert_eq!(fragments["weir/a"].as_deref(), Ok("a = 1"));
        assert!(fragments["weir/b"].as_ref().unwrap_err().contains("UTF-8"));
        for bad in [&b"{}"[..], b"[{}]", b"[{\"Key\":\"a\",\"Value\":\"?\"}]", b"x"] {
            assert!(fragments_of(bad).is_err());
        }
    }
}
