//! Memory: a hit allocates nothing, and what the store counts is what its memory takes.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use weir_cache::rules::{Lifetime, NotStored, VaryRule};
use weir_cache::store::{
    BodyMemory, BodyWriter, Found, Join, KeptBytes, KeySecret, NewResponse, PurgeMode, PurgeScope, Store,
    StoreLimits, StoredResponse,
};
use weir_cache::{CacheTime, HeadView, StoredHead};
use weir_http::Fields;

const NOW: CacheTime = CacheTime::from_seconds(1_000);
const MIB: u64 = 1 << 20;

static NO_FIELDS: Fields = Fields::new();
const NONE: HeadView<'static> = HeadView { fields: &NO_FIELDS, text: b"" };

fn store(memory_max: u64, object_max: u64) -> Store {
    Store::new(StoreLimits { memory_max, object_max }, KeySecret([7; 16]))
}

fn head(fields: &[(&str, &str)]) -> StoredHead {
    let mut head = StoredHead::default();
    fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
    head
}

fn new_response(head: StoredHead, len: Option<u64>) -> NewResponse {
    let vary = VaryRule::new(head.view()).expect("the fields are sound");
    let lifetime = Lifetime { received: NOW, fresh_ms: 60_000, ..Lifetime::default() };
    NewResponse { status: 200, head, lifetime, vary, len }
}

fn begin(
    store: &Store,
    key: &[u8],
    request: HeadView<'_>,
    new: NewResponse,
) -> Option<(Arc<StoredResponse>, BodyWriter)> {
    let key = store.key(key);
    let (Found::Missing(slot) | Found::Passed(slot)) = store.find(&key, request, NOW) else { return None };
    let Join::Lead(ticket) = store.join(&key, slot) else { return None };
    let storing = ticket.store(new, request);
    Some((storing.response, storing.writer))
}

fn put(store: &Store, key: &[u8], request: HeadView<'_>, head: StoredHead, body: &[u8]) {
    let new = new_response(head, Some(body.len() as u64));
    if let Some((_, mut writer)) = begin(store, key, request, new) {
        writer.append(body).ok();
        writer.finish();
    }
}

fn is_stored(store: &Store, key: &[u8]) -> bool {
    matches!(store.find(&store.key(key), NONE, NOW), Found::Hit(_))
}

#[test]
fn a_hit_allocates_nothing() {
    let store = store(MIB, MIB / 4);
    let request =
        head(&[("Accept-Encoding", "gzip, br"), ("Accept-Language", "de, en;q=0.5"), ("Foo", "a, \"b\"")]);
    put(&store, b"plain", NONE, head(&[("Content-Type", "text/html")]), &[b'x'; 1_000]);
    put(
        &store,
        b"varies",
        request.view(),
        head(&[("Vary", "Accept-Encoding, Accept-Language, Foo")]),
        &[b'x'; 100_000],
    );
    for key in [&b"plain"[..], b"varies"] {
        let mut len = 0;
        let mut cx = Context::from_waker(Waker::noop());
        let info = allocation_counter::measure(|| {
            let Found::Hit(response) = store.find(&store.key(key), request.view(), NOW) else { return };
            let mut reader = response.read_from(0).expect("it is complete");
            while matches!(reader.poll_more(&mut cx), Poll::Ready(Ok(true))) {
                len += reader.available().len();
                reader.consume(reader.available().len());
            }
        });
        assert!(len >= 1_000, "it is found");
        assert_eq!(info.count_total, 0);
    }
}

#[test]
fn what_is_counted_is_what_is_taken() {
    for (count, body_len, fields) in [(3_000, 0, 1), (3_000, 100, 8), (300, 20_000, 8), (20, 900_000, 20)] {
        let info = allocation_counter::measure(|| {
            let store = store(64 * MIB, MIB);
            let body = vec![b'x'; body_len];
            let names: Vec<_> = (0..fields).map(|number| format!("X-Field-{number}")).collect();
            let taken = allocation_counter::measure(|| {
                for number in 0..count {
                    let fields: Vec<_> = names.iter().map(|name| (name.as_str(), "some value")).collect();
                    let key = format!("https://www.example.com/some/path/{number}");
                    put(&store, key.as_bytes(), NONE, head(&fields), &body);
                }
            });
            let (size, taken) = (store.size(), taken.bytes_current as f64);
            assert_eq!(size.objects, count);
            let ratio = size.bytes as f64 / taken;
            // The table of slots doubles when it is full, so that its part varies.
            assert!(
                (0.95..1.25).contains(&ratio),
                "{count} of {body_len}: counted {} of {taken}",
                size.bytes
            );
        });
        assert!(info.bytes_current <= 64 * 1_024, "{} bytes are not given back", info.bytes_current);
    }
}

