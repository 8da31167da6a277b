//! What answers of servers make of stored responses, and what clients are told.

use weir_http::{FieldRun, FieldWriter};

use super::*;

fn freshen_with(stored: &str, not_modified: &str) -> FreshenPlan {
    let (request, stored, newer) = (head(""), head(stored), head(not_modified));
    let request = StoredRequest { method: Method::Get, head: request.view(), sent: NOW, is_proven: false };
    plan_freshening(&request, 200, stored.view(), newer.view(), &StoreRules::default(), NOW)
}

#[test]
fn a_304_replaces_the_fields_that_it_has() {
    let stored = "Cache-Control: max-age=2|ETag: \"a\"|A: old|A: older|B: kept|Content-Type: text/plain|Content-Encoding: gzip";
    let newer = "date: {+0}|cache-control: max-age=3600|ETag: W/\"a\"|a: new|Content-Type: text/html|Content-Length: 99\
        |Connection: close|Content-Encoding: br|Content-Range: x|Age: 5|Set-Cookie: a=b|Content-Foo: c";
    let FreshenPlan::Store(freshened) = freshen_with(stored, newer) else { panic!("it still holds") };
    let date = head("date: {+0}");
    let expected = "ETag: \"a\"\r\nB: kept\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n"
        .to_owned()
        + str::from_utf8(date.text()).expect("it is ASCII")
        + "cache-control: max-age=3600\r\na: new\r\nContent-Foo: c\r\n";
    assert_eq!(str::from_utf8(freshened.head.text()), Ok(&*expected));
    assert_eq!((freshened.lifetime.fresh_ms, freshened.lifetime.initial_age_ms), (3_600_000, 5_000));
}

#[test]
fn a_304_without_a_date_is_new() {
    let FreshenPlan::Store(freshened) = freshen_with("Cache-Control: max-age=9|Date: {-500}|ETag: \"a\"", "")
    else {
        panic!("it still holds")
    };
    assert_eq!((freshened.lifetime.initial_age_ms, freshened.lifetime.is_fresh(NOW)), (0, true));
}

#[test]
fn a_304_is_about_the_version_that_it_names() {
    for (stored, newer, expected) in [
        ("ETag: \"a\"", "ETag: \"a\"", "store"),
        ("ETag: \"a\"", "", "store"),
        ("ETag: \"a\"", "ETag: \"b\"", "other"),
        ("Last-Modified: {-9}", "Last-Modified: {-9}", "store"),
        ("Last-Modified: {-9}", "Last-Modified: {-8}", "other"),
        ("Last-Modified: {-9}", "", "store"),
        ("ETag: \"a\"", "Cache-Control: no-store", "send"),
        ("ETag: \"a\"", "Cache-Control: private", "send"),
    ] {
        let outcome = match freshen_with(&format!("Cache-Control: max-age=2|{stored}"), newer) {
            FreshenPlan::Store(_) => "store",
            FreshenPlan::SendOnly(..) => "send",
            FreshenPlan::OtherVersion => "other",
        };
        assert_eq!(outcome, expected, "{stored} {newer}");
    }
}

#[test]
fn a_304_says_anew_how_long_this_cache_keeps_a_response() {
    let rules = StoreRules { obeys_accel_expires: true, ..StoreRules::default() };
    for (newer, expected) in [
        ("X-Accel-Expires: 60", Some(60_000)),
        ("X-Accel-Expires: 60|Cache-Control: no-store", Some(60_000)),
        ("X-Accel-Expires: 0", None),
        ("Cache-Control: max-age=5", Some(5_000)),
        ("Cache-Control: no-store", None),
    ] {
        let (request, stored, newer_head) =
            (head(""), head("ETag: \"a\"|Cache-Control: max-age=9"), head(newer));
        let request =
            StoredRequest { method: Method::Get, head: request.view(), sent: NOW, is_proven: false };
        let planned = plan_freshening(&request, 200, stored.view(), newer_head.view(), &rules, NOW);
        let fresh_ms = match planned {
            FreshenPlan::Store(freshened) => {
                assert!(!freshened.head.view().contains("x-accel-expires"), "{newer}");
                Some(freshened.lifetime.fresh_ms)
            }
            _ => None,
        };
        assert_eq!(fresh_ms, expected, "{newer}");
    }
}

