//! When a stored response is used.

use std::hash::{DefaultHasher, Hasher as _};

use super::*;

#[test]
fn a_response_is_used_while_it_is_fresh_and_as_both_sides_allow() {
    const STALE: &str = "Revalidate { cause: Stale, stale_on_error: false }";
    const ASKED: &str = "Revalidate { cause: Request, stale_on_error: false }";
    const NO_CACHE: &str = "Revalidate { cause: NoCache, stale_on_error: false }";
    for (response, seconds, request, expected) in [
        ("Cache-Control: max-age=2", 1, "", "Fresh"),
        ("Cache-Control: max-age=2", 2, "", STALE),
        ("Cache-Control: max-age=2|Age: 1", 1, "", STALE),
        ("Cache-Control: max-age=2, stale-while-revalidate=4", 5, "", "StaleWhileRevalidate"),
        ("Cache-Control: max-age=2, stale-while-revalidate=4", 6, "", STALE),
        ("Cache-Control: max-age=2, stale-while-revalidate=4, must-revalidate", 3, "", STALE),
        ("Cache-Control: s-maxage=2, stale-while-revalidate=4", 3, "", "StaleWhileRevalidate"),
        ("Cache-Control: s-maxage=2, stale-while-revalidate=4, proxy-revalidate", 3, "", STALE),
        ("Cache-Control: s-maxage=2", 3, "Cache-Control: max-stale, stale-if-error=9", STALE),
        (
            "Cache-Control: max-age=2, stale-if-error=9",
            10,
            "",
            "Revalidate { cause: Stale, stale_on_error: true }",
        ),
        ("Cache-Control: max-age=2, stale-if-error=9", 11, "", STALE),
        ("Cache-Control: max-age=2, stale-if-error=9, proxy-revalidate", 10, "", STALE),
        ("Cache-Control: max-age=2, no-cache, stale-if-error=9|ETag: \"a\"", 1, "", NO_CACHE),
        (
            "Cache-Control: max-age=2",
            3,
            "Cache-Control: stale-if-error=5",
            "Revalidate { cause: Stale, stale_on_error: true }",
        ),
        ("Cache-Control: max-age=9", 5, "Cache-Control: max-age=4", ASKED),
        ("Cache-Control: max-age=9", 5, "Cache-Control: max-age=5", "Fresh"),
        ("Cache-Control: max-age=9", 0, "Cache-Control: max-age=0", ASKED),
        ("Cache-Control: max-age=9", 0, "Cache-Control: max-age=x", ASKED),
        ("Cache-Control: max-age=9", 0, "Cache-Control: no-cache", ASKED),
        ("Cache-Control: max-age=9", 0, "Pragma: no-cache", ASKED),
        ("Cache-Control: max-age=9", 0, "Pragma: no-cache|Cache-Control: foo", "Fresh"),
        ("Cache-Control: max-age=9", 0, "Pragma: foo", "Fresh"),
        ("Cache-Control: max-age=9", 5, "Cache-Control: min-fresh=4", "Fresh"),
        ("Cache-Control: max-age=9", 5, "Cache-Control: min-fresh=5", ASKED),
        ("Cache-Control: max-age=9", 12, "Cache-Control: max-stale", "Stale"),
        ("Cache-Control: max-age=9", 12, "Cache-Control: max-stale=3", "Stale"),
        ("Cache-Control: max-age=9", 13, "Cache-Control: max-stale=3", STALE),
        ("Cache-Control: max-age=9", 12, "Cache-Control: max-stale=x", STALE),
        ("Cache-Control: max-age=9, must-revalidate", 12, "Cache-Control: max-stale", STALE),
        ("Cache-Control: max-age=9, stale-if-error=99", 12, "Cache-Control: no-cache", ASKED),
    ] {
        assert_eq!(story(response, seconds, request), expected, "{response}, {seconds} s, {request}");
    }
}

#[test]
fn what_clients_ask_counts_only_if_the_operator_says_so() {
    let lifetime = Lifetime { received: NOW, fresh_ms: 9_000, ..Lifetime::default() };
    let off = ClientRules { no_cache: false, ages: false };
    for request in ["no-cache", "max-age=0", "min-fresh=99"] {
        let request = RequestDirectives::new(head(&format!("Cache-Control: {request}")).view());
        assert_eq!(reuse(&lifetime, &request, off, NOW), Reuse::Fresh);
        assert_ne!(reuse(&lifetime, &request, ClientRules::default(), NOW), Reuse::Fresh);
    }
    let request = RequestDirectives::new(head("Cache-Control: max-stale").view());
    assert_ne!(reuse(&lifetime, &request, off, NOW.after(10_000)), Reuse::Stale);
}