#[test]
fn a_scan_does_not_flush_what_is_asked_for_often() {
    let store = store(4 * MIB, 64 * 1024);
    let body = [b'x'; 4_000];
    let hot: Vec<_> = (0..200).map(|number| format!("hot/{number}")).collect();
    for _ in 0..3 {
        for key in &hot {
            put(&store, key.as_bytes(), NONE, StoredHead::default(), &body);
            assert!(is_stored(&store, key.as_bytes()));
        }
    }
    let mut hits = 0;
    for number in 0..20_000 {
        put(&store, format!("scan/{number}").as_bytes(), NONE, StoredHead::default(), &body);
        if number % 20 == 0 {
            hits += usize::from(is_stored(&store, hot[number / 20 % hot.len()].as_bytes()));
        }
    }
    assert!(store.size().bytes <= 4 * MIB && store.size().bytes > 3 * MIB);
    assert!(hits > 950, "{hits} of 1 000 hits in the midst of a scan of five times the memory");
}

#[test]
fn what_clients_still_read_is_counted_too() {
    let store = store(MIB, MIB / 4);
    let mut held = Vec::new();
    let mut refused = None;
    for number in 0..40 {
        let key = format!("{number}");
        let key = store.key(key.as_bytes());
        let Found::Missing(slot) = store.find(&key, NONE, NOW) else { panic!("it is new") };
        let Join::Lead(ticket) = store.join(&key, slot) else { panic!("it is alone") };
        let mut storing = ticket.store(new_response(StoredHead::default(), Some(100_000)), NONE);
        held.push(storing.response.read_from(0));
        if storing.refused.is_some() {
            refused = Some((number, storing.refused));
            break;
        }
        storing.writer.append(&[b'x'; 100_000]).expect("it has a reader");
        storing.writer.finish();
    }
    assert_eq!(refused, Some((14, Some(NotStored::NoMemory))), "a quarter more than the limit is held");
    drop(held);
    assert!(store.size().body_bytes <= MIB);
}

/// What happens to a store.
#[derive(Debug, Clone)]
enum Step {
    Begin { key: u8, len: u32, announced: bool, variant: u8 },
    Append { writer: u8, len: u32 },
    Finish { writer: u8 },
    Abandon { writer: u8 },
    Purge { key: u8 },
    PurgeAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<u8>(), 0_u32..40_000, any::<bool>(), 0_u8..5)
            .prop_map(|(key, len, announced, variant)| Step::Begin { key, len, announced, variant }),
        6 => (any::<u8>(), 0_u32..20_000).prop_map(|(writer, len)| Step::Append { writer, len }),
        3 => any::<u8>().prop_map(|writer| Step::Finish { writer }),
        1 => any::<u8>().prop_map(|writer| Step::Abandon { writer }),
        1 => any::<u8>().prop_map(|key| Step::Purge { key }),
        1 => Just(Step::PurgeAll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_bound_holds_whatever_happens(steps in proptest::collection::vec(step(), 1..400)) {
        const MAX: u64 = 200_000;
        let store = store(MAX, 30_000);
        let mut writers: Vec<BodyWriter> = Vec::new();
        for step in steps {
            let index = |writer: u8| usize::from(writer) % writers.len().max(1);
            match step {
                Step::Begin { key, len, announced, variant } => {
                    let request = head(&[("Foo", &variant.to_string())]);
                    let fields = if variant == 0 { head(&[]) } else { head(&[("Vary", "Foo")]) };
                    let new = new_response(fields, announced.then_some(u64::from(len)));
                    // Without a reader: what is not kept is dropped at once.
                    writers.extend(begin(&store, &[key % 40], request.view(), new).map(|(_, writer)| writer));
                }
                Step::Append { writer, len } if !writers.is_empty() => {
                    let index = index(writer);
                    writers[index].append(&vec![b'x'; len as usize]).ok();
                }
                Step::Finish { writer } if !writers.is_empty() => {
                    let index = index(writer);
                    writers.swap_remove(index).finish();
                }
                Step::Abandon { writer } if !writers.is_empty() => {
                    let index = index(writer);
                    drop(writers.swap_remove(index));
                }
                Step::Purge { key } => {
                    store.purge(PurgeScope::Key(&[key % 40]), PurgeMode::Hard, NOW);
                }
                Step::PurgeAll => {
                    store.purge(PurgeScope::All, PurgeMode::Hard, NOW);
                }
                _ => {}
            }
            let size = store.size();
            prop_assert!(size.bytes <= MAX, "{size:?}");
            prop_assert!(size.body_bytes <= size.bytes, "{size:?}");
        }
        drop(writers);
        store.purge(PurgeScope::All, PurgeMode::Hard, NOW);
        prop_assert_eq!(store.size().body_bytes, 0);
    }
}