/// Writes lines.
#[derive(Default)]
struct LineWriter(Vec<u8>);

impl FieldWriter for LineWriter {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.0.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
    }
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.field(name, &value);
    }
    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.field_with(name, write);
    }
    fn decimal_field(&mut self, name: &[u8], value: u64) {
        self.field(name, value.to_string().as_bytes());
    }
    fn copy(&mut self, run: FieldRun<'_>) {
        for field in run.fields {
            self.field(field.name.of(run.text), field.value.of(run.text));
        }
    }
}

#[test]
fn the_server_is_asked_with_the_validators_that_there_are() {
    for (stored, expected) in [
        ("ETag: \"a\"|Last-Modified: x", "If-None-Match: \"a\"\r\nIf-Modified-Since: x\r\n"),
        ("ETag: W/\"a\"", "If-None-Match: W/\"a\"\r\n"),
        ("Last-Modified: x", "If-Modified-Since: x\r\n"),
        ("Date: x", ""),
    ] {
        let mut writer = LineWriter::default();
        assert_eq!(write_validators(head(stored).view(), &mut writer), !expected.is_empty());
        assert_eq!(str::from_utf8(&writer.0), Ok(expected));
    }
}

#[test]
fn a_head_updates_what_it_confirms() {
    let stored = head("ETag: \"a\"|Last-Modified: x");
    for (newer, len, expected) in [
        ("ETag: \"a\"", Some(5), true),
        ("", None, true),
        ("", Some(6), false),
        ("ETag: \"b\"", Some(5), false),
        ("Last-Modified: y", Some(5), false),
    ] {
        assert_eq!(updates_by_head(stored.view(), Some(5), head(newer).view(), len), expected, "{newer}");
    }
}

#[test]
fn unsafe_requests_invalidate_what_they_name_on_their_origin() {
    for (method, status, expected) in [
        (Method::Post, 200, true),
        (Method::Put, 201, true),
        (Method::Delete, 303, true),
        (Method::Other, 200, true),
        (Method::Post, 500, false),
        (Method::Post, 404, false),
        (Method::Get, 200, false),
        (Method::Head, 200, false),
        (Method::Options, 200, false),
    ] {
        assert_eq!(invalidates(method, status), expected, "{method:?} {status}");
    }
    for (response, expected) in [
        ("Location: /a?b#c", &["/a?b"][..]),
        ("Location: https://x.test/a|Content-Location: //X.test:443/b", &["/a", "/b"]),
        ("Location: HTTPS://x.test", &["/"]),
        ("Location: http://x.test/a", &[]),
        ("Location: https://y.test/a", &[]),
        ("Location: https://x.test:8443/a", &[]),
        ("Location: https://x.test.evil/a", &[]),
        ("Location: a/b", &[]),
        ("Location: https://x.test?a", &[]),
    ] {
        let response = head(response);
        let mut targets = Vec::new();
        invalidated_targets(response.view(), b"https", b"x.test", |target| {
            targets.push(String::from_utf8_lossy(target).into_owned());
        });
        assert_eq!(targets, expected, "{response:?}");
    }
}

#[test]
fn cache_status_says_what_was_done() {
    let write = |outcome: CacheOutcome<'_>| {
        let mut text = Vec::new();
        write_cache_status(&mut text, &outcome);
        String::from_utf8(text).expect("it is ASCII")
    };
    assert_eq!(write(CacheOutcome { ttl: Some(-3), ..CacheOutcome::default() }), "weir; hit; ttl=-3");
    let miss = CacheOutcome {
        forwarded: Some(ForwardReason::Stale),
        forward_status: Some(304),
        ttl: Some(60),
        is_stored: true,
        is_collapsed: true,
        key: Some(b"https://a.test/\"\xff"),
        detail: Some("set-cookie"),
    };
    assert_eq!(
        write(miss),
        "weir; fwd=stale; fwd-status=304; ttl=60; stored; collapsed; key=\"https://a.test/\\\"?\"; detail=\"set-cookie\""
    );
    assert_eq!(
        write(CacheOutcome { ttl: Some(i64::MIN), ..CacheOutcome::default() }),
        "weir; hit; ttl=-999999999999999"
    );
}
