//! Clients that mean harm: each attack has a bound, behind which the client is cut off, a reason in metrics and list of failures, and no
//! effect on other connections.

mod resets;
mod floods;
mod blocks;
mod frames;

use crate::harness::http2::start_with;
use crate::harness::scripts::echo;
use crate::harness::{Http2Client, Origin, Weir, eventually};

/// Frames on a stream.
type OnStream = fn(u32) -> Vec<u8>;

/// Weir with one worker, which an attacker has to himself as little as his victims have.
struct Site {
    origin: Origin,
    weir: Weir,
}

impl Site {
    fn new() -> Site {
        Site::with("")
    }

    fn with(settings: &str) -> Site {
        let origin = echo();
        let weir = start_with(&origin, settings);
        Site { origin, weir }
    }

    fn client(&self) -> Http2Client {
        Http2Client::connect(self.weir.web())
    }

    /// Runs an attack beside a well-behaved client. Panics unless the attacker is told this code, the reason is counted, and
    /// the other client is served all the time.
    fn assert_cut_off(
        &self,
        what: &str,
        code: u32,
        reason: &str,
        attack: impl FnOnce(&mut Http2Client) -> Vec<u8>,
    ) {
        let mut good = self.client();
        assert_eq!(good.fetch("/before").status, 200, "{what}");
        let before = self.failures(reason);
        let mut attacker = self.client();
        let bytes = attack(&mut attacker);
        let flood = attacker.flood(bytes);
        assert_eq!(good.fetch("/meanwhile").status, 200, "{what}");
        assert_eq!((attacker.end_code(), what), (code, what));
        // It may be sent in vain from some moment on.
        let _ = flood.join().expect("the thread does not panic");
        assert_eq!(good.fetch("/afterwards").status, 200, "{what}");
        assert_eq!(good.goaways, [], "{what}");
        eventually(&format!("{what}: {reason} is counted"), || self.failures(reason) > before);
        let kept = self.weir.admin_json("/api/failures").to_string();
        assert!(kept.contains(reason), "{what}: {reason} is kept: {kept}");
    }

    /// How many failures were counted for this reason.
    fn failures(&self, reason: &str) -> f64 {
        let label = format!("reason=\"{reason}\"");
        self.weir.metrics().all("weir_listener_failures_total", &[&label]).iter().sum()
    }
}
