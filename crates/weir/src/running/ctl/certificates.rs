//! `weir ctl certificates`: the certificates that clients are shown, and how it goes with those that Weir obtains by itself.

use clap::Args;
use serde_json::Value;

use crate::clock;
use crate::error::CommandError;
use crate::output::shown;
use crate::running::admin_client::AdminClient;

/// How the certificates are shown.
#[derive(Debug, Args)]
pub(crate) struct CertificatesArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The certificates of a running Weir.
pub(crate) fn show(client: &AdminClient, arguments: &CertificatesArguments) -> Result<String, CommandError> {
    let certificates: Vec<Value> = serde_json::from_str(&client.get("/api/certificates")?.accepted()?)?;
    let now = clock::unix_seconds();
    Ok(match arguments.json {
        true => format!("{:#}\n", Value::from(certificates)),
        false if certificates.is_empty() => "no listener has TLS\n".to_owned(),
        false => certificates.iter().map(|one| paragraph(one, now)).collect::<Vec<_>>().join("\n"),
    })
}

fn paragraph(certificate: &Value, now: u64) -> String {
    let host = match shown(&certificate["host"]) {
        host if host.is_empty() => "no host".to_owned(),
        host => host,
    };
    let mut text = format!("{host}\n  state    {}\n", shown(&certificate["state"]));
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!("  {name:<8} {value}\n"));
        }
    };
    let text_of = |name: &str| certificate[name].is_string().then(|| shown(&certificate[name]));
    let when = |name: &str| certificate[name].as_u64().map(|at| moment(at, now));
    line("expires", when("not_after_s"));
    line("next", when("next_attempt_s"));
    line("ca", text_of("ca"));
    line("file", text_of("file"));
    line("error", text_of("last_error"));
    text
}

/// A moment as seen from now, in the two largest units.
fn moment(at: u64, now: u64) -> String {
    let seconds = at.abs_diff(now);
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let parts = parts.iter().skip_while(|(count, _)| *count == 0).take(2);
    let lasting = parts.map(|(count, unit)| format!("{count} {unit}")).collect::<Vec<_>>().join(" ");
    match (lasting.is_empty(), at < now) {
        (true, _) => "now".to_owned(),
        (false, true) => format!("{lasting} ago"),
        (false, false) => format!("in {lasting}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn certificates_are_shown_with_what_is_wrong_with_them() {
        let failed = json!({
            "listeners": ["web"], "host": "a.test", "source": "acme", "state": "failed", "ca": "https://ca.test/",
            "file": null, "not_after_s": null, "next_attempt_s": 1_090, "last_error": "no\u{1b}", "obtained": 0,
            "failed": 3,
        });
        let expected = "a.test\n  state    failed\n  next     in 1 min 30 s\n  ca       https://ca.test/\n  error    no\\u{1b}\n";
        assert_eq!(paragraph(&failed, 1_000), expected);
        let valid = json!({
            "listeners": ["web"], "host": "", "source": "file", "state": "valid", "ca": null, "file": "/a.pem",
            "not_after_s": 200_000, "next_attempt_s": null, "last_error": null, "obtained": 0, "failed": 0,
        });
        let expected = "no host\n  state    valid\n  expires  in 2 d 7 h\n  file     /a.pem\n";
        assert_eq!(paragraph(&valid, 0), expected);
    }

    #[test]
    fn moments_are_seen_from_now() {
        for (at, expected) in [(100, "now"), (101, "in 1 s"), (40, "1 min 0 s ago"), (86_500, "in 1 d 0 h")] {
            assert_eq!(moment(at, 100), expected);
        }
    }
}
