//! `weir ctl caches` and `weir ctl purge`: what the caches hold and how often they help, and what is to leave them.

use clap::Args;
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::output::shown;
use crate::running::admin_client::{AdminClient, path_segment};

/// What is shown of the caches.
#[derive(Debug, Args)]
pub(crate) struct CachesArguments {
    /// Only the cache of this name.
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is to leave a cache.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct PurgeArguments {
    /// The cache.
    cache: String,
    #[command(flatten)]
    part: PurgePart,
    /// Mark them stale instead: they are used again when a server confirms them, and as stale ones are.
    #[arg(long)]
    soft: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct PurgePart {
    /// Everything.
    #[arg(long)]
    all: bool,
    /// The response of this key in all its variants; with the usual key that is the URL, `https://example.com/a?b=c`.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Responses whose keys begin with this: `https://example.com/images/`.
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Responses that name this tag in `Cache-Tag` or `Surrogate-Key`.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
}

/// The caches of a running Weir.
pub(crate) fn show(client: &AdminClient, arguments: &CachesArguments) -> Result<String, CommandError> {
    let mut caches: Vec<Value> = serde_json::from_str(&client.get("/api/caches")?.accepted()?)?;
    if let Some(name) = &arguments.name {
        caches.retain(|cache| cache["name"] == name.as_str());
        if caches.is_empty() {
            return Err(CommandError::Usage { what: format!("there is no cache `{name}`"), help: None });
        }
    }
    Ok(match arguments.json {
        true => format!("{:#}\n", Value::from(caches)),
        false if caches.is_empty() => "the config has no caches\n".to_owned(),
        false => caches.iter().map(paragraph).collect::<Vec<_>>().join("\n"),
    })
}

fn paragraph(cache: &Value) -> String {
    let number = |name: &str| cache[name].as_u64().unwrap_or(0);
    let requests = cache["requests"].as_object();
    let count = |result: &str| requests.and_then(|counts| counts[result].as_u64()).unwrap_or(0);
    let results = ["hit", "stale", "revalidated", "collapsed", "miss", "bypass"];
    let asked: u64 = results.iter().map(|result| count(result)).sum();
    let answered = asked - count("miss") - count("bypass");
    let share = (answered * 100).checked_div(asked).unwrap_or(0);
    let counts: Vec<String> = results.iter().map(|result| format!("{} {result}", count(result))).collect();
    let mut text = format!(
        "{}: {} responses, {} of {} bytes of memory\n  requests  {} ({share} % answered without a whole response of a server)\n  \
         responses {} stored, {} not\n",
        shown(&cache["name"]),
        number("responses"),
        number("memory_bytes"),
        number("memory_bytes_max"),
        counts.join(", "),
        number("stored"),
        number("not_stored"),
    );
    let evictions = cache["evictions"].as_object().into_iter().flatten();
    let evictions: Vec<String> = evictions
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    if !evictions.is_empty() {
        text.push_str(&format!("  removed   {}\n", evictions.join(", ")));
    }
    text
}

/// Removes responses from a cache of a running Weir.
pub(crate) fn purge(client: &AdminClient, arguments: &PurgeArguments) -> Result<String, CommandError> {
    let PurgePart { all, key, prefix, tag } = &arguments.part;
    let mut wanted = json!({ "soft": arguments.soft });
    if *all {
        wanted["all"] = true.into();
    }
    for (name, value) in [("key", key), ("prefix", prefix), ("tag", tag)] {
        if let Some(value) = value {
            wanted[name] = value.as_str().into();
        }
    }
    let target = format!("/api/caches/{}", path_segment(&arguments.cache));
    let answer = client.post(&target, "application/json", wanted.to_string().as_bytes())?;
    let outcome: Value = serde_json::from_str(&answer.accepted()?)?;
    let what = if arguments.soft { "marked stale" } else { "removed" };
    Ok(format!("{}: {} responses {what}\n", arguments.cache, outcome["purged"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_shown_with_how_often_it_helps() {
        let cache = json!({
            "name": "pages", "responses": 2, "memory_bytes": 4_000, "memory_bytes_max": 100_000, "stored": 3, "not_stored": 1,
            "requests": { "hit": 6, "stale": 1, "revalidated": 1, "collapsed": 0, "miss": 1, "bypass": 1 },
            "evictions": { "memory": 0, "purge": 1 },
        });
        assert_eq!(
            paragraph(&cache),
            "pages: 2 responses, 4000 of 100000 bytes of memory\n  requests  6 hit, 1 stale, 1 revalidated, 0 collapsed, 1 miss, \
             1 bypass (80 % answered without a whole response of a server)\n  responses 3 stored, 1 not\n  removed   1 purge\n"
        );
    }
}