#[test]
fn ages_and_ttls() {
    let lifetime = Lifetime {
        received: NOW,
        initial_age_ms: 1_500,
        fresh_ms: 10_000,
        stale_if_error_ms: 4_000,
        ..Lifetime::default()
    };
    assert_eq!((lifetime.age(NOW), lifetime.age(NOW.after(500))), (1, 2));
    assert_eq!(
        (lifetime.ttl(NOW), lifetime.ttl(NOW.after(8_500)), lifetime.ttl(NOW.after(9_000))),
        (8, 0, -1)
    );
    assert_eq!(lifetime.expires(), NOW.after(8_500));
    assert!(lifetime.is_fresh(NOW.after(8_499)) && !lifetime.is_fresh(NOW.after(8_500)));
    assert_eq!(
        (lifetime.useless_from(0), lifetime.useless_from(9_000)),
        (NOW.after(12_500), NOW.after(17_500))
    );
    let expired = lifetime.expired(NOW.after(100));
    assert!(!expired.is_fresh(NOW.after(100)) && expired.stale_ms(NOW.after(200)) == 100);
    // A clock that is set back makes nothing older, and nothing overflows.
    assert_eq!(lifetime.age(CacheTime::default()), 1);
    let endless = Lifetime { fresh_ms: u64::MAX, ..lifetime };
    assert!(endless.ttl(NOW) > 0 && endless.useless_from(u64::MAX) == CacheTime::NEVER);
}

#[test]
fn a_request_selects_by_the_meaning_of_its_fields() {
    let hash = |vary: &VaryRule, request: &str| {
        let mut hasher = DefaultHasher::new();
        vary.hash_request(head(request).view(), &mut hasher);
        hasher.finish()
    };
    for (vary, one, other, is_same) in [
        ("Foo", "Foo: 1", "Foo: 1|Other: 3", true),
        ("Foo", "Foo: 1", "Foo: 2", false),
        ("Foo", "Foo: 1", "", false),
        ("Foo", "Foo:", "", false),
        ("Foo", "Foo: 1, 2", "foo: 1|FOO: 2", true),
        ("Foo", "Foo: 1,2", "Foo:  1 ,  2", true),
        ("Foo", "Foo: 1 2", "Foo: 12", false),
        ("Foo", "Foo: a", "Foo: A", false),
        ("Foo", "Foo: \"a,b\"", "Foo: \"a, b\"", false),
        ("Foo, Bar", "Foo: 1|Bar: 2", "Bar: 2|Foo: 1", true),
        ("Foo, Bar", "Foo: 1|Bar: 2", "Foo: 2|Bar: 1", false),
        ("Foo, Bar", "Foo: 1", "Bar: 1", false),
        ("Foo, Bar, Baz", "Foo: 1|Bar: abc|Baz: 789", "Foo: 1|Baz: 789|Bar: abcde", false),
        ("Foo, Bar, Baz", "Foo: 1|Baz: 789", "Baz: 789|Foo: 1", true),
        ("Accept-Language", "Accept-Language: en, de", "accept-language: eN ,   De", true),
        ("Accept-Language", "Accept-Language: en, de", "Accept-Language: de, en", false),
        ("Accept-Encoding", "Accept-Encoding: gzip, br", "Accept-Encoding: br;q=1.0, deflate, gzip", true),
        ("Accept-Encoding", "Accept-Encoding: gzip, br", "Accept-Encoding: gzip", false),
        ("Accept-Encoding", "Accept-Encoding: gzip;q=1, br;q=0.5", "Accept-Encoding: gzip;q=0.5, br", false),
        ("Accept-Encoding", "Accept-Encoding: identity", "Accept-Encoding: gzip;q=0", true),
        ("User-Agent", "User-Agent: a,b", "User-Agent: a, b", false),
    ] {
        let vary = VaryRule::new(head(&format!("Vary: {vary}")).view()).expect("it is sound");
        assert_eq!(hash(&vary, one) == hash(&vary, other), is_same, "{vary:?}: {one} and {other}");
    }
    let of = |lines: &str| VaryRule::new(head(lines).view());
    assert_eq!(of("Vary: Foo, BAR|Vary: foo,,"), of("Vary: bar|Vary: foo"));
    assert_eq!(of(""), Some(VaryRule::default()));
    let many: Vec<_> = (0..=SELECTING_FIELDS_MAX).map(|number| format!("f{number}")).collect();
    assert_eq!(of(&format!("Vary: {}", many.join(","))), None);
    assert!(of(&format!("Vary: {}", many[1..].join(","))).is_some());
}

#[test]
fn a_client_that_has_the_stored_version_gets_304() {
    let stored = "ETag: \"a\"|Last-Modified: {-3000}|Date: {-10}";
    for (stored, request, expected) in [
        (stored, "", false),
        (stored, "If-None-Match: \"a\"", true),
        (stored, "If-None-Match: W/\"a\"", true),
        (stored, "If-None-Match: *", true),
        (stored, "If-None-Match: \"b\"", false),
        (stored, "If-None-Match: \"b\"|If-Modified-Since: {-3000}", false),
        (stored, "If-Modified-Since: {-3000}", true),
        (stored, "If-Modified-Since: {-2000}", true),
        (stored, "If-Modified-Since: {-3001}", false),
        (stored, "If-Match: \"b\"", false),
        ("Date: {-10}", "If-Modified-Since: {-10}", true),
        ("Date: {-10}", "If-Modified-Since: {-11}", false),
        ("", "If-Modified-Since: {+0}", true),
        ("", "If-None-Match: \"\"", false),
    ] {
        let (stored, request) = (head(stored), head(request));
        assert_eq!(is_not_modified(200, stored.view(), NOW, request.view()), expected, "{request:?}");
        assert!(!is_not_modified(404, stored.view(), NOW, request.view()));
    }
}
