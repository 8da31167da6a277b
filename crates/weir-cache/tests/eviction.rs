//! Hit ratios: the store against LRU and against the best fixed choice, on requests drawn by Zipf's law.

use std::num::NonZeroUsize;

use lru::LruCache;
use weir_cache::rules::{Lifetime, VaryRule};
use weir_cache::store::{Found, Join, KeySecret, NewResponse, Store, StoreLimits};
use weir_cache::{CacheTime, HeadView, StoredHead};
use weir_http::Fields;

const NOW: CacheTime = CacheTime::from_seconds(1_000);
const KEYS: usize = 20_000;
const ROOM: usize = 1_000;
const BODY_BYTES: usize = 1_500;

static NO_FIELDS: Fields = Fields::new();
const NONE: HeadView<'static> = HeadView { fields: &NO_FIELDS, text: b"" };

/// Whether it is found; it is stored else.
fn ask(store: &Store, name: &str) -> bool {
    let key = store.key(name.as_bytes());
    let Found::Missing(slot) = store.find(&key, NONE, NOW) else { return true };
    let Join::Lead(ticket) = store.join(&key, slot) else { panic!("it is alone") };
    let lifetime = Lifetime { received: NOW, fresh_ms: 60_000, ..Lifetime::default() };
    let len = Some(BODY_BYTES as u64);
    let new =
        NewResponse { status: 200, head: StoredHead::default(), lifetime, vary: VaryRule::default(), len };
    let mut storing = ticket.store(new, NONE);
    storing.writer.append(&[b'x'; BODY_BYTES]).expect("it is stored");
    storing.writer.finish();
    false
}

/// Cumulated shares of the keys, the most popular first.
fn zipf(exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    sums.iter().map(|share| share / sum).collect()
}

fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

/// Hit ratios of the store, of LRU with as many entries, and of the most popular keys, when `scan_of_ten` of ten requests are for keys that never
/// come again.
fn ratios(exponent: f64, scan_of_ten: usize) -> [f64; 3] {
    let measure = Store::new(StoreLimits { memory_max: 1 << 20, object_max: 1 << 16 }, KeySecret([3; 16]));
    ask(&measure, "0");
    let memory_max = measure.size().bytes * ROOM as u64;
    let store = Store::new(StoreLimits { memory_max, object_max: memory_max / 16 }, KeySecret([3; 16]));
    let mut lru = LruCache::new(NonZeroUsize::new(ROOM).expect("there is room"));
    let shares = zipf(exponent);
    let (mut random, mut hits, mut asked) = (1, [0, 0], 0);
    for number in 0..60_000 {
        if number % 10 < scan_of_ten {
            let key = format!("scan/{number}");
            ask(&store, &key);
            lru.put(key, ());
            continue;
        }
        let at = draw(&mut random);
        let key = shares.partition_point(|share| *share < at).to_string();
        let found = [ask(&store, &key), lru.put(key, ()).is_some()];
        // After as many as warm it up.
        if number >= 20_000 {
            asked += 1;
            hits.iter_mut().zip(found).for_each(|(hits, found)| *hits += u32::from(found));
        }
    }
    let ratio = |hits: u32| f64::from(hits) / f64::from(asked);
    [ratio(hits[0]), ratio(hits[1]), shares[ROOM - 1]]
}

#[test]
fn what_is_asked_for_often_stays() {
    for (exponent, scan_of_ten, of_best, over_lru) in
        [(0.8, 0, 0.9, 0.08), (1.0, 0, 0.94, 0.05), (0.8, 5, 0.75, 0.1), (1.0, 5, 0.84, 0.1)]
    {
        let [store, lru, best] = ratios(exponent, scan_of_ten);
        println!(
            "Zipf {exponent}, {scan_of_ten} of 10 scanned: store {store:.3}, LRU {lru:.3}, best fixed choice {best:.3}"
        );
        assert!(store >= of_best * best, "{store} of {best}");
        assert!(store >= lru + over_lru, "{store}, LRU has {lru}");
    }
}
