//! Tests of the store: found, fetched once, bounded, purged.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use weir_http::Fields;

use super::*;
use crate::head::{HeadView, StoredHead};
use crate::rules::{Freshened, Lifetime, NotStored, VaryRule};
use crate::time::CacheTime;

const NOW: CacheTime = CacheTime::from_seconds(1_000);
const MIB: u64 = 1 << 20;

fn store(memory_max: u64, object_max: u64) -> Store {
    Store::new(StoreLimits { memory_max, object_max }, KeySecret([7; 16]))
}

/// A head with these fields.
fn head(fields: &[(&str, &str)]) -> StoredHead {
    let mut head = StoredHead::default();
    fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
    head
}

fn new_response(fields: &[(&str, &str)], len: Option<u64>) -> NewResponse {
    let head = head(fields);
    let vary = VaryRule::new(head.view()).expect("the fields are sound");
    let lifetime = Lifetime { received: NOW, fresh_ms: 60_000, ..Lifetime::default() };
    NewResponse { status: 200, head, lifetime, vary, len }
}

static NO_FIELDS: Fields = Fields::new();
const NONE: HeadView<'static> = HeadView { fields: &NO_FIELDS, text: b"" };

fn missing(found: Found) -> FetchSlot {
    match found {
        Found::Missing(slot) | Found::Passed(slot) => slot,
        Found::Hit(response) => panic!("there is {response:?}"),
    }
}

fn hit(store: &Store, key: &str, request: HeadView<'_>) -> Option<Arc<StoredResponse>> {
    match store.find(&store.key(key.as_bytes()), request, NOW) {
        Found::Hit(response) => Some(response),
        Found::Missing(_) | Found::Passed(_) => None,
    }
}

fn lead(store: &Store, key: &str, request: HeadView<'_>) -> FetchTicket {
    let key = store.key(key.as_bytes());
    let slot = missing(store.find(&key, request, NOW));
    match store.join(&key, slot) {
        Join::Lead(ticket) => ticket,
        Join::Wait(_) => panic!("another request fetches it"),
    }
}

fn wait(store: &Store, key: &str) -> FetchWait {
    let key = store.key(key.as_bytes());
    let slot = missing(store.find(&key, NONE, NOW));
    match store.join(&key, slot) {
        Join::Wait(wait) => wait,
        Join::Lead(_) => panic!("no other request fetches it"),
    }
}

