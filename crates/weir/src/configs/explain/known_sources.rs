//! What is known of the sources that name servers, without asking them: the state file of a Weir that runs or ran.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use weir_config::{Config, Upstream};
use weir_http::WallTime;

use crate::clock;
use crate::output::lasting;

/// When each source named its servers last.
pub(super) struct KnownSources {
    said_at: HashMap<Box<str>, WallTime>,
    has_state_file: bool,
    /// Why the state file cannot be read.
    problem: Option<String>,
}

impl KnownSources {
    /// The config with the servers of the state file, and what is known of the sources.
    pub(super) fn read(config: &Config) -> (Config, Self) {
        let has_state_file = config.discovery.state_file.is_some();
        match weir_control::with_stored_servers(config) {
            Ok((config, said_at)) => (config, Self { said_at, has_state_file, problem: None }),
            Err(error) => {
                let problem = Some(error.to_string());
                (config.clone(), Self { said_at: HashMap::new(), has_state_file, problem })
            }
        }
    }

    fn age(&self, upstream: &Upstream) -> Option<Duration> {
        let now = clock::date();
        self.said_at.get(&upstream.name).map(|at| now - *at)
    }

    /// What names the servers of an upstream, and how old its word is; nothing where the config names them.
    pub(super) fn sentence(&self, upstream: &Upstream) -> Option<String> {
        let source = upstream.discovery.as_ref()?;
        let known = match (self.age(upstream), &self.problem) {
            (Some(age), _) => {
                format!("it did so last {} ago, according to `discovery.state_file`", lasting(age.as_secs()))
            }
            (None, Some(problem)) => format!("`discovery.state_file` cannot be read: {problem}"),
            (None, None) if self.has_state_file => "`discovery.state_file` has none of them yet".to_owned(),
            (None, None) => {
                "they are not known here without `discovery.state_file`: see `weir ctl servers`".to_owned()
            }
        };
        Some(format!("{source} names the servers; {known}"))
    }

    pub(super) fn json(&self, upstream: &Upstream) -> Value {
        upstream.discovery.as_ref().map_or(Value::Null, |source| {
            let age = self.age(upstream).map(|age| age.as_secs());
            json!({ "name": source.to_string(), "age_seconds": age, "problem": self.problem })
        })
    }
}