#[test]
fn many_threads_share_one_store() {
    let store = store(4 * MIB, MIB);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let store = &store;
            scope.spawn(move || {
                let mut random = u64::from(thread) + 1;
                for _ in 0..5_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let key = [(random >> 40) as u8 % 64];
                    match (random >> 33) % 16 {
                        0 => drop(store.purge(PurgeScope::Key(&key), PurgeMode::Hard, NOW)),
                        1..4 => put(
                            store,
                            &key,
                            NONE,
                            StoredHead::default(),
                            &vec![key[0]; usize::from(key[0]) * 999],
                        ),
                        _ => {
                            if let Found::Hit(response) = store.find(&store.key(&key), NONE, NOW) {
                                let mut reader = response.read_from(0);
                                let bytes = reader.as_mut().map_or(&[][..], |reader| reader.available());
                                assert!(
                                    bytes.iter().all(|byte| *byte == key[0]),
                                    "it is the body of this key"
                                );
                            }
                        }
                    }
                }
            });
        }
    });
    assert!(store.size().bytes <= 4 * MIB);
}

/// Keeps bytes in a file on the disk, as one who has no other; counts what is in use.
#[derive(Debug)]
struct FileMemory {
    file: std::fs::File,
    end: std::sync::Mutex<u64>,
    in_use: Arc<AtomicU64>,
}

#[derive(Debug)]
struct FileBytes {
    bytes: Vec<u8>,
    file: std::fs::File,
    start: u64,
    in_use: Arc<AtomicU64>,
}

impl BodyMemory for FileMemory {
    fn keep(&self, chunks: &[&[u8]]) -> Option<Box<dyn KeptBytes>> {
        let bytes = chunks.concat();
        let mut end = self.end.lock().expect("no test panics with it");
        let start = *end;
        self.file.write_all_at(&bytes, start).expect("the file is open");
        *end += bytes.len() as u64;
        self.in_use.fetch_add(1, Ordering::Relaxed);
        let file = self.file.try_clone().expect("the file is open");
        Some(Box::new(FileBytes { bytes, file, start, in_use: Arc::clone(&self.in_use) }))
    }
}

impl KeptBytes for FileBytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn file(&self) -> (BorrowedFd<'_>, u64) {
        (self.file.as_fd(), self.start)
    }
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads all that comes, by the file where there is one; how many bytes came from there.
fn read_by_file(response: &StoredResponse, body: &mut Vec<u8>) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    let mut reader = response.read_from(0).expect("the body is kept");
    let mut from_file = 0;
    while reader.poll_more(&mut cx) == Poll::Ready(Ok(true)) {
        let len = reader.available().len();
        let mut part = reader.available().to_vec();
        if let Some((file, start)) = reader.file() {
            let file = std::fs::File::from(file.try_clone_to_owned().expect("the file is open"));
            file.read_exact_at(&mut part, start).expect("the file is open");
            assert_eq!(part, reader.available());
            from_file += len;
        }
        body.extend_from_slice(&part);
        reader.consume(len);
    }
    from_file
}

#[test]
fn large_bodies_are_kept_where_the_kernel_can_send_them_from() {
    let in_use = Arc::<AtomicU64>::default();
    let memory = FileMemory {
        file: tempfile::tempfile().unwrap(),
        end: std::sync::Mutex::new(0),
        in_use: Arc::clone(&in_use),
    };
    let limits = StoreLimits { memory_max: 8 * MIB, object_max: MIB };
    let store = Store::with_memory(limits, KeySecret([7; 16]), Some(Arc::new(memory)));
    for (len, append, from_file_min) in
        [(20_000, 7_000, 0), (40_000, 40_000, 40_000), (300_000, 10_000, 260_000), (900_000, 33_000, 890_000)]
    {
        let body: Vec<u8> = (0..len).map(|at: u32| (at / 251) as u8).collect();
        let (response, mut writer) =
            begin(&store, len.to_string().as_bytes(), NONE, new_response(head(&[]), None)).unwrap();
        let mut while_growing = Vec::new();
        let mut reader = response.read_from(0).unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        for part in body.chunks(append) {
            writer.append(part).unwrap();
            while reader.poll_more(&mut cx) == Poll::Ready(Ok(true)) {
                let data = reader.available();
                while_growing.extend_from_slice(data);
                let len = data.len();
                reader.consume(len);
            }
        }
        writer.finish();
        assert_eq!(while_growing, body);
        let mut read = Vec::new();
        let from_file = read_by_file(&response, &mut read);
        assert_eq!(read, body);
        assert!(from_file >= from_file_min, "{from_file} of {len} bytes are in the file");
        drop((response, reader));
    }
    assert!(store.size().bytes <= 8 * MIB);
    assert!(in_use.load(Ordering::Relaxed) >= 3);
    store.purge(PurgeScope::All, PurgeMode::Hard, NOW);
    assert_eq!(
        (store.size().body_bytes, in_use.load(Ordering::Relaxed)),
        (0, 0),
        "what is not stored is not kept"
    );
}