/// Stores a response.
fn put(store: &Store, key: &str, fields: &[(&str, &str)], request: HeadView<'_>, body: &[u8]) {
    let ticket = lead(store, key, request);
    let mut storing = ticket.store(new_response(fields, Some(body.len() as u64)), request);
    storing.writer.append(body).ok();
    storing.writer.finish();
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn read_all(reader: &mut BodyReader) -> Result<Vec<u8>, BodyFailed> {
    let mut bytes = Vec::new();
    loop {
        match reader.poll_more(&mut cx()) {
            Poll::Ready(Ok(true)) => {
                bytes.extend_from_slice(reader.available());
                reader.consume(reader.available().len());
            }
            Poll::Ready(Ok(false)) => return Ok(bytes),
            Poll::Ready(Err(failed)) => return Err(failed),
            Poll::Pending => panic!("no more is there"),
        }
    }
}

#[test]
fn what_is_stored_is_found() {
    let store = store(MIB, MIB / 4);
    put(&store, "a", &[("Content-Type", "text/plain")], NONE, b"hello");
    let response = hit(&store, "a", NONE).expect("it is stored");
    assert_eq!(response.head().view().first("content-type"), Some(&b"text/plain"[..]));
    let mut reader = response.read_from(1).expect("it is complete");
    assert_eq!((reader.available(), reader.body_len()), (&b"ello"[..], Some(5)));
    assert_eq!(read_all(&mut reader), Ok(b"ello".to_vec()));
    assert!(reader.is_finished() && hit(&store, "b", NONE).is_none());
}

#[test]
fn one_request_fetches_for_all() {
    let store = store(MIB, MIB / 4);
    let ticket = lead(&store, "a", NONE);
    let mut waiting = wait(&store, "a");
    assert!(waiting.poll(&mut cx()).is_pending());
    let mut storing = ticket.store(new_response(&[], None), NONE);
    let Poll::Ready(FetchOutcome::Stored(response)) = waiting.poll(&mut cx()) else { panic!("it is stored") };
    let mut reader = response.read_from(0).expect("it has just begun");
    assert!(reader.poll_more(&mut cx()).is_pending() && reader.available().is_empty());
    storing.writer.append(b"one ").unwrap();
    assert_eq!(reader.poll_more(&mut cx()), Poll::Ready(Ok(true)));
    assert_eq!(reader.available(), b"one ");
    storing.writer.append(b"two").unwrap();
    reader.consume(4);
    assert_eq!(reader.poll_more(&mut cx()), Poll::Ready(Ok(true)));
    storing.writer.finish();
    assert_eq!(read_all(&mut reader), Ok(b"two".to_vec()));
    let mut late = hit(&store, "a", NONE).unwrap().read_from(0).unwrap();
    assert_eq!(read_all(&mut late), Ok(b"one two".to_vec()));
}

#[test]
fn a_fetch_without_a_result_is_a_failure() {
    let store = store(MIB, MIB / 4);
    let ticket = lead(&store, "a", NONE);
    let mut waiting = wait(&store, "a");
    drop(ticket);
    assert!(matches!(waiting.poll(&mut cx()), Poll::Ready(FetchOutcome::Failed)));
    let ticket = lead(&store, "a", NONE);
    let mut waiting = wait(&store, "a");
    ticket.not_stored(Some(NOW.after(1)));
    assert!(matches!(waiting.poll(&mut cx()), Poll::Ready(FetchOutcome::NotStored)));
    let key = store.key(b"a");
    assert!(matches!(store.find(&key, NONE, NOW), Found::Passed(_)));
    assert!(matches!(store.find(&key, NONE, NOW.after(1)), Found::Missing(_)));
}

#[test]
fn variants_are_told_apart() {
    let store = store(MIB, MIB / 4);
    let (german, french) = (head(&[("Accept-Language", "de")]), head(&[("Accept-Language", "fr")]));
    put(&store, "a", &[("Vary", "Accept-Language")], german.view(), b"Tag");
    assert!(hit(&store, "a", french.view()).is_none() && hit(&store, "a", NONE).is_none());
    put(&store, "a", &[("Vary", "accept-language")], french.view(), b"jour");
    let other_spelling = head(&[("accept-language", " DE ")]);
    let found = hit(&store, "a", other_spelling.view()).expect("it is German");
    assert_eq!(found.body().len(), Some(3));
    assert_eq!(hit(&store, "a", french.view()).unwrap().body().len(), Some(4));
    let key = store.key(b"a");
    assert!(store.is_for(&found, &key, german.view()) && !store.is_for(&found, &key, french.view()));
    assert_eq!(store.invalidate(&key, NOW), 2);
    assert!(hit(&store, "a", german.view()).is_none());
    // Another `Vary` makes those of before unreachable.
    put(&store, "a", &[("Vary", "Accept-Language")], german.view(), b"Tag");
    put(&store, "a", &[("Vary", "Cookie")], french.view(), b"jour");
    assert_eq!(hit(&store, "a", german.view()).unwrap().body().len(), Some(4));
}

#[test]
fn purges_find_what_they_name() {
    for (scope, expected) in [
        (PurgeScope::All, [false; 4]),
        (PurgeScope::Key(b"x/1"), [false, true, true, true]),
        (PurgeScope::Prefix(b"x/"), [false, false, false, true]),
        (PurgeScope::Tag(b"red"), [true, false, true, false]),
        (PurgeScope::Tag(b"re"), [true; 4]),
    ] {
        let store = store(MIB, MIB / 4);
        put(&store, "x/1", &[], NONE, b"1");
        put(&store, "x/2", &[("Cache-Tag", "blue, red")], NONE, b"2");
        put(&store, "x/3", &[("Surrogate-Key", "green blue")], NONE, b"3");
        put(&store, "y", &[("Surrogate-Key", "red")], NONE, b"4");
        let count = store.purge(scope, PurgeMode::Soft, NOW.after(5));
        let keys = ["x/1", "x/2", "x/3", "y"];
        let fresh = keys.map(|key| hit(&store, key, NONE).unwrap().lifetime().is_fresh(NOW.after(5)));
        assert_eq!(fresh, expected, "{scope:?}");
        assert_eq!(store.purge(scope, PurgeMode::Hard, NOW), count);
        assert_eq!(keys.map(|key| hit(&store, key, NONE).is_some()), expected, "{scope:?}");
        assert_eq!(count, expected.iter().filter(|stays| !**stays).count());
    }
}

/// A key of a partition.
fn in_partition(text: &str, name: u8, is_proven: bool) -> Vec<u8> {
    let mut key = text.as_bytes().to_vec();
    KeyPartition::new([name; 16], u8::from(is_proven)).end(&mut key);
    key
}

#[test]
fn a_partition_finds_what_is_its_own_and_a_purge_all_of_it() {
    for mode in [PurgeMode::Soft, PurgeMode::Hard] {
        let store = store(MIB, MIB / 4);
        let keys = [
            in_partition("x/1", 0, false),
            in_partition("x/1", 0, true),
            in_partition("x/1", 16, false),
            in_partition("x/2", 0, false),
        ];
        for key in &keys {
            assert_eq!(key_text(key)[..2], *b"x/");
            let found = store.find(&store.key(key), NONE, NOW);
            let Found::Missing(slot) = found else { panic!("{found:?}") };
            let ticket = store.lead_alone(&store.key(key), slot);
            ticket.store_whole(new_response(&[], None), NONE, b"body").expect("it is stored");
        }
        let is_there = |key: &Vec<u8>| match store.find(&store.key(key), NONE, NOW) {
            Found::Hit(found) => found.lifetime().is_fresh(NOW.after(5)),
            _ => false,
        };
        let there = |keys: &[Vec<u8>; 4]| keys.each_ref().map(is_there);
        assert_eq!(there(&keys), [true; 4]);
        // What an unsafe request has changed, and what the operator names.
        assert_eq!(store.purge(PurgeScope::Exact(&keys[0]), mode, NOW.after(5)), 1);
        assert_eq!(there(&keys), [false, true, true, true]);
        let left = if mode == PurgeMode::Hard { 2 } else { 3 };
        assert_eq!(store.purge(PurgeScope::Key(b"x/1"), mode, NOW.after(5)), left);
        assert_eq!(there(&keys), [false, false, false, true]);
    }
}

#[test]
fn a_purge_of_a_key_reaches_fetches_in_all_partitions() {
    let store = store(MIB, MIB / 4);
    let key = in_partition("a", 7, true);
    let Found::Missing(slot) = store.find(&store.key(&key), NONE, NOW) else { panic!("it is empty") };
    let Join::Lead(ticket) = store.join(&store.key(&key), slot) else { panic!("no other fetches") };
    store.purge(PurgeScope::Key(b"a"), PurgeMode::Hard, NOW);
    assert_eq!(ticket.store(new_response(&[], None), NONE).refused, Some(NotStored::Purged));
}

#[test]
fn what_was_fetched_before_a_purge_is_not_stored_after_it() {
    for scope in [PurgeScope::All, PurgeScope::Key(b"a"), PurgeScope::Prefix(b""), PurgeScope::Tag(b"red")] {
        let store = store(MIB, MIB / 4);
        let ticket = lead(&store, "a", NONE);
        assert_eq!(store.purge(scope, PurgeMode::Hard, NOW), 0);
        let mut storing = ticket.store(new_response(&[("Cache-Tag", "red")], None), NONE);
        assert_eq!(storing.refused, Some(NotStored::Purged), "{scope:?}");
        let mut reader = storing.response.read_from(0).unwrap();
        storing.writer.append(b"for one").unwrap();
        storing.writer.finish();
        assert_eq!(read_all(&mut reader), Ok(b"for one".to_vec()));
        assert!(hit(&store, "a", NONE).is_none());
    }
    let store = store(MIB, MIB / 4);
    let ticket = lead(&store, "a", NONE);
    for scope in [PurgeScope::Key(b"b"), PurgeScope::Prefix(b"b"), PurgeScope::Tag(b"blue")] {
        store.purge(scope, PurgeMode::Hard, NOW);
    }
    assert_eq!(ticket.store(new_response(&[("Cache-Tag", "red")], None), NONE).refused, None);
}

#[test]
fn a_purge_ends_what_grows() {
    let store = store(MIB, MIB / 4);
    let mut storing = lead(&store, "a", NONE).store(new_response(&[], None), NONE);
    let mut reader = storing.response.read_from(0).unwrap();
    storing.writer.append(b"x").unwrap();
    assert_eq!(store.purge(PurgeScope::All, PurgeMode::Hard, NOW), 1);
    assert!(!storing.writer.is_kept());
    storing.writer.append(b"y").unwrap();
    storing.writer.finish();
    assert_eq!(read_all(&mut reader), Ok(b"xy".to_vec()));
    assert!(hit(&store, "a", NONE).is_none());
    assert_eq!(store.size().bytes, 0);
}

#[test]
fn a_304_replaces_head_and_times_and_keeps_the_body() {
    let store = store(MIB, MIB / 4);
    put(&store, "a", &[("X", "1")], NONE, b"body");
    let old = hit(&store, "a", NONE).unwrap();
    let key = store.key(b"a");
    let ticket = store.try_refresh(&key, &old).expect("no other request does");
    assert!(old.is_refreshing() && store.try_refresh(&key, &old).is_none());
    assert!(matches!(store.join_refresh(&key, &old), Join::Wait(_)));
    let lifetime = Lifetime { received: NOW.after(60_000), fresh_ms: 1, ..Lifetime::default() };
    ticket.freshen(&old, Freshened { head: head(&[("X", "2")]), lifetime });
    assert!(!old.is_refreshing());
    let new = hit(&store, "a", NONE).unwrap();
    assert_eq!(new.head().view().first("x"), Some(&b"2"[..]));
    assert_eq!((new.lifetime(), Arc::ptr_eq(new.body(), old.body())), (lifetime, true));
    assert_eq!(store.size().evictions, [0; EvictionReason::COUNT]);
    // One that was purged meanwhile does not come back.
    let ticket = store.try_refresh(&key, &new).unwrap();
    store.invalidate(&key, NOW);
    ticket.freshen(&new, Freshened { head: head(&[]), lifetime });
    assert!(hit(&store, "a", NONE).is_none());
    assert_eq!(store.size().objects, 0);
}

#[test]
fn a_body_too_large_is_passed_through_at_the_pace_of_its_reader() {
    let store = store(16 * MIB, MIB);
    let storing = lead(&store, "a", NONE).store(new_response(&[], Some(2 * MIB)), NONE);
    assert_eq!(storing.refused, Some(NotStored::TooLarge));
    drop(storing);

    let mut storing = lead(&store, "a", NONE).store(new_response(&[], None), NONE);
    let mut reader = storing.response.read_from(0).unwrap();
    let block = vec![b'x'; 64 * 1024];
    let mut written = 0;
    while storing.writer.poll_ready(&mut cx()).is_ready() {
        storing.writer.append(&block).unwrap();
        written += block.len() as u64;
    }
    assert_eq!((storing.writer.is_kept(), written), (false, MIB + 64 * 1024));
    assert!(hit(&store, "a", NONE).is_none());
    assert!(storing.response.read_from(0).is_some(), "its beginning is still there");
    while store.size().body_bytes > READ_WINDOW_BYTES {
        assert!(storing.writer.poll_ready(&mut cx()).is_pending());
        assert_eq!(reader.poll_more(&mut cx()), Poll::Ready(Ok(true)));
        reader.consume(reader.available().len());
        let _ = reader.poll_more(&mut cx());
    }
    assert!(storing.writer.poll_ready(&mut cx()).is_ready() && storing.response.read_from(0).is_none());
    drop(reader);
    assert_eq!(storing.writer.append(b"x"), Err(BodyStopped));
    assert_eq!(storing.writer.poll_ready(&mut cx()), Poll::Ready(Err(BodyStopped)));
    assert_eq!(store.size().bytes, 0);
}

#[test]
fn a_body_that_fails_is_forgotten() {
    let store = store(MIB, MIB / 4);
    let mut storing = lead(&store, "a", NONE).store(new_response(&[], None), NONE);
    let mut reader = storing.response.read_from(0).unwrap();
    storing.writer.append(b"x").unwrap();
    drop(storing.writer);
    assert!(hit(&store, "a", NONE).is_none());
    assert_eq!(read_all(&mut reader), Err(BodyFailed));
    assert!(storing.response.read_from(0).is_none());
}

#[test]
fn what_is_read_from_files_is_bounded() {
    let store = store(MIB, MIB);
    let body = vec![7; MIB as usize];
    let mut held = Vec::new();
    while store.may_hold(MIB) {
        let ticket = lead(&store, &held.len().to_string(), NONE);
        held.push(ticket.store_whole(new_response(&[], None), NONE, &body).expect("it is not purged"));
        assert!(held.len() < 10, "slow readers of as many files fill the machine");
    }
    assert!(held.len() >= 3, "{} are held", held.len());
    held.pop();
    assert!(store.may_hold(MIB), "one that is not read any more makes room");
}

#[test]
fn what_comes_from_a_file_can_be_read_without_room_in_memory() {
    let store = store(MIB, MIB);
    let body = vec![7; MIB as usize];
    let ticket = lead(&store, "a", NONE);
    let mut waiting = wait(&store, "a");
    let response = ticket.store_whole(new_response(&[], None), NONE, &body).expect("it is not purged");
    assert!(hit(&store, "a", NONE).is_none(), "it is larger than what memory takes");
    let Poll::Ready(FetchOutcome::Stored(other)) = waiting.poll(&mut cx()) else { panic!("it is here") };
    for response in [response, other] {
        let mut reader = response.read_from(0).expect("it is whole");
        assert!(read_all(&mut reader) == Ok(body.clone()));
    }
    // One that was purged meanwhile is nothing for anyone.
    let ticket = lead(&store, "b", NONE);
    let mut waiting = wait(&store, "b");
    store.purge(PurgeScope::All, PurgeMode::Hard, NOW);
    assert!(ticket.store_whole(new_response(&[], None), NONE, &body).is_none());
    assert!(matches!(waiting.poll(&mut cx()), Poll::Ready(FetchOutcome::NotStored)));
    let small = lead(&store, "c", NONE).store_whole(new_response(&[], None), NONE, b"small");
    assert!(small.is_some() && hit(&store, "c", NONE).is_some());
}
