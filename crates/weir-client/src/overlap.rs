//! Tries that overlap: what a lost packet holds up for seconds gets company every second, so that a source that is back is found at once,
//! whatever waits of the kernel or of a resolver were begun while it was away. Pure but for the timer.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// A try that has begun.
pub(crate) type BegunTry<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Begins tries, numbered from 0, one each `interval` beside those that still run, and no more than `tries_max`. The first that ends decides; the others are
/// dropped.
pub(crate) async fn first_to_end<'a, T>(
    interval: Duration,
    tries_max: usize,
    mut begin: impl FnMut(usize) -> BegunTry<'a, T>,
) -> T {
    let mut begun: Vec<BegunTry<'a, T>> = Vec::new();
    loop {
        if begun.len() < tries_max {
            begun.push(begin(begun.len()));
        }
        let ended = std::future::poll_fn(|context| {
            let mut ended = begun.iter_mut().map(|one| one.as_mut().poll(context));
            ended.find(Poll::is_ready).unwrap_or(Poll::Pending)
        });
        tokio::select! {
            result = ended => return result,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn a_try_that_hangs_gets_company() {
        let begin = |number: usize| -> BegunTry<'_, usize> {
            Box::pin(async move { if number < 2 { std::future::pending().await } else { number } })
        };
        assert_eq!(first_to_end(INTERVAL, 3, begin).await, 2);
    }

    #[tokio::test]
    async fn the_first_that_ends_decides_whenever_it_began() {
        let later = tokio::sync::Notify::new();
        let begin = |number: usize| -> BegunTry<'_, usize> {
            let later = &later;
            Box::pin(async move {
                if number == 0 {
                    later.notified().await;
                    return number;
                }
                later.notify_one();
                std::future::pending().await
            })
        };
        assert_eq!(first_to_end(INTERVAL, 3, begin).await, 0);
    }
}
