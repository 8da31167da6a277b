//! How far the windows of a client are opened: as far as its way needs (RFC 9113 section 5.2.1).
//!
//! A window smaller than what is on the way at once slows an upload down. So while a client uses its window up, a ping measures how many
//! bytes come within one round trip: when these are half of the window or more, it is doubled. Must not know how much memory there is.

use std::time::Duration;

use weir_http::h2::INITIAL_WINDOW;

/// The window of a stream at most.
const WINDOW_MAX: u32 = 4 << 20;

/// How long a measurement that has found nothing stands.
const STANDS: Duration = Duration::from_secs(10);

/// The windows of one connection.
#[derive(Debug)]
pub(super) struct Growth {
    /// Of a stream.
    window: u32,
    /// Bytes since the ping, while it is on its way.
    received: Option<u32>,
    /// When the next one may leave.
    next: Duration,
}

impl Growth {
    pub(super) const fn new() -> Self {
        Self { window: INITIAL_WINDOW, received: None, next: Duration::ZERO }
    }

    /// The window that a stream may have.
    pub(super) const fn window(&self) -> u32 {
        self.window
    }

    /// The window for all streams of the connection together.
    pub(super) const fn connection_window(&self) -> u32 {
        self.window.saturating_mul(2)
    }

    /// Counts bytes of bodies.
    pub(super) fn count(&mut self, len: usize) {
        if let Some(received) = &mut self.received {
            *received = received.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        }
    }

    /// A client has used half of a window up, `now` since the beginning of the connection; whether a ping is to be sent.
    pub(super) fn begin(&mut self, now: Duration) -> bool {
        let begins = self.received.is_none() && self.window < WINDOW_MAX && now >= self.next;
        if begins {
            self.received = Some(0);
        }
        begins
    }

    /// The answer to the ping is here; whether the window has grown.
    pub(super) fn end(&mut self, now: Duration) -> bool {
        let Some(received) = self.received.take() else { return false };
        let grows = received >= self.window / 2;
        if grows {
            self.window = self.window.saturating_mul(2).min(WINDOW_MAX);
        } else {
            self.next = now + STANDS;
        }
        grows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client whose way holds `bytes` at once, as far as the window lets them; the window in the end.
    fn window_for(bytes: u32) -> u32 {
        let mut growth = Growth::new();
        let mut now = Duration::ZERO;
        while growth.begin(now) {
            growth.count(bytes.min(growth.window()) as usize);
            now += Duration::from_millis(50);
            growth.end(now);
        }
        growth.window()
    }

    #[test]
    fn a_window_becomes_twice_what_is_on_the_way_at_most() {
        assert_eq!(window_for(1_000), INITIAL_WINDOW);
        assert_eq!(window_for(30_000), INITIAL_WINDOW);
        assert!((300_000..1_200_000).contains(&window_for(300_000)), "{}", window_for(300_000));
        assert_eq!(window_for(u32::MAX), WINDOW_MAX);
    }

    #[test]
    fn what_was_found_stands_for_a_while() {
        let mut growth = Growth::new();
        assert!(growth.begin(Duration::ZERO));
        assert!(!growth.begin(Duration::ZERO), "one at a time");
        assert!(!growth.end(Duration::from_secs(1)));
        assert!(!growth.begin(Duration::from_secs(10)));
        assert!(growth.begin(Duration::from_secs(11)));
        assert!(!growth.end(Duration::from_secs(12)) && !growth.end(Duration::from_secs(13)), "once");
    }
}
