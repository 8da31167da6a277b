//! What is stored, and for how long.

use super::*;

/// For how many seconds a response with this status and these fields is fresh; why it is not stored, else.
fn fresh(status: u16, response: &str) -> Result<u64, NotStored> {
    plan("", status, response)
        .map(|plan| (plan.lifetime.fresh_ms.saturating_sub(plan.lifetime.initial_age_ms)) / 1_000)
}

#[test]
fn freshness_is_what_the_response_says() {
    const DAY: u64 = 86_400;
    for (response, expected) in [
        ("", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600", Ok(3_600)),
        ("Cache-Control: MaX-aGe=3600", Ok(3_600)),
        ("Cache-Control: max-age=003600", Ok(3_600)),
        ("Cache-Control: max-age=\"3600\"", Ok(3_600)),
        ("Cache-Control: foobar, max-age=3600", Ok(3_600)),
        ("Cache-Control: foobar=\"a, max-age=7, \\\"b\", max-age=3600", Ok(3_600)),
        ("Cache-Control: max-age=2147483647", Ok(2_147_483_647)),
        ("Cache-Control: max-age=99999999999", Ok(2_147_483_648)),
        ("Cache-Control: max-age=99999999999999999999999999", Ok(2_147_483_648)),
        // What is malformed is stale.
        ("Cache-Control: max-age=0", Err(NotStored::Stale)),
        ("Cache-Control: max-age=-3600", Err(NotStored::Stale)),
        ("Cache-Control: max-age='3600'", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600.0", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600a", Err(NotStored::Stale)),
        ("Cache-Control: max-age=a3600", Err(NotStored::Stale)),
        ("Cache-Control: max-age =3600", Err(NotStored::Stale)),
        ("Cache-Control: max-age= 3600", Err(NotStored::Stale)),
        ("Cache-Control: max-age", Err(NotStored::Stale)),
        ("Cache-Control: max-age=\"3600", Err(NotStored::Stale)),
        ("Cache-Control: max-age=\"3600\"0", Err(NotStored::Stale)),
        ("Cache-Control: extension=\"max-age=3600\", max-age=1", Ok(1)),
        ("Cache-Control: max-age=1, extension=\"max-age=3600\"", Ok(1)),
        // The smallest of several.
        ("Cache-Control: max-age=1800, max-age=1", Ok(1)),
        ("Cache-Control: max-age=1|Cache-Control: max-age=1800", Ok(1)),
        // `s-maxage` is for shared caches.
        ("Cache-Control: s-maxage=3600", Ok(3_600)),
        ("Cache-Control: max-age=3600, s-maxage=1", Ok(1)),
        ("Cache-Control: max-age=3600|Cache-Control: s-maxage=1", Ok(1)),
        ("Cache-Control: max-age=0, s-maxage=3600|Expires: {-10}", Ok(3_600)),
        // `Expires`, when nothing else says.
        ("Expires: {+60}|Date: {+0}", Ok(60)),
        ("Expires: {+60}", Ok(60)),
        ("Expires: {+60}|Date: foo", Ok(60)),
        ("Expires: {-60}|Date: {+0}", Err(NotStored::Stale)),
        ("Expires: {+0}|Date: {+0}", Err(NotStored::Stale)),
        ("Expires: {+300}|Date: {+400}", Err(NotStored::Stale)),
        ("Expires: 0|Date: {+0}", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600|Expires: {-7200}|Date: {+0}", Ok(3_600)),
        ("Cache-Control: max-age=3600|Expires: 0|Date: {+0}", Ok(3_600)),
        ("Cache-Control: max-age=0|Expires: {+3600}|Date: {+0}", Err(NotStored::Stale)),
        ("Expires: {+60}|Expires: {+60}", Ok(60)),
        ("Expires: {+60}|Expires: {+61}", Err(NotStored::Stale)),
        // Age.
        ("Cache-Control: max-age=3600|Age: 7200|Date: {+0}", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600|Age: 600", Ok(3_000)),
        ("Cache-Control: max-age=3600|Date: {-7200}", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600|Date: {-600}|Age: 500", Ok(3_000)),
        ("Cache-Control: max-age=3600|Date: {+600}", Ok(3_600)),
        ("Expires: {+10}|Date: {-10}|Age: 25", Err(NotStored::Stale)),
        ("Expires: {+20}|Date: {+10}|Age: 15", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600|Age: abc", Ok(3_600)),
        ("Cache-Control: max-age=3600|Age: -7200", Ok(3_600)),
        ("Cache-Control: max-age=3600|Age: 7200.0", Ok(3_600)),
        ("Cache-Control: max-age=3600|Age: 2147483649", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600|Age: 7200, 0", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600|Age: 0, 7200", Ok(3_600)),
        ("Cache-Control: max-age=3600|Age: 7200|Age: 0", Err(NotStored::Stale)),
        ("Cache-Control: max-age=3600|Age: 0|Age: 7200", Ok(3_600)),
        // A tenth of the time since the last change, at most a day.
        ("Last-Modified: {-86400}|Date: {+0}", Ok(8_640)),
        ("Last-Modified: {-86400000}|Date: {+0}", Ok(DAY)),
        ("Last-Modified: {+10}|Date: {+0}", Ok(0)),
        // A validator makes a stale one worth storing.
        ("ETag: \"a\"", Ok(0)),
        ("Cache-Control: max-age=0, stale-while-revalidate=5", Ok(0)),
        ("Cache-Control: max-age=0, stale-if-error=5", Ok(0)),
        ("Cache-Control: max-age=0, stale-if-error=5, must-revalidate", Err(NotStored::Stale)),
    ] {
        assert_eq!(fresh(200, response), expected, "{response}");
    }
}

#[test]
fn dates_are_read_in_all_formats_and_no_other() {
    for (expires, is_fresh) in [
        ("Tue, 19 Jan 2038 14:14:08 GMT", true),
        ("Sun, 21 Nov 2286 04:46:39 GMT", true),
        ("Thursday, 18-Aug-50 02:01:18 GMT", true),
        ("Thu Aug  8 02:01:18 2050", true),
        ("THU, 18 Aug 2050 02:01:18 GMT", true),
        ("Thu, 18 AUG 2050 02:01:18 GMT", true),
        ("Thu, 18 Aug 2050 02:01:18 gMT", true),
        ("Thu, 18 Aug 2050 02:01:18 UTC", false),
        ("Thu, 18 Aug 2050 02:01:18 AEST", false),
        ("Thu, 18 Aug 50 02:01:18 GMT", false),
        ("Thu 18 Aug 2050 02:01:18 GMT", false),
        ("Thu, 18  Aug  2050 02:01:18 GMT", false),
        ("Thu, 18-Aug-2050 02:01:18 GMT", false),
        ("Thu, 18 Aug 2050 02.01.18 GMT", false),
        ("Thu, 18 Aug 2050 2:01:18 GMT", false),
        ("Thu, 18 Aug 2050 2:01:18 GMT|Expires: Thu, 18 Aug 2050 2:01:19 GMT", false),
        ("", false),
    ] {
        let response = format!("Date: {{+0}}|Expires: {expires}");
        assert_eq!(fresh(200, &response).is_ok_and(|seconds| seconds > 0), is_fresh, "{expires}");
    }
}

#[test]
fn what_may_not_be_stored_is_refused_with_its_reason() {
    for (request, status, response, expected) in [
        ("", 200, "Cache-Control: max-age=9, no-store", Some(NotStored::NoStore)),
        ("", 200, "Cache-Control: max-age=9, No-StOrE", Some(NotStored::NoStore)),
        ("", 200, "Cache-Control: max-age=9, no-store=\"x\"", Some(NotStored::NoStore)),
        ("", 200, "Cache-Control: max-age=9, private", Some(NotStored::Private)),
        ("", 200, "Cache-Control: max-age=9, private=\"", Some(NotStored::Private)),
        ("", 200, "Cache-Control: max-age=9, private=\"\"", Some(NotStored::Private)),
        ("", 200, "Cache-Control: max-age=9, private=\"X-User\"", None),
        ("", 200, "Cache-Control: max-age=9, no-cache", Some(NotStored::Stale)),
        ("", 200, "Cache-Control: max-age=9, no-cache|ETag: \"a\"", None),
        ("", 200, "Cache-Control: max-age=9, no-cache=\"X-User\"", None),
        ("", 200, "Pragma: no-cache|Last-Modified: {-100}", None),
        ("", 200, "Cache-Control: max-age=9|Pragma: no-cache", None),
        ("Cache-Control: no-store", 200, "Cache-Control: max-age=9", Some(NotStored::RequestNoStore)),
        ("Authorization: x", 200, "Cache-Control: max-age=9", Some(NotStored::Authorization)),
        ("Authorization: x", 200, "Cache-Control: max-age=9, public", None),
        ("Authorization: x", 200, "Cache-Control: max-age=9, must-revalidate", None),
        ("Authorization: x", 200, "Cache-Control: s-maxage=9", None),
        ("Cookie: x", 200, "Cache-Control: max-age=9", None),
        ("", 200, "Cache-Control: max-age=9|Set-Cookie: a=b", Some(NotStored::SetCookie)),
        ("", 200, "Cache-Control: max-age=9, no-cache=\"Set-Cookie\"|Set-Cookie: a=b", None),
        ("", 200, "Cache-Control: max-age=9|Vary: *", Some(NotStored::Vary)),
        ("", 200, "Cache-Control: max-age=9|Vary: *, Foo", Some(NotStored::Vary)),
        ("", 200, "Cache-Control: max-age=9|Vary: , *", Some(NotStored::Vary)),
        ("", 200, "Cache-Control: max-age=9|Vary: |Vary: *", Some(NotStored::Vary)),
        ("", 200, "Cache-Control: max-age=9|Vary: a b", Some(NotStored::Vary)),
        ("", 200, "Cache-Control: max-age=9|Vary: Foo", None),
        ("", 200, "Cache-Control: max-age=9|Vary: Accept-Encoding|Content-Encoding: GZIP", None),
        ("", 200, "Cache-Control: max-age=9|Content-Encoding: deflate", None),
        ("Accept-Encoding: gzip;q=0", 200, GZIP, Some(NotStored::CodingNotAccepted)),
        ("Accept-Encoding: identity", 200, GZIP, Some(NotStored::CodingNotAccepted)),
        ("Accept-Encoding: br, *;q=0", 200, GZIP, Some(NotStored::CodingNotAccepted)),
        ("Accept-Encoding:", 200, GZIP, Some(NotStored::CodingNotAccepted)),
        ("Accept-Encoding: br", 200, GZIP_ALONE, Some(NotStored::CodingNotAccepted)),
        ("Accept-Encoding: br, gzip", 200, "Cache-Control: max-age=9|Content-Encoding: br, gzip", None),
        (
            "Accept-Encoding: gzip",
            200,
            "Cache-Control: max-age=9|Content-Encoding: br, gzip",
            Some(NotStored::CodingNotAccepted),
        ),
        ("Accept-Encoding: GZIP", 200, GZIP, None),
        ("Accept-Encoding: *", 200, GZIP, None),
        ("Accept-Encoding: gzip;q=0", 200, "Cache-Control: max-age=9|Vary: Accept-Encoding", None),
        ("", 200, GZIP_ALONE, None),
        (
            "",
            200,
            "Cache-Control: max-age=9|Vary: accept-encoding|Content-Encoding: gzip, deflate",
            Some(NotStored::Coding),
        ),
        ("", 206, "Cache-Control: max-age=9", Some(NotStored::Status)),
        ("", 304, "Cache-Control: max-age=9", Some(NotStored::Status)),
        ("", 103, "Cache-Control: max-age=9", Some(NotStored::Status)),
        ("", 599, "Cache-Control: max-age=9", None),
        ("", 599, "Cache-Control: max-age=9, no-store, must-understand", Some(NotStored::MustUnderstand)),
        ("", 599, "Cache-Control: max-age=9, must-understand", Some(NotStored::MustUnderstand)),
        ("", 200, "Cache-Control: max-age=9, no-store, must-understand", None),
        ("", 503, "Cache-Control: max-age=9", None),
    ] {
        assert_eq!(plan(request, status, response).err(), expected, "{request} {status} {response}");
    }
    for (fields, expected) in [
        ("Cache-Control: max-age=9", Some(NotStored::Proven)),
        ("Cache-Control: max-age=9|ETag: \"a\"", Some(NotStored::Proven)),
        ("Cache-Control: max-age=9, private", Some(NotStored::Private)),
        ("Cache-Control: max-age=9, public", None),
        ("Cache-Control: s-maxage=9", None),
        ("Cache-Control: max-age=9, must-revalidate", None),
        ("CDN-Cache-Control: max-age=9", Some(NotStored::Proven)),
        ("CDN-Cache-Control: max-age=9, public", None),
    ] {
        let (request, response) = (head(""), head(fields));
        let request = StoredRequest { method: Method::Get, head: request.view(), sent: NOW, is_proven: true };
        let outcome = plan_storing(&request, 200, response.view(), &StoreRules::default(), NOW);
        assert_eq!(outcome.err(), expected, "{fields}");
        // Whatever the operator says about times.
        let ttls = vec![StatusTtl { statuses: 200..=299, ttl_ms: 1_000, overrides: true }];
        let rules = StoreRules { ttls, ignores_origin: true, ..StoreRules::default() };
        let outcome = plan_storing(&request, 200, response.view(), &rules, NOW);
        assert_eq!(outcome.err(), Some(NotStored::Proven), "{fields}");
    }
    let (request, response) = (head(""), head("Cache-Control: max-age=9"));
    for method in [Method::Head, Method::Post, Method::Other] {
        let request = StoredRequest { method, head: request.view(), sent: NOW, is_proven: false };
        let outcome = plan_storing(&request, 200, response.view(), &StoreRules::default(), NOW);
        assert_eq!(outcome, Err(NotStored::Method));
    }
}

const GZIP: &str = "Cache-Control: max-age=9|Vary: Accept-Encoding|Content-Encoding: gzip";
const GZIP_ALONE: &str = "Cache-Control: max-age=9|Content-Encoding: gzip";

#[test]
fn a_coded_response_depends_on_what_is_accepted() {
    for (response, expected) in [
        (GZIP, true),
        (GZIP_ALONE, true),
        ("Cache-Control: max-age=9|Content-Encoding: identity", false),
        ("Cache-Control: max-age=9|Content-Encoding: aes128gcm", false),
        ("Cache-Control: max-age=9", false),
    ] {
        let plan = plan("Accept-Encoding: gzip", 200, response).expect("it is stored");
        assert_eq!(plan.vary.names().any(|name| name == "accept-encoding"), expected, "{response}");
    }
}

#[test]
fn what_depends_on_fields_of_weir_is_not_stored() {
    let rules = StoreRules { written_fields: vec!["x-user".into()], ..StoreRules::default() };
    for (vary, expected) in
        [("X-User", Some(NotStored::Vary)), ("x-other, x-USER", Some(NotStored::Vary)), ("X-Other", None)]
    {
        let response = format!("Cache-Control: public, max-age=9|Vary: {vary}");
        assert_eq!(plan_with(&rules, "", 200, &response).err(), expected, "{vary}");
    }
}

#[test]
fn statuses_that_may_be_stored_by_default() {
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert_eq!(fresh(status, "Last-Modified: {-86400}|Date: {+0}"), Ok(8_640), "{status}");
    }
    for status in [201, 202, 302, 307, 403, 500, 502, 503, 504, 599] {
        assert_eq!(
            fresh(status, "Last-Modified: {-86400}|Date: {+0}"),
            Err(NotStored::NoLifetime),
            "{status}"
        );
        assert_eq!(fresh(status, "Cache-Control: max-age=7"), Ok(7), "{status}");
        assert_eq!(
            fresh(status, "Last-Modified: {-86400}|Date: {+0}|Cache-Control: public"),
            Ok(8_640),
            "{status}"
        );
    }
}

#[test]
fn the_targeted_field_holds_in_place_of_others() {
    for (response, expected) in [
        ("CDN-Cache-Control: max-age=3600", Ok(3_600)),
        ("CDN-Cache-Control: max-age=99999999999", Ok(2_147_483_648)),
        ("CDN-Cache-Control: foobar, max-age=3600", Ok(3_600)),
        ("CDN-Cache-Control: max-age=3600;x=1, foo=(a \"b\");c", Ok(3_600)),
        ("CDN-Cache-Control: max-age=3600|Age: 7200", Err(NotStored::Stale)),
        ("CDN-Cache-Control: max-age=0|Expires: {+100}|Date: {+0}", Err(NotStored::Stale)),
        ("CDN-Cache-Control: max-age=3600|Expires: {-100}|Date: {+0}", Ok(3_600)),
        ("CDN-Cache-Control: max-age=3600|Cache-Control: max-age=1", Ok(3_600)),
        ("CDN-Cache-Control: max-age=1|Cache-Control: max-age=3600", Ok(1)),
        ("CDN-Cache-Control: max-age=1, max-age=2", Ok(2)),
        ("CDN-Cache-Control: private|Cache-Control: max-age=3600", Err(NotStored::Private)),
        ("CDN-Cache-Control: no-store|Cache-Control: max-age=3600", Err(NotStored::NoStore)),
        ("CDN-Cache-Control: no-cache|Cache-Control: max-age=3600", Err(NotStored::Stale)),
        ("CDN-Cache-Control: max-age=3600, no-store=?0|Cache-Control: no-store", Ok(3_600)),
        ("CDN-Cache-Control: max-age=3600|Cache-Control: no-store", Ok(3_600)),
        // A wrong type is a malformed directive, anything else a field to be ignored.
        ("CDN-Cache-Control: max-age=\"10000\"|Cache-Control: max-age=5", Err(NotStored::Stale)),
        ("CDN-Cache-Control: max-age=10000, &&&&&|Cache-Control: no-store", Err(NotStored::NoStore)),
        ("CDN-Cache-Control: max-age =100|Cache-Control: max-age=1", Ok(1)),
        ("CDN-Cache-Control: max-age= 100|Cache-Control: max-age=1", Ok(1)),
        ("CDN-Cache-Control: MaX-aGe=100|Cache-Control: max-age=1", Ok(1)),
        ("CDN-Cache-Control: max-age=100,|Cache-Control: max-age=1", Ok(1)),
        ("CDN-Cache-Control: |Cache-Control: max-age=1", Ok(1)),
    ] {
        assert_eq!(fresh(200, response), expected, "{response}");
    }
}

#[test]
fn the_operator_has_the_last_word() {
    let ttl = |statuses, ttl_ms, overrides| StatusTtl { statuses, ttl_ms, overrides };
    let with = |ttls: Vec<StatusTtl>| StoreRules { ttls, ..StoreRules::default() };
    let default = with(vec![ttl(404..=404, 1_000, false), ttl(200..=299, 60_000, false)]);
    let override_all = with(vec![ttl(500..=599, 0, true), ttl(200..=499, 60_000, true)]);
    let ignore = StoreRules { ignores_origin: true, ..default.clone() };
    let cookies = StoreRules { ignores_set_cookie: true, ..default.clone() };
    let capped = StoreRules { ttl_max_ms: 5_000, ..StoreRules::default() };
    let strict = StoreRules {
        heuristic: HeuristicRule { percent: 0, max_ms: 0 },
        obeys_request_no_store: false,
        ..StoreRules::default()
    };
    let modified = "Last-Modified: {-86400}|Date: {+0}";
    for (rules, status, response, expected) in [
        (&default, 200, "", Ok(60)),
        (&default, 404, "", Ok(1)),
        (&default, 302, "", Err(NotStored::NoLifetime)),
        (&default, 200, modified, Ok(60)),
        (&default, 200, "Cache-Control: max-age=7", Ok(7)),
        (&default, 200, "Cache-Control: no-store", Err(NotStored::NoStore)),
        (&override_all, 200, "Cache-Control: max-age=7", Ok(60)),
        (&override_all, 200, "Cache-Control: max-age=0, no-cache", Ok(60)),
        (&override_all, 200, "Cache-Control: private", Err(NotStored::Private)),
        (&override_all, 503, "Cache-Control: max-age=7", Err(NotStored::TtlZero)),
        (&ignore, 200, "Cache-Control: no-store, private, max-age=0", Ok(60)),
        (&ignore, 302, "Cache-Control: max-age=7", Err(NotStored::NoLifetime)),
        (&ignore, 200, "Set-Cookie: a=b", Err(NotStored::SetCookie)),
        (&cookies, 200, "Set-Cookie: a=b", Ok(60)),
        (&capped, 200, "Cache-Control: max-age=7", Ok(5)),
        (&strict, 200, modified, Ok(0)),
    ] {
        let fresh = plan_with(rules, "", status, response).map(|plan| plan.lifetime.fresh_ms / 1_000);
        assert_eq!(fresh, expected, "{status} {response}");
    }
    assert!(plan_with(&strict, "Cache-Control: no-store", 200, "Cache-Control: max-age=1").is_ok());
}

#[test]
fn a_default_of_the_operator_makes_nothing_fresh_that_has_to_be_confirmed() {
    let with = |overrides| {
        let ttls = vec![StatusTtl { statuses: 200..=200, ttl_ms: 60_000, overrides }];
        StoreRules { ttls, ..StoreRules::default() }
    };
    let (default, overriding) = (with(false), with(true));
    for (rules, response, no_cache) in [
        (&default, "Cache-Control: no-cache", true),
        (&default, "CDN-Cache-Control: no-cache", true),
        (&default, "Cache-Control: no-cache=\"X-User\"", false),
        (&overriding, "Cache-Control: no-cache", false),
        // Not specified for responses (RFC 9111 section 5.4): the time that the operator names counts.
        (&default, "Pragma: no-cache", false),
        (&overriding, "Pragma: no-cache", false),
        (&default, "Pragma: no-cache|Expires: {+60}", true),
        (&StoreRules::default(), "Pragma: no-cache|Last-Modified: {-86400}", true),
    ] {
        let plan = plan_with(rules, "", 200, &format!("ETag: \"a\"|{response}")).expect("it may be stored");
        assert_eq!(plan.lifetime.no_cache, no_cache, "{response}");
    }
}

#[test]
fn stale_times_of_the_operator_are_defaults() {
    let rules = StoreRules { stale_while_revalidate_ms: 1, stale_if_error_ms: 2, ..StoreRules::default() };
    for (response, expected) in [
        ("max-age=9", (1, 2)),
        ("max-age=9, stale-while-revalidate=3", (3_000, 2)),
        ("max-age=9, stale-if-error=0", (1, 0)),
        ("s-maxage=9", (0, 0)),
        ("s-maxage=9, stale-if-error=3", (0, 3_000)),
        // Stale from the start: the server wants to be asked each time.
        ("max-age=0", (0, 2)),
        ("max-age=0, stale-while-revalidate=3", (3_000, 2)),
    ] {
        let plan =
            plan_with(&rules, "", 200, &format!("Cache-Control: {response}")).expect("it may be stored");
        let Lifetime { stale_while_revalidate_ms, stale_if_error_ms, .. } = plan.lifetime;
        assert_eq!((stale_while_revalidate_ms, stale_if_error_ms), expected, "{response}");
    }
    // What nothing calls fresh is no less private for them.
    for response in ["", "Content-Type: text/html", "Cache-Control: public"] {
        assert_eq!(plan_with(&rules, "", 200, response).err(), Some(NotStored::Stale), "{response}");
    }
    let confirmed = plan_with(&rules, "", 200, "ETag: \"a\"").expect("the server can confirm it").lifetime;
    assert_eq!((confirmed.stale_while_revalidate_ms, confirmed.stale_if_error_ms), (0, 0));
    let ttls = vec![StatusTtl { statuses: 200..=200, ttl_ms: 9_000, overrides: false }];
    let ruled = plan_with(&StoreRules { ttls, ..rules }, "", 200, "").expect("the operator says so").lifetime;
    assert_eq!((ruled.stale_while_revalidate_ms, ruled.stale_if_error_ms), (1, 2));
}

#[test]
fn some_fields_are_not_stored() {
    let rules = StoreRules { ignores_set_cookie: true, ..StoreRules::default() };
    let response = "Connection: a, X-Hop|A: 1|x-hop: 2|C: 3|Set-Cookie: a=b|Keep-Alive: x|Age: 1|Transfer-Encoding: chunked\
        |Proxy-Authenticate: x|Proxy-Authorization: x|Proxy-Authentication-Info: x|Proxy-Connection: x|TE: x|Upgrade: x\
        |Content-Length: 5|Date: x|X-User: me|X-Other: you|ETag: \"a\"|Content-Range: x\
        |Cache-Control: max-age=5, private=\"X-User\", no-cache=\"x-other, nothing\"|Cache-Status: inner; hit";
    let plan = plan_with(&rules, "", 200, response).expect("it may be stored");
    let stored = plan.stored_head(head(response).view());
    let text = str::from_utf8(stored.text()).expect("it is ASCII");
    assert_eq!(
        text,
        "C: 3\r\nDate: x\r\nETag: \"a\"\r\nContent-Range: x\r\nCache-Control: max-age=5, private=\"X-User\", no-cache=\"x-other, nothing\"\r\n\
         Cache-Status: inner; hit\r\n"
    );
    // They are about other requests than the one that has fetched it.
    let fetched = plan.fetched_head(head(response).view()).expect("it has more than is stored");
    let more: Vec<_> =
        ["set-cookie", "x-user", "x-other", "age", "x-hop", "proxy-authenticate", "keep-alive"]
            .into_iter()
            .filter(|name| fetched.view().contains(name))
            .collect();
    assert_eq!(more, ["set-cookie", "x-user", "x-other"]);
    assert!(plan_with(&rules, "", 200, "Cache-Control: max-age=5, no-cache|ETag: x|Age: 1").is_ok_and(
        |plan| {
            plan.fetched_head(head("Cache-Control: max-age=5, no-cache|ETag: x|Age: 1").view()).is_none()
        }
    ));
}

#[test]
fn a_server_tells_this_cache_alone_how_long_a_response_is_fresh() {
    let obeying = StoreRules { obeys_accel_expires: true, ..StoreRules::default() };
    let told = |rules: &StoreRules, request: &str, response: &str| {
        plan_with(rules, request, 200, response).map(|plan| (plan.lifetime.fresh_ms, plan.lifetime.source))
    };
    let accel = |seconds: u64| Ok((seconds * 1_000, LifetimeSource::Accel));
    for (request, response, expected) in [
        ("", "X-Accel-Expires: 60", accel(60)),
        ("", "X-Accel-Expires: 60|Cache-Control: no-store", accel(60)),
        ("", "X-Accel-Expires: 60|Cache-Control: private, no-cache, max-age=5", accel(60)),
        ("", "X-Accel-Expires: 60|Cache-Control: s-maxage=5|Expires: {-5}", accel(60)),
        ("", "X-Accel-Expires: 60|CDN-Cache-Control: max-age=5", accel(60)),
        ("", "X-Accel-Expires: 60|Pragma: no-cache", accel(60)),
        ("", "X-Accel-Expires: 60|Age: 100", accel(160)),
        ("", "X-Accel-Expires: 0|Cache-Control: max-age=5", Err(NotStored::Accel)),
        ("", "X-Accel-Expires: @5|Cache-Control: max-age=5", Err(NotStored::Stale)),
        ("", "X-Accel-Expires: off|Cache-Control: max-age=5", Ok((5_000, LifetimeSource::MaxAge))),
        // What protects one client from others is no matter of time.
        ("", "X-Accel-Expires: 60|Set-Cookie: a=b", Err(NotStored::SetCookie)),
        ("Authorization: x", "X-Accel-Expires: 60", Err(NotStored::Authorization)),
        ("", "X-Accel-Expires: 60|Vary: *", Err(NotStored::Vary)),
    ] {
        assert_eq!(told(&obeying, request, response), expected, "{request} {response}");
    }
    let fields = "X-Accel-Expires: 60|Cache-Control: private=\"X-User\"|X-User: me|X-Accel-Redirect: /a|X-Sendfile: /b|C: 1";
    let plan = plan_with(&obeying, "", 200, fields).expect("it may be stored");
    let stored = plan.stored_head(head(fields).view());
    let names: Vec<_> = ["x-accel-expires", "x-user", "x-accel-redirect", "x-sendfile", "c"]
        .into_iter()
        .filter(|name| stored.view().contains(name))
        .collect();
    assert_eq!(names, ["c"]);
    let ttls = vec![StatusTtl { statuses: 200..=200, ttl_ms: 9_000, overrides: true }];
    let overriding = StoreRules { ttls, ignores_origin: true, ..obeying };
    for response in ["X-Accel-Expires: 60", "X-Accel-Expires: 0"] {
        assert_eq!(told(&overriding, "", response), Ok((9_000, LifetimeSource::Rule)), "{response}");
        assert!(told(&StoreRules::default(), "", response).is_err(), "{response}");
    }
}

#[test]
fn what_is_stored_has_a_date() {
    let plan = plan("", 200, "Cache-Control: max-age=5").expect("it may be stored");
    let stored = plan.stored_head(head("Cache-Control: max-age=5").view());
    assert_eq!(stored.view().first("date"), Some(&date(NOW.seconds())[..]));
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    let mut names: Vec<_> = NotStored::ALL.iter().map(|reason| reason.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), NotStored::ALL.len());
    assert!(NotStored::NoStore.is_of_response() && !NotStored::RequestNoStore.is_of_response());
    assert!(NotStored::ALL.iter().enumerate().all(|(index, reason)| *reason as usize == index));
}
