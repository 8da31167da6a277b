//! What binds a request to a server, and what clients and servers get to see of it.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn tokens() -> Vec<Box<str>> {
    ["0a0a", "1b1b", "2c2c"].map(Box::from).to_vec()
}

fn attributes() -> CookieAttributes {
    CookieAttributes {
        lifetime: None,
        path: "/".into(),
        domain: None,
        secure: false,
        http_only: true,
        same_site: SameSite::Lax,
    }
}

fn insert() -> Affinity {
    Affinity::insert("weir", tokens(), &attributes())
}

fn prefix() -> Affinity {
    Affinity::prefix("SID", tokens())
}

fn lookup(cookie_affinity: &Affinity, fields: &[&str]) -> RequestAffinity {
    cookie_affinity.lookup(fields.iter().map(|field| field.as_bytes()), 0)
}

fn to_server(cookie_affinity: &Affinity, field: &str) -> String {
    let mut out = Vec::new();
    cookie_affinity.write_cookie(&mut out, field.as_bytes());
    String::from_utf8(out).unwrap()
}

fn to_client(cookie_affinity: &Affinity, field: &str, server: u32) -> Option<String> {
    let mut out = Vec::new();
    let marked = cookie_affinity.mark_set_cookie(&mut out, field.as_bytes(), ServerId(server));
    marked.then(|| String::from_utf8(out).unwrap())
}

