//! What becomes of bodies and failures: `compress`, `buffering`, `errors`, `retry`, `contentType`, `grpcWeb`.

use super::{RouterPlace, RouterSettings};
use crate::document::TomlValue;
use crate::source::Statement;
use crate::traefik::services::RetrySetting;
use crate::traefik::tree::{child, is_true, key, milliseconds, number, shown_time, template, value, values};

impl<'s> RouterPlace<'s, '_> {
    pub(super) fn compress(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let mut entries: Vec<(String, TomlValue)> = Vec::new();
        let mut algorithms = vec!["gzip", "br", "zstd"];
        for part in kind.children() {
            match key(part).as_str() {
                "encodings" => {
                    algorithms = values(ledger, part);
                    if algorithms.is_empty()
                        || algorithms.iter().any(|name| !matches!(*name, "gzip" | "br" | "zstd"))
                    {
                        return ledger.unsupported(kind, "Weir compresses with gzip, br and zstd");
                    }
                }
                "minresponsebodybytes" => {
                    let size = number(ledger, part).unwrap_or(1024);
                    if size != 1024 {
                        entries.push(("min_length".to_owned(), format!("{size}B").into()));
                    }
                }
                "includedcontenttypes" => entries.push(("types".to_owned(), values(ledger, part).into())),
                "excludedcontenttypes" => {
                    values(ledger, part);
                    ledger.approximated(
                        part,
                        "compressed is what `compression.types` of the route has: name those",
                    );
                    continue;
                }
                "defaultencoding" => {
                    value(ledger, part);
                    ledger.approximated(part, "clients without `Accept-Encoding` get the body as it is");
                    continue;
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        entries.insert(0, ("algorithms".to_owned(), algorithms.into()));
        settings.set("compression", TomlValue::Inline(entries), kind);
        ledger.exact(kind);
    }

    pub(super) fn retry(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let mut setting = RetrySetting { attempts: 1, backoff: None };
        for part in kind.children() {
            match key(part).as_str() {
                "attempts" => setting.attempts = number(ledger, part).unwrap_or(1).clamp(1, 100),
                "initialinterval" => match milliseconds(value(ledger, part)) {
                    Some(0) => {}
                    Some(time) => setting.backoff = Some(shown_time(time.min(60_000))),
                    None => {
                        ledger.unsupported(part, "the time cannot be read");
                        continue;
                    }
                },
                _ => continue,
            }
            ledger.exact(part);
        }
        settings.retry = Some(setting);
        ledger.approximated(kind, "requests that a server may have seen are sent again only if their method is idempotent, and within a budget: see `retry`");
    }

    pub(super) fn buffering(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let mut memory: [Option<i64>; 2] = [None, None];
        let mut largest = None;
        for part in kind.children() {
            match key(part).as_str() {
                "maxrequestbodybytes" => largest = number(ledger, part).filter(|size| *size > 0),
                "memrequestbodybytes" => memory[0] = number(ledger, part),
                "memresponsebodybytes" => memory[1] = number(ledger, part),
                "maxresponsebodybytes" if number(ledger, part) == Some(0) => {}
                "maxresponsebodybytes" => {
                    ledger.unsupported(part, "Weir limits the heads of responses, not their bodies");
                    continue;
                }
                "retryexpression" => {
                    ledger.unsupported(part, "see `retry.on_status` of the upstream");
                    continue;
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        if let Some(size) = largest {
            settings.set("limits", TomlValue::inline([("body_size", format!("{size}B").into())]), kind);
        }
        for (key, memory) in [("buffer_requests", memory[0]), ("buffer_responses", memory[1])] {
            let size = memory.unwrap_or(1 << 20).clamp(0, 16 << 20);
            settings.set(key, TomlValue::inline([("memory", format!("{size}B").into())]), kind);
        }
        ledger
            .approximated(kind, "what is larger than `memory` and `file` of the buffers passes as it comes");
    }

    pub(super) fn error_pages(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let (mut status, mut service, mut query) = (Vec::new(), None, "/");
        for part in kind.children() {
            match key(part).as_str() {
                "status" => status = values(ledger, part),
                "service" => service = Some((value(ledger, part), part)),
                "query" => query = value(ledger, part),
                _ => continue,
            }
            ledger.exact(part);
        }
        let statuses: Option<Vec<TomlValue>> = status.iter().map(|text| status_value(text)).collect();
        let (Some(statuses), Some((service, from))) = (statuses.filter(|list| !list.is_empty()), service)
        else {
            return ledger.unsupported(kind, "statuses and a service are needed: see `error_pages`");
        };
        if query.contains("{url}") || query.contains("{originalStatus}") || !query.starts_with('/') {
            return ledger
                .unsupported(kind, "the path of a page has `{status}` and placeholders of the request");
        }
        let (upstream, has_own_host) = match self.services.plain_upstream(service, from) {
            Ok(upstream) => upstream,
            Err(why) => return ledger.unsupported(kind, &why),
        };
        let path = template(query).replace("{{status}}", "{status}");
        let mut entries = vec![
            ("status".to_owned(), TomlValue::Array(statuses)),
            ("of_servers".to_owned(), true.into()),
            ("upstream".to_owned(), upstream.into()),
            ("path".to_owned(), path.into()),
        ];
        if has_own_host {
            entries.push(("forward_host".to_owned(), "server".into()));
        }
        settings.error_pages.push((TomlValue::Inline(entries), kind));
        ledger.approximated(
            kind,
            "fields are those of the failed response, and a page is used for 5 s: see `error_pages`",
        );
    }

    pub(super) fn content_type(&self, kind: &'s Statement) {
        let ledger = self.ledger;
        for part in kind.children() {
            match key(part).as_str() {
                "autodetect" if !is_true(ledger, part) => {
                    ledger.by_default(part, "Weir guesses no media types");
                }
                "autodetect" => ledger.approximated(part, "a response without `Content-Type` stays without"),
                _ => {}
            }
        }
        let has_own = child(kind, "autodetect").is_some();
        match has_own {
            true => ledger.exact(kind),
            false => ledger.approximated(kind, "a response without `Content-Type` stays without"),
        }
    }

    pub(super) fn grpc_web(&self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        for part in kind.children() {
            if key(part) == "alloworigins" {
                values(ledger, part);
                ledger.unsupported(part, "name the origins in `cors` of the route");
            }
        }
        settings.set("grpc_web", true, kind);
        ledger.exact(kind);
    }
}

/// `500`, `500-599` or `5xx`-like texts as Weir has them.
fn status_value(text: &str) -> Option<TomlValue> {
    if let Ok(status) = text.parse::<i64>() {
        return (200..600).contains(&status).then(|| status.into());
    }
    let (from, to) = text.split_once('-')?;
    let (from, to) = (from.trim().parse::<i64>().ok()?, to.trim().parse::<i64>().ok()?);
    (200 <= from && from <= to && to < 600).then(|| format!("{from}-{to}").into())
}
