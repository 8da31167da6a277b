//! Bodies that grow while many threads read them: every reader gets every byte, and no wake-up is lost.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use weir_cache::rules::{Lifetime, VaryRule};
use weir_cache::store::{
    BodyReader, BodyStopped, BodyWriter, FetchOutcome, FetchWait, Found, Join, KeySecret, NewResponse,
    READ_WINDOW_BYTES, Store, StoreLimits,
};
use weir_cache::{CacheTime, HeadView, StoredHead};
use weir_http::Fields;

const NOW: CacheTime = CacheTime::from_seconds(1_000);
const MIB: u64 = 1 << 20;

static NO_FIELDS: Fields = Fields::new();
const NONE: HeadView<'static> = HeadView { fields: &NO_FIELDS, text: b"" };

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn byte_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Appends `len` bytes in pieces of many sizes.
fn write(mut writer: BodyWriter, len: u64, seed: u64) -> Result<BodyWriter, BodyStopped> {
    let mut state = seed;
    while writer.written() < len {
        block_on(|cx| writer.poll_ready(cx))?;
        let piece = match random(&mut state) % 4 {
            0 => random(&mut state) % 100,
            1 => random(&mut state) % 5_000,
            _ => random(&mut state) % 70_000,
        };
        let start = writer.written();
        let bytes: Vec<u8> = (start..len.min(start + piece)).map(byte_at).collect();
        writer.append(&bytes)?;
    }
    Ok(writer)
}

/// Reads to the end, some bytes at a time; how many there were.
fn read(mut reader: BodyReader, seed: u64) -> Option<u64> {
    let mut state = seed;
    loop {
        match block_on(|cx| reader.poll_more(cx)) {
            Ok(false) => return Some(reader.position()),
            Err(_) => return None,
            Ok(true) => {
                let len = (random(&mut state) as usize % 100_000).min(reader.available().len());
                let start = reader.position();
                let is_right =
                    reader.available()[..len].iter().zip(start..).all(|(byte, at)| *byte == byte_at(at));
                assert!(is_right, "wrong bytes behind {start}");
                reader.consume(len);
            }
        }
    }
}

fn wait_and_read(mut wait: FetchWait, seed: u64) -> Option<u64> {
    let FetchOutcome::Stored(response) = block_on(|cx| wait.poll(cx)) else { return None };
    let reader = response.read_from(0)?;
    drop((wait, response));
    read(reader, seed)
}

/// One request fetches a body of this length, seven wait for it; what all of them have read.
fn share(object_max: u64, len: u64, seed: u64) -> Vec<Option<u64>> {
    let store = Store::new(StoreLimits { memory_max: 32 * MIB, object_max }, KeySecret([seed as u8; 16]));
    let key = store.key(b"a");
    let Found::Missing(slot) = store.find(&key, NONE, NOW) else { panic!("the store is empty") };
    let Join::Lead(ticket) = store.join(&key, slot) else { panic!("it is the first") };
    let waiting: Vec<FetchWait> = (0..7)
        .map(|_| match store.join(&key, slot) {
            Join::Wait(wait) => wait,
            Join::Lead(_) => panic!("it is fetched"),
        })
        .collect();
    std::thread::scope(|scope| {
        let waiting = waiting
            .into_iter()
            .zip(1..)
            .map(|(wait, number)| scope.spawn(move || wait_and_read(wait, seed + number)));
        let mut readers: Vec<_> = waiting.collect();
        let lifetime = Lifetime { received: NOW, fresh_ms: 60_000, ..Lifetime::default() };
        let head = StoredHead::default();
        let new = NewResponse { status: 200, head, lifetime, vary: VaryRule::default(), len: None };
        let storing = ticket.store(new, NONE);
        let reader = storing.response.read_from(0).expect("nothing is gone yet");
        readers.push(scope.spawn(move || read(reader, seed)));
        drop(storing.response);
        let written = write(storing.writer, len, seed);
        let body_bytes = store.size().body_bytes;
        assert!(
            len <= object_max || body_bytes <= object_max + 2 * READ_WINDOW_BYTES,
            "{body_bytes} are held"
        );
        if let Ok(writer) = written {
            writer.finish();
        }
        readers.into_iter().map(|reader| reader.join().expect("it does not panic")).collect()
    })
}

#[test]
fn every_reader_of_a_kept_body_gets_all_of_it() {
    for seed in 0..4 {
        assert_eq!(share(4 * MIB, MIB, seed), [Some(MIB); 8]);
    }
}

#[test]
fn every_reader_of_a_body_that_is_passed_through_gets_all_of_it_or_none() {
    for seed in 0..4 {
        let outcomes = share(MIB / 4, MIB, seed);
        // A request that comes when the beginning is gone fetches by itself.
        assert!(outcomes.iter().all(|len| matches!(len, None | Some(MIB))), "{outcomes:?}");
        assert_eq!(
            outcomes.last(),
            Some(&Some(MIB)),
            "that of the request that fetched is there from the start"
        );
    }
}