fn token(cookie_affinity: &Affinity, server: u32) -> String {
    let set = cookie_affinity.set_cookie(RequestAffinity::default(), ServerId(server)).unwrap();
    set.strip_prefix("weir=").unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn an_inserted_cookie_leads_back_to_its_server() {
    let cookie_affinity = insert();
    for server in 0..3 {
        let token = token(&cookie_affinity, server);
        let affinity = lookup(&cookie_affinity, &[&format!("a=b; weir={token}; c=d")]);
        assert_eq!(affinity.server, Some(ServerId(server)));
        assert_eq!(cookie_affinity.set_cookie(affinity, ServerId(server)), None, "it has it already");
        assert!(cookie_affinity.set_cookie(affinity, ServerId((server + 1) % 3)).is_some(), "it moved");
    }
    for field in ["", "weir=", "weir=0", "weir=ffffffffffffffffffffffffffffffff", "WEIR=x", "weir"] {
        assert_eq!(lookup(&cookie_affinity, &[field]), RequestAffinity::default(), "{field:?}");
    }
}

#[test]
fn the_second_field_and_the_second_cookie_count_too() {
    let cookie_affinity = insert();
    let token = token(&cookie_affinity, 1);
    assert_eq!(lookup(&cookie_affinity, &["a=b", &format!("weir={token}")]).server, Some(ServerId(1)));
    assert_eq!(lookup(&cookie_affinity, &[&format!("weir=old; weir={token}")]).server, Some(ServerId(1)));
}

#[test]
fn attributes_are_spelled_out() {
    let all = CookieAttributes {
        lifetime: Some(Duration::from_secs(3600)),
        path: "/app".into(),
        domain: Some("example.com".into()),
        secure: true,
        http_only: false,
        same_site: SameSite::None,
    };
    assert_eq!(all.to_string(), "; Path=/app; Domain=example.com; Max-Age=3600; Secure; SameSite=None");
    assert_eq!(attributes().to_string(), "; Path=/; HttpOnly; SameSite=Lax");
    let lasting = CookieAttributes { lifetime: Some(Duration::from_secs(9)), ..attributes() };
    let cookie_affinity = Affinity::insert("weir", tokens(), &lasting);
    let affinity = RequestAffinity { server: Some(ServerId(0)), ..RequestAffinity::default() };
    assert!(cookie_affinity.set_cookie(affinity, ServerId(0)).is_some(), "its time begins anew");
}

#[test]
fn servers_do_not_see_the_cookie_of_weir() {
    let cookie_affinity = insert();
    for (sent, seen) in [
        ("weir=x", ""),
        ("a=b; weir=x; c=d", "a=b; c=d"),
        ("weir=x;a=b", "a=b"),
        ("a=b;;  c", "a=b;;  c"),
        (";a=1 ;weir=x; b=\"2;3\" ", ";a=1 ; b=\"2;3\" "),
        ("weir=x;  a=b;c=d", "a=b;c=d"),
        ("weir=x; ; weir=y;", ""),
        ("a=1;weir=x", "a=1"),
        ("; ;", "; ;"),
        ("weird=1; x=weir=2", "weird=1; x=weir=2"),
    ] {
        assert_eq!(to_server(&cookie_affinity, sent), seen, "{sent}");
    }
}

#[test]
fn a_marked_cookie_reads_to_the_server_as_it_was_given_out() {
    let cookie_affinity = prefix();
    for (given, attributes) in [("abc~def", "; Path=/"), ("", "; Max-Age=0"), ("x y", "")] {
        let marked = to_client(&cookie_affinity, &format!("SID={given}{attributes}"), 2).unwrap();
        let pair = marked.strip_suffix(attributes).unwrap();
        assert_eq!(lookup(&cookie_affinity, &[pair]).server, Some(ServerId(2)), "{marked}");
        assert_eq!(to_server(&cookie_affinity, &format!("a=b; {pair}")), format!("a=b; SID={given}"));
    }
    let quoted = to_client(&cookie_affinity, "SID=\"abc\"; Path=/", 1).unwrap();
    let pair = quoted.strip_suffix("; Path=/").unwrap();
    assert!(pair.starts_with("SID=\"") && pair.ends_with("~abc\""), "{pair}");
    assert_eq!(lookup(&cookie_affinity, &[pair]).server, Some(ServerId(1)));
    assert_eq!(to_server(&cookie_affinity, pair), "SID=\"abc\"", "as the server has given it out");
    assert_eq!(to_server(&cookie_affinity, &format!("a=1;;  {pair};b=2")), "a=1;;  SID=\"abc\";b=2");
}

#[test]
fn quoted_values_are_read_in_every_mode() {
    let inserting = insert();
    let value = token(&inserting, 1);
    assert_eq!(lookup(&inserting, &[&format!("weir=\"{value}\"")]).server, Some(ServerId(1)));
    let limits = LearnedLimits { entries_max: 100, idle_max: Duration::from_secs(60) };
    let learning = Affinity::learned("SID", limits, [3, 5]);
    learning.learn_set_cookie(b"SID=\"abc\"; HttpOnly", ServerId(1), 0);
    learning.learn_set_cookie(b"SID=def", ServerId(2), 0);
    learning.learn_set_cookie(b"SID=\"\"", ServerId(0), 0);
    for (field, server) in [("SID=abc", 1), ("SID=\"abc\"", 1), ("SID=def", 2), ("SID=\"def\"", 2)] {
        assert_eq!(lookup(&learning, &[field]).server, Some(ServerId(server)), "{field}");
    }
    assert_eq!(lookup(&learning, &["SID=\"\""]).server, None);
}

#[test]
fn only_the_named_cookie_is_marked() {
    let cookie_affinity = prefix();
    for field in ["sid=1", "SIDE=1", "other=SID=1", "SID", ""] {
        assert_eq!(to_client(&cookie_affinity, field, 0), None, "{field}");
    }
    assert_eq!(to_client(&insert(), "weir=1", 0), None);
    for field in ["SID=plain", "SID=no~token", "SID=~", "SID="] {
        assert_eq!(lookup(&cookie_affinity, &[field]), RequestAffinity::default());
        assert_eq!(to_server(&cookie_affinity, field), field, "what Weir has not marked is left alone");
    }
}

#[test]
fn what_a_server_gives_out_is_learned() {
    let limits = LearnedLimits { entries_max: 100, idle_max: Duration::from_secs(60) };
    let cookie_affinity = Affinity::learned("SID", limits, [3, 5]);
    cookie_affinity.learn_set_cookie(b"SID=abc; HttpOnly", ServerId(1), 0);
    cookie_affinity.learn_set_cookie(b"SID=; Max-Age=0", ServerId(2), 0);
    cookie_affinity.learn_set_cookie(b"other=abc2", ServerId(2), 0);
    let lookup = |field: &str, now_s| cookie_affinity.lookup([field.as_bytes()], now_s);
    assert_eq!(lookup("SID=abc", 1).server, Some(ServerId(1)));
    assert_eq!((lookup("SID=", 1).server, lookup("SID=abc2", 1).server), (None, None));
    let moved = lookup("SID=abc", 2);
    cookie_affinity.learn(moved, ServerId(2), 2);
    assert_eq!(lookup("SID=abc", 3).server, Some(ServerId(2)), "it is served there now");
    assert_eq!(lookup("SID=abc", 64).server, None, "no request for a minute");
    cookie_affinity.learn(lookup("SID=abc", 64), ServerId(0), 64);
    assert_eq!(lookup("SID=abc", 65).server, Some(ServerId(0)));
    assert_eq!(to_server(&cookie_affinity, "a=b; SID=abc"), "a=b; SID=abc");
}

#[test]
fn a_key_is_known_once_a_server_has_said_it() {
    let limits = LearnedLimits { entries_max: 100, idle_max: Duration::from_secs(60) };
    let sources = vec![LearnSource::Header("mcp-session-id".into()), LearnSource::Cookie("sid".into())];
    let affinity = Affinity::by_key("key", sources, limits, [7, 9]);
    assert!(affinity.needs_key() && !affinity.changes_requests() && !affinity.changes_responses());
    let asked = affinity.lookup_key(b"abc", 0);
    assert!(asked.is_unknown());
    affinity.learn(asked, ServerId(1), 0);
    assert_eq!(affinity.lookup_key(b"abc", 0).server, None, "no server has said it");
    affinity.learn_value(b"abc", ServerId(1), 0);
    affinity.learn_value(b"", ServerId(1), 0);
    affinity.learn_set_cookie(b"sid=def; Path=/", ServerId(2), 0);
    affinity.learn_set_cookie(b"other=ghi", ServerId(2), 0);
    let servers = [&b"abc"[..], b"def", b"ghi", b""].map(|key| affinity.lookup_key(key, 1).server);
    assert_eq!(servers, [Some(ServerId(1)), Some(ServerId(2)), None, None]);
    assert_eq!(affinity.learned_count(1), Some(2));
    affinity.lose(|server| server == ServerId(1));
    let lost = affinity.lookup_key(b"abc", 1);
    assert!(lost.server.is_none() && !lost.is_unknown());
    assert!(lost.strictly().server.is_some() && asked.strictly() == asked);
    affinity.learn(lost, ServerId(0), 1);
    assert_eq!(affinity.lookup_key(b"abc", 1).server, Some(ServerId(0)), "it goes on elsewhere");
    affinity.forget(affinity.lookup_key(b"abc", 1));
    assert!(affinity.lookup_key(b"abc", 1).is_unknown());
}

#[test]
fn without_sources_the_first_server_has_the_key() {
    let limits = LearnedLimits { entries_max: 100, idle_max: Duration::from_secs(60) };
    let affinity = Affinity::by_key("key", Vec::new(), limits, [7, 9]);
    affinity.learn(affinity.lookup_key(b"ann", 0), ServerId(1), 0);
    let kept = affinity.lookup_key(b"ann", 1);
    assert_eq!(kept.server, Some(ServerId(1)));
    affinity.learn(RequestAffinity::default(), ServerId(2), 1);
    assert_eq!(affinity.learned_count(1), Some(1), "a request without a key leaves nothing behind");
}

proptest! {
    /// Whatever clients send, what is left for the server holds no cookie of Weir and all others in their order.
    #[test]
    fn other_cookies_pass(pairs in prop::collection::vec(("[a-z]{1,5}", "[!-+--:<-~]{0,8}"), 0..8), at in any::<prop::sample::Index>()) {
        let cookie_affinity = insert();
        let mut all: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let others: Vec<String> = all.iter().filter(|pair| !pair.starts_with("weir=")).cloned().collect();
        all.insert(at.index(all.len() + 1), format!("weir={}", token(&cookie_affinity, 1)));
        let field = all.join("; ");
        prop_assert_eq!(to_server(&cookie_affinity, &field), others.join("; "));
        prop_assert_eq!(lookup(&cookie_affinity, &[&field]).server, Some(ServerId(1)));
    }

    #[test]
    fn any_bytes_are_accepted_without_a_panic(field in prop::collection::vec(any::<u8>(), 0..64)) {
        for cookie_affinity in [insert(), prefix()] {
            let mut out = Vec::new();
            cookie_affinity.write_cookie(&mut out, &field);
            prop_assert!(out.len() <= field.len() + field.len() / 2 + 2);
            let _affinity = cookie_affinity.lookup([&field[..]], 0);
            cookie_affinity.mark_set_cookie(&mut out, &field, ServerId(0));
        }
    }
}
