//! Responses that the server has confirmed: their heads are written, their bodies are not.

use super::*;

/// The server confirms the response of a key that is in memory and has a file.
pub(super) fn confirm(
    stores: &TwoStores,
    key: &str,
    fields: &[(&str, &str)],
    lifetime: Lifetime,
) -> Arc<StoredResponse> {
    let key = stores.memory.key(key.as_bytes());
    let Found::Hit(old) = stores.memory.find(&key, NONE, NOW) else { panic!("it is in memory") };
    let Join::Lead(ticket) = stores.memory.join_refresh(&key, &old) else { panic!("it is alone") };
    ticket.freshen(&old, Freshened { head: head(fields), lifetime })
}

pub(super) fn written_bytes(stores: &TwoStores) -> u64 {
    stores.disk.size().written_bytes
}

#[test]
fn only_the_head_of_a_confirmed_response_is_written() {
    let mut stores = TwoStores::new(LIMITS);
    let body = vec![b'x'; 1 << 20];
    stores.put("a", &[("ETag", "\"a\"")], &body);
    let whole = written_bytes(&stores);
    assert!(whole > 1 << 20);
    let mut lifetime = Lifetime { received: NOW.after(9_000), fresh_ms: 5_000_000, ..Lifetime::default() };
    for round in 1..=5_u64 {
        lifetime.received = NOW.after(9_000 * round);
        let response = confirm(&stores, "a", &[("ETag", "\"a\""), ("X", &round.to_string())], lifetime);
        assert!(stores.disk.freshen(&response, lifetime.received).expect("it is writable"));
    }
    let heads = written_bytes(&stores) - whole;
    assert!((5 * 200..5 * 1_024).contains(&heads), "{heads}");
    // A late thread with what was confirmed before.
    let old = Lifetime { received: NOW, ..lifetime };
    let late = confirm(&stores, "a", &[("X", "late")], old);
    assert!(stores.disk.freshen(&late, NOW).expect("it is writable"));
    assert_eq!(written_bytes(&stores) - whole, heads);
    assert_eq!(stores.restart(NOW.after(4_000_000)).kept, 1);
    let response = stores.get_for("a", NONE).expect("it is on disk");
    assert_eq!(
        (response.header.lifetime, response.header.head.view().first("x")),
        (lifetime, Some(&b"5"[..]))
    );
    assert!(response.read_body().expect("it is readable") == body);
}

#[test]
fn a_response_from_a_file_is_confirmed_there() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("a", &[("ETag", "\"a\"")], b"body");
    stores.restart(NOW);
    let key = stores.memory.key(b"a");
    let Found::Missing(slot) = stores.memory.find(&key, NONE, NOW) else { panic!("memory is empty") };
    let loaded = stores.get_for("a", NONE).expect("it is on disk");
    let response = stores.memory.promote(&key, slot, loaded.to_new(), NONE, b"body").expect("there is room");
    response.set_file_body(loaded.body_id());
    let lifetime = Lifetime { received: NOW.after(9_000), fresh_ms: 9_000, ..Lifetime::default() };
    let response = confirm(&stores, "a", &[("X", "2")], lifetime);
    assert!(stores.disk.freshen(&response, NOW.after(9_000)).expect("it is writable"));
    let response = stores.get_for("a", NONE).expect("it is on disk");
    assert_eq!(response.header.head.view().first("x"), Some(&b"2"[..]));
}

#[test]
fn what_does_not_fit_or_has_another_body_is_left_to_a_write() {
    let stores = TwoStores::new(LIMITS);
    let lifetime = Lifetime { received: NOW.after(9_000), fresh_ms: 9_000, ..Lifetime::default() };
    stores.put("a", &[], b"body");
    let long = confirm(&stores, "a", &[("X", &"x".repeat(2_000))], lifetime);
    assert!(!stores.disk.freshen(&long, NOW).expect("it is writable"));
    assert!(stores.disk.write(&long, NOW).expect("there is room"));
    assert_eq!(stores.get_for("a", NONE).expect("it is on disk").header.head.text().len(), 2_005);
    // Another version has come into the file meanwhile, of the same length.
    let old = confirm(&stores, "a", &[("X", "old")], lifetime);
    stores.put("a", &[("X", "new")], b"Body");
    assert!(!stores.disk.freshen(&old, NOW).expect("it is writable"));
    assert_eq!(stores.get("a").as_deref(), Some(&b"Body"[..]));
    assert_eq!(
        stores.get_for("a", NONE).expect("it is on disk").header.head.view().first("x"),
        Some(&b"new"[..])
    );
    // The file has gone.
    let new = confirm(&stores, "a", &[("X", "3")], lifetime);
    std::fs::remove_file(stores.files().pop().expect("there is one")).expect("it is writable");
    assert!(!stores.disk.freshen(&new, NOW).expect("it is writable"));
    assert!(stores.get("a").is_none());
}

#[test]
fn a_head_that_was_torn_by_a_crash_leaves_the_one_of_before() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("a", &[("X", "old")], b"body");
    let path = stores.files().pop().expect("there is one");
    let before = std::fs::read(&path).expect("it is readable");
    let lifetime = Lifetime { received: NOW.after(9_000), fresh_ms: 99_000, ..Lifetime::default() };
    let new = confirm(&stores, "a", &[("X", "new")], lifetime);
    assert!(stores.disk.freshen(&new, NOW).expect("it is writable"));
    let after = std::fs::read(&path).expect("it is readable");
    let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    let (mut old_ones, last) = (0, *changed.last().expect("it was written"));
    for torn in (changed[0]..=last).step_by(7) {
        let bytes = [&after[..torn], &before[torn..]].concat();
        std::fs::write(&path, bytes).expect("it is writable");
        assert_eq!(stores.restart(NOW), ScanReport { kept: 1, removed: 0 }, "{torn}");
        let response = stores.get_for("a", NONE).expect("it is on disk");
        assert_eq!(response.header.head.view().first("x"), Some(&b"old"[..]));
        assert_eq!(response.read_body().expect("it is readable"), b"body");
        old_ones += 1;
    }
    assert!(old_ones > 20);
    std::fs::write(&path, after).expect("it is writable");
    stores.restart(NOW);
    assert_eq!(
        stores.get_for("a", NONE).expect("it is on disk").header.head.view().first("x"),
        Some(&b"new"[..])
    );
}
