//! Purges against fetches on other threads: what a purge covers is not found behind it, whenever it was fetched.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_cache::rules::{Lifetime, VaryRule};
use weir_cache::store::{
    Found, Join, KeySecret, NewResponse, PurgeMode, PurgeScope, Store, StoreLimits, StoredResponse,
};
use weir_cache::{CacheTime, HeadView, StoredHead};

const NOW: CacheTime = CacheTime::from_seconds(1_000);
const KEYS: usize = 3;

fn head(fields: &[(&str, &str)]) -> StoredHead {
    let mut head = StoredHead::default();
    fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
    head
}

fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// The version that a stored response is of; `None` while its body grows.
fn version_of(response: &StoredResponse) -> Option<u64> {
    let body: Vec<u8> = response.body().chunks()?.flatten().copied().collect();
    Some(u64::from_le_bytes(body.try_into().expect("a version has eight bytes")))
}

/// A server whose responses have a version, and a cache before it.
struct Site {
    store: Store,
    versions: [AtomicU64; KEYS],
    is_over: AtomicBool,
}

impl Site {
    fn fetch(&self, key: usize, request: HeadView<'_>, varies: bool) {
        let name = [b'a' + key as u8];
        let key_of_store = self.store.key(&name);
        let (Found::Missing(slot) | Found::Passed(slot)) = self.store.find(&key_of_store, request, NOW)
        else {
            return;
        };
        let Join::Lead(ticket) = self.store.join(&key_of_store, slot) else { return };
        // What the server says is as new as the request to it.
        let version = self.versions[key].load(Ordering::SeqCst);
        // A purge comes between.
        std::thread::yield_now();
        let tag = format!("tag-{key}");
        let mut fields = vec![("Cache-Tag", tag.as_str())];
        fields.extend(varies.then_some(("Vary", "Foo")));
        let head = head(&fields);
        let vary = VaryRule::new(head.view()).expect("it is sound");
        let lifetime = Lifetime { received: NOW, fresh_ms: 60_000, ..Lifetime::default() };
        let mut storing = ticket.store(NewResponse { status: 200, head, lifetime, vary, len: None }, request);
        if storing.writer.append(&version.to_le_bytes()).is_ok() {
            storing.writer.finish();
        }
    }

    fn purge(&self, key: usize, way: usize, requests: &[StoredHead]) {
        let name = [b'a' + key as u8];
        let version = self.versions[key].fetch_add(1, Ordering::SeqCst) + 1;
        let tag = format!("tag-{key}");
        let scope = match way % 4 {
            0 => PurgeScope::Key(&name),
            1 => PurgeScope::Prefix(&name),
            2 => PurgeScope::Tag(tag.as_bytes()),
            _ => PurgeScope::All,
        };
        self.store.purge(scope, PurgeMode::Hard, NOW);
        for request in requests {
            if let Found::Hit(response) = self.store.find(&self.store.key(&name), request.view(), NOW)
                && let Some(found) = version_of(&response)
            {
                assert!(
                    found >= version,
                    "{scope:?}: version {found} is found behind the purge that made {version}"
                );
            }
        }
    }
}

/// Ends the other threads, also when this one panics.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nothing_is_found_that_was_purged() {
    let site = Site {
        store: Store::new(StoreLimits { memory_max: 1 << 20, object_max: 1 << 16 }, KeySecret([9; 16])),
        versions: Default::default(),
        is_over: AtomicBool::new(false),
    };
    let requests: Vec<_> = ["1", "2"].iter().map(|value| head(&[("Foo", value)])).collect();
    let (site, requests) = (&site, &requests[..]);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            scope.spawn(move || {
                let mut state = thread + 1;
                while !site.is_over.load(Ordering::Relaxed) {
                    let request = requests[random(&mut state) % 2].view();
                    site.fetch(random(&mut state) % KEYS, request, random(&mut state).is_multiple_of(3));
                }
            });
        }
        let mut state = 99;
        // Until enough was stored between purges, however few turns the other threads get.
        let evictions = || site.store.size().evictions.iter().sum::<u64>();
        let _over = SetAtEnd(&site.is_over);
        while evictions() < 1_000 {
            site.purge(random(&mut state) % KEYS, random(&mut state), requests);
            std::thread::yield_now();
        }
    });
}
