//! Tests of maps: which entry counts, and which keys are refused.

use super::*;

fn map(entries: &[(MapKind, &str, &str)]) -> ValueMap<()> {
    let mut builder = ValueMapBuilder::new();
    for (kind, key, text) in entries {
        builder.insert_text(*kind, key, text.as_bytes()).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    builder.build()
}

fn found<'a>(map: &'a ValueMap<()>, text: &str) -> Option<&'a str> {
    map.get(text.as_bytes()).map(|found| match found {
        MapMatch::Text(text) => std::str::from_utf8(text).expect("it is UTF-8"),
        MapMatch::Value((), _) => "other",
    })
}

#[test]
fn what_says_most_is_asked_first() {
    let map = map(&[
        (MapKind::Regex, "^a", "regex"),
        (MapKind::Regex, "c$", "second regex"),
        (MapKind::Suffix, "bc", "suffix"),
        (MapKind::Suffix, "abc", "longer suffix"),
        (MapKind::Prefix, "ab", "prefix"),
        (MapKind::Prefix, "abcd", "longer prefix"),
        (MapKind::Exact, "abcde", "exact"),
        (MapKind::Network, "10.0.0.0/8", "network"),
        (MapKind::Network, "10.1.0.0/16", "longer network"),
    ]);
    for (text, expected) in [
        ("abcde", Some("exact")),
        ("abcdf", Some("longer prefix")),
        ("abx", Some("prefix")),
        ("xabc", Some("longer suffix")),
        ("xbc", Some("suffix")),
        ("10.1.2.3", Some("longer network")),
        ("10.2.2.3", Some("network")),
        ("11.2.2.3", None),
        ("axx", Some("regex")),
        ("xxc", Some("second regex")),
        ("", None),
        ("x", None),
    ] {
        assert_eq!(found(&map, text), expected, "{text}");
    }
    assert_eq!(map.len(), 9);
}

#[test]
fn hosts_have_wildcards_at_their_start() {
    let map = map(&[
        (MapKind::Host, "www.Example.com", "itself"),
        (MapKind::Host, "*.example.com", "below"),
        (MapKind::Host, "*.eu.example.com", "below eu"),
        (MapKind::Host, ".example.net", "both"),
    ]);
    for (text, expected) in [
        ("www.example.com", Some("itself")),
        ("a.example.com", Some("below")),
        ("a.b.example.com", Some("below")),
        ("x.eu.example.com", Some("below eu")),
        ("eu.example.com", Some("below")),
        ("example.com", None),
        (".example.com", None),
        ("badexample.com", None),
        ("example.net", Some("both")),
        ("a.example.net", Some("both")),
    ] {
        assert_eq!(found(&map, text), expected, "{text}");
    }
}

#[test]
fn wrong_keys_are_refused() {
    let mut builder = ValueMapBuilder::<()>::new();
    assert_eq!(builder.insert_text(MapKind::Exact, "a", b"1"), Ok(()));
    for (kind, key) in [
        (MapKind::Exact, "a"),
        (MapKind::Host, ""),
        (MapKind::Host, "*"),
        (MapKind::Host, "a.*.b"),
        (MapKind::Host, "*.example.com."),
        (MapKind::Network, "10.0.0.1/8"),
        (MapKind::Network, "10.0.0"),
        (MapKind::Regex, "("),
    ] {
        assert!(builder.insert_text(kind, key, b"1").is_err(), "{key}");
    }
    for len in 0..LENGTHS_MAX {
        assert_eq!(builder.insert_text(MapKind::Prefix, &"p".repeat(len), b"1"), Ok(()));
    }
    let refused = builder.insert_text(MapKind::Prefix, &"p".repeat(LENGTHS_MAX), b"1");
    assert_eq!(refused, Err(MapEntryError::Lengths("prefix")));
    for number in 0..REGEXES_MAX {
        assert_eq!(builder.insert_text(MapKind::Regex, &number.to_string(), b"1"), Ok(()));
    }
    assert_eq!(builder.insert_text(MapKind::Regex, "one more", b"1"), Err(MapEntryError::Regexes));
}

#[test]
fn values_that_are_no_texts_come_with_their_regular_expression() {
    let mut builder = ValueMapBuilder::new();
    builder.insert_value(MapKind::Regex, "^/(?P<id>[0-9]+)", 7).expect("it is well-formed");
    builder.insert_value(MapKind::Exact, "/", 8).expect("it is well-formed");
    let map = builder.build();
    let Some(MapMatch::Value(7, Some(regex))) = map.get(b"/42") else { panic!("not found") };
    assert!(regex.has_group("id"));
    assert_eq!(map.get(b"/"), Some(MapMatch::Value(&8, None)));
    assert_eq!(map.values(), [7, 8]);
}

#[test]
fn a_hundred_thousand_entries_are_small_and_asked_without_allocating() {
    let mut builder = ValueMapBuilder::<()>::new();
    for number in 0..100_000 {
        let (key, value) = (format!("customer-{number}.example.com"), format!("shard-{}", number % 64));
        builder.insert_text(MapKind::Exact, &key, value.as_bytes()).expect("it is new");
    }
    let map = builder.build();
    assert!(map.heap_bytes() / map.len() < 60, "{} bytes each", map.heap_bytes() / map.len());
    let mut found_all = true;
    let allocated = allocation_counter::measure(|| {
        found_all &= found(&map, "customer-77777.example.com") == Some("shard-17");
        found_all &= found(&map, "customer-100000.example.com").is_none();
    });
    assert!(found_all);
    assert_eq!(allocated.count_total, 0);
}
