//! `[traces]` in the text.

use std::time::Duration;

use super::routing::route::is_host_with_port;
use crate::config::{AcceptFrom, CollectorUrl};
use crate::key::{Map, Spanned, TextFormat, section, text_values};
use crate::value::{Fraction, HeaderValue, ValueError};

section! {
    /// Traces by OpenTelemetry: a span for each sampled request and for each of its attempts, sent to a collector by OTLP over HTTP.
    /// Servers get a `traceparent` (W3C Trace Context), sampled or not. Without `endpoint` there are no traces, and trace headers of
    /// clients are forwarded unchanged. A build without the cargo feature `traces` rejects `endpoint`.
    #[derive(Debug, Clone)]
    pub(crate) struct TracesText at "traces" {
        /// The destination of spans: the full URL of the trace endpoint of a collector.
        endpoint: Spanned<CollectorUrl> = optional, like "nginx `otel_exporter { endpoint }`";
        /// The share of the traces begun here that are sampled. The choice depends on the trace id alone, as in OpenTelemetry's own
        /// sampler.
        ratio: Fraction = "100%", like "nginx `otel_trace` with `split_clients`, HAProxy `rate-limit` (of `filter opentracing`)";
        /// The maximum number of sampled exchanges per second, over all workers, including those sampled by the caller. Further ones are
        /// not sampled, and counted.
        rate: u32 = 1000, in 1..=1_000_000;
        /// The peers whose `traceparent` is accepted: the trace continues, sampled if it was. For all others a new trace begins, and their
        /// `traceparent` and `tracestate` are dropped.
        accept: AcceptFrom = "trusted-proxies", like "nginx `otel_trace_context`";
        /// The `service.name` of the spans.
        service_name: Box<str> = "weir", like "nginx `otel_service_name`";
        /// Headers of the requests to the collector. The status page does not show them.
        headers: Map<HeaderValue> = {}, like "nginx `otel_exporter { header }`";
        /// Further headers, each with its value on the only line of a file, read at start and on reload.
        header_files: Map<Spanned<Box<str>>> = {};
        /// A PEM file with the certificates of the authorities that are trusted for the collector's certificate. Without it, the system's
        /// authorities.
        ca: Spanned<Box<str>> = optional, like "nginx `otel_exporter { trusted_certificate }`";
        /// The time limit of a request to the collector.
        timeout: Duration = "10s", in 1..=600_000;
        /// The maximum number of sampled exchanges that wait to be sent, at about 1.2 KiB each, in memory that is allocated when needed.
        /// Further ones are dropped and counted.
        queue_max: u32 = 2048, in 1..=1_000_000, like "nginx `otel_exporter { batch_size, batch_count }`";
    }
}

text_values! {
    CollectorUrl, parse_url, |value: &CollectorUrl| value.to_string(), TextFormat {
        name: "collector URL",
        article: "the URL of a collector",
        examples: &["http://127.0.0.1:4318/v1/traces", "https://otel.example.com/v1/traces"],
        pattern: r#"^https?://[^/\s@?#"<>]+(/[^\s#"<>]*)?$"#,
        about: "An `http` or `https` URL with a host, a port if it is not the usual one, and a path.",
    };
    Fraction, str::parse, |value: &Fraction| value.to_string(), TextFormat {
        name: "share",
        article: "a share",
        examples: &["10%", "0.1%"],
        pattern: r"^[0-9]+(\.[0-9]{1,4})?%$",
        about: "A percentage up to `100%`, with up to four digits behind the point.",
    };
}

fn parse_url(text: &str) -> Result<CollectorUrl, ValueError> {
    let refused = |message: &str, help: &str| Err(ValueError::new(format!("`{text}` {message}")).help(help));
    let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => {
            let help = "write the whole URL, such as `http://127.0.0.1:4318/v1/traces`";
            return refused("begins with neither `http://` nor `https://`", help);
        }
    };
    if let Some(wrong) = text.chars().find(|c| !c.is_ascii_graphic() || "\"#<>".contains(*c)) {
        return refused(
            &format!("holds {wrong:?}, which is not allowed in this URL"),
            "write it percent-encoded",
        );
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return refused("holds credentials", "write them as a header, in `header_files`");
    }
    if !is_host_with_port(authority) {
        return refused("has no host", "write for example `http://127.0.0.1:4318/v1/traces`");
    }
    Ok(CollectorUrl { is_tls, authority: authority.into(), path: path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_printed() {
        for (text, is_tls, authority, path) in [
            ("http://127.0.0.1:4318/v1/traces", false, "127.0.0.1:4318", "/v1/traces"),
            ("https://otel.example.com/a?b=c", true, "otel.example.com", "/a?b=c"),
            ("http://[::1]:4318", false, "[::1]:4318", ""),
        ] {
            let url = parse_url(text).unwrap();
            assert_eq!((url.is_tls, &*url.authority, &*url.path), (is_tls, authority, path));
            assert_eq!(url.to_string(), text);
        }
        for text in [
            "",
            "127.0.0.1:4318",
            "grpc://a:4317",
            "http://",
            "http:///v1/traces",
            "http://a b/",
            "http://user:secret@a/",
            "http://a:99999/",
            "http://a/#b",
            "http://a/\r\nb",
        ] {
            assert!(parse_url(text).is_err(), "{text:?}");
        }
    }
}
