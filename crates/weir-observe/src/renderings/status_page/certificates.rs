//! Certificates on the status page, where there are any: how long they are valid, and how it goes with those that Weir obtains by itself.

use maud::{Markup, html};
use weir_sort::CompactSort as _;

use super::format;
use crate::overview::{CertificateOverview, Overview};

/// Those that are shown, the ones with a fault first.
const SHOWN_MAX: usize = 50;

pub(super) fn section(overview: &Overview) -> Markup {
    let mut shown: Vec<&CertificateOverview> = overview.certificates.iter().collect();
    shown.sort_compact_by_key(|one| (one.state == "valid", one.not_after_s));
    let more = shown.len().saturating_sub(SHOWN_MAX);
    shown.truncate(SHOWN_MAX);
    html! {
        @if !shown.is_empty() {
            section #certificates aria-labelledby="certificates-heading" {
                h2 #certificates-heading { "Certificates" }
                div.scroll { table.list {
                    caption.hidden { "Certificates: their state, and when they are renewed" }
                    thead { tr {
                        th scope="col" { "Host" } th scope="col" { "State" } th scope="col" { "Expires" }
                        th scope="col" { "Next attempt" } th scope="col" { "Last error" }
                    } }
                    tbody { @for one in shown { (row(one, overview.process.at_ms)) } }
                } }
                @if more > 0 { p.note { (more) " more: " code { "weir ctl certificates" } } }
            }
        }
    }
}

fn row(one: &CertificateOverview, now_ms: u64) -> Markup {
    let ca = one.ca.as_deref().map(|ca| ca.trim_start_matches("https://"));
    let origin = ca.or(one.file.as_deref()).unwrap_or_default();
    html! {
        tr {
            th scope="row" { span.part { (one.host) } span.small { (origin) } }
            td data-label="State" { b { (one.state) } }
            td data-label="Expires" { (when(one.not_after_s, now_ms)) }
            td data-label="Next attempt" { (when(one.next_attempt_s, now_ms)) }
            td data-label="Last error" { (one.last_error.as_deref().unwrap_or("-")) }
        }
    }
}

/// A moment as seen from now.
fn when(at_s: Option<u64>, now_ms: u64) -> String {
    let Some(at_ms) = at_s.map(|at| at.saturating_mul(1000)) else { return "-".to_owned() };
    match at_ms.checked_sub(now_ms) {
        Some(left) => format!("in {}", format::lasting(left)),
        None => format!("{} ago", format::lasting(now_ms - at_ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_seen_from_now() {
        assert_eq!(when(None, 5), "-");
        assert!(when(Some(100), 40_000).starts_with("in "));
        assert!(when(Some(10), 40_000).ends_with(" ago"));
    }
}
