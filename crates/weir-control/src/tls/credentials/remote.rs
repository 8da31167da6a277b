//! Keys of tokens that servers have: when they are fetched, and what becomes of the documents.
//!
//! A worker sends the request, one for all workers. Keys that cannot be fetched or used change nothing, and the log says why.

use std::sync::Arc;
use std::time::Duration;

use weir_access::KeySet;
use weir_proxy::state::routes::access::{FetchedKeys, KeyDocument, KeyFetchError, KeysFetched};

use crate::workers::worker_queries::WorkerQueries;

/// The pause after the first fetch that has failed; it doubles with each further one.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest such pause.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A `max-age` below this one does not count.
const MAX_AGE_MIN: Duration = Duration::from_secs(10);

/// How long a worker may take for what is not the fetch itself.
const WORKER_TIME: Duration = Duration::from_secs(2);

/// How often a worker is asked again that has not taken up the config yet, and after what time.
const GONE_TRIES: u32 = 40;
const GONE_PAUSE: Duration = Duration::from_millis(50);

/// Problems of a document that the log names.
const TOLD_MAX: usize = 5;

/// Keeps keys current, until the task is dropped.
pub(crate) async fn keep_fetched(keys: Arc<FetchedKeys>, workers: Arc<WorkerQueries>) {
    let settings = &keys.settings;
    let (upstream, path) = (&*settings.upstream_name, &*settings.path.to_string());
    let mut failed: u32 = 0;
    for turn in 0.. {
        keys.begin_fetch();
        let pause = match fetch(&keys, &workers, turn).await {
            Ok((fetched, max_age)) => {
                let count = match &fetched {
                    KeysFetched::New(keys, _) => keys.len(),
                    KeysFetched::Unchanged => keys.now().map_or(0, |keys| keys.len()),
                };
                if keys.end_fetch(Ok(fetched)) {
                    tracing::info!(
                        upstream,
                        path,
                        keys = count,
                        "the keys that were fetched count from now on"
                    );
                } else if failed > 0 {
                    tracing::info!(upstream, path, keys = count, "keys of tokens can be fetched again");
                }
                failed = 0;
                pause_after_success(settings.refresh, max_age)
            }
            Err(error) => {
                keys.end_fetch(Err(&error));
                failed = failed.saturating_add(1);
                if failed.is_power_of_two() {
                    let has = match keys.now() {
                        Some(_) => "those of before stay in use",
                        None => "there are none yet: requests that need them are answered 503",
                    };
                    tracing::error!(upstream, path, %error, failed, "keys of tokens could not be fetched; {has}");
                }
                pause_after_failure(settings.refresh, failed)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = keys.wanted() => {}
        }
    }
}

fn pause_after_success(refresh: Duration, max_age: Option<Duration>) -> Duration {
    max_age.map_or(refresh, |max_age| max_age.max(MAX_AGE_MIN).min(refresh))
}

fn pause_after_failure(refresh: Duration, failed: u32) -> Duration {
    let doubled = RETRY_FIRST.saturating_mul(1 << failed.saturating_sub(1).min(10));
    doubled.min(RETRY_MAX).min(refresh)
}

/// The keys that the server has now, and for how long they are fresh by its word.
async fn fetch(
    keys: &Arc<FetchedKeys>,
    workers: &WorkerQueries,
    turn: usize,
) -> Result<(KeysFetched, Option<Duration>), KeyFetchError> {
    let mut tries = 0;
    let KeyDocument { text, max_age, validators } = loop {
        let heard = workers.fetch_keys(turn, keys);
        match tokio::time::timeout(keys.settings.timeout + WORKER_TIME, heard).await {
            Ok(Ok(Err(KeyFetchError::Gone))) if tries < GONE_TRIES => {
                tries += 1;
                tokio::time::sleep(GONE_PAUSE).await;
            }
            Ok(Ok(answer)) => break answer?,
            Ok(Err(_)) | Err(_) => return Err(KeyFetchError::Gone),
        }
    };
    let Some(text) = text else { return Ok((KeysFetched::Unchanged, max_age)) };
    // Not on this thread: a document may be long.
    let parsed = tokio::task::spawn_blocking(move || parse(&text)).await;
    let parsed = parsed.map_err(|_| KeyFetchError::Gone)??;
    Ok((KeysFetched::New(parsed, validators), max_age))
}

fn parse(text: &[u8]) -> Result<Arc<KeySet>, KeyFetchError> {
    let text = str::from_utf8(text).map_err(|_| KeyFetchError::NotKeys("it is not UTF-8".to_owned()))?;
    let parsed = KeySet::parse(text).map(Arc::new);
    parsed.map_err(|problems| {
        let told: Vec<String> = problems.iter().take(TOLD_MAX).map(ToString::to_string).collect();
        KeyFetchError::NotKeys(told.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_go_by_the_config_and_the_server() {
        let seconds = Duration::from_secs;
        let refresh = seconds(600);
        for (max_age, expected) in [(None, 600), (Some(3600), 600), (Some(60), 60), (Some(0), 10)] {
            assert_eq!(pause_after_success(refresh, max_age.map(seconds)), seconds(expected), "{max_age:?}");
        }
        assert_eq!(pause_after_success(seconds(5), Some(seconds(0))), seconds(5));
        for (failed, expected) in [(1, 1), (2, 2), (5, 16), (6, 30), (u32::MAX, 30)] {
            assert_eq!(pause_after_failure(refresh, failed), seconds(expected), "{failed}");
        }
        assert_eq!(pause_after_failure(seconds(1), 9), seconds(1));
    }

    #[test]
    fn what_is_wrong_with_a_document_is_named() {
        for (text, expected) in [
            (&b"\xff"[..], "it is not UTF-8"),
            (
                b"{\"keys\": []}",
                "there is no key for signatures of RSA, P-256, P-384 or Ed25519, and no secret",
            ),
            (b"<html>", "this is not a set of keys (JWK Set, RFC 7517): expected value at line 1 column 1"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
    }
}
