//! What responses say about caching: for every value of these fields, a restriction beside it holds.

use weir_cache::directives::{RequestDirectives, ResponseDirectives};
use weir_cache::rules::{ClientRules, NotStored, StoreRules, StoredRequest, plan_storing, reuse};
use weir_cache::{CacheTime, StoredHead};
use weir_http::Method;

const NOW: CacheTime = CacheTime::from_seconds(1_000_000_000);

/// The largest run of digits, or what a number too large counts as.
fn largest_number(input: &[u8]) -> u64 {
    let runs = input.split(|byte| !byte.is_ascii_digit()).filter(|run| !run.is_empty());
    let number = |run: &[u8]| {
        run.iter()
            .fold(0_u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    };
    runs.map(number).max().unwrap_or(0).min(1 << 31)
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    if input.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
        return;
    }
    let mut head = StoredHead::default();
    for name in [&b"Cache-Control"[..], b"CDN-Cache-Control", b"Vary", b"Age"] {
        head.append(name, input);
    }
    let none = StoredHead::default();
    let request = StoredRequest { method: Method::Get, head: none.view(), sent: NOW, is_proven: false };
    let rules = StoreRules::default();
    let asked = RequestDirectives::new(head.view());
    if let Ok(plan) = plan_storing(&request, 200, head.view(), &rules, NOW) {
        assert!(
            plan.lifetime.fresh_ms <= largest_number(input) * 1_000,
            "fresh for {} ms",
            plan.lifetime.fresh_ms
        );
        for seconds in [0, 1, 1_000_000, u64::MAX / 1_000] {
            _ = reuse(&plan.lifetime, &asked, ClientRules::default(), NOW.after(seconds * 1_000));
            _ = (plan.lifetime.ttl(NOW.after(seconds)), plan.lifetime.useless_from(seconds));
        }
        _ = plan.stored_head(head.view());
    }
    // A field of its own, which nothing in the other one can take back.
    for (restriction, reason) in [(&b"no-store"[..], NotStored::NoStore), (b"private", NotStored::Private)] {
        let mut head = StoredHead::default();
        head.append(b"Cache-Control", input);
        head.append(b"Cache-Control", restriction);
        let directives = ResponseDirectives::new(head.view());
        assert!(directives.no_store || directives.private.is_whole());
        if !directives.must_understand {
            let outcome = plan_storing(&request, 200, head.view(), &rules, NOW);
            assert!(
                matches!(outcome, Err(found) if found == reason || found == NotStored::NoStore),
                "{outcome:?}"
            );
        }
    }
}
