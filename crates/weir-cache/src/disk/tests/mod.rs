//! Tests of files: they survive restarts, purges hold, and what is damaged is never sent.

mod confirmed;
mod purges;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use weir_http::Fields;

use super::*;
use crate::head::{HeadView, StoredHead};
use crate::rules::{Freshened, Lifetime, LifetimeSource, VaryRule};
use crate::store::{
    Found, Join, KeyPartition, KeySecret, NewResponse, PurgeMode, PurgeScope, Store, StoreLimits,
    StoredResponse,
};
use crate::time::CacheTime;

const NOW: CacheTime = CacheTime::from_seconds(1_000_000);
const LIMITS: DiskLimits =
    DiskLimits { bytes_max: 64 << 20, files_max: 10_000, object_max: 1 << 20, keep_stale_ms: 3_600_000 };

static NO_FIELDS: Fields = Fields::new();
const NONE: HeadView<'static> = HeadView { fields: &NO_FIELDS, text: b"" };

/// A folder, and a store in memory before it.
struct TwoStores {
    folder: tempfile::TempDir,
    limits: DiskLimits,
    disk: DiskFolder,
    memory: Store,
}

impl TwoStores {
    fn new(limits: DiskLimits) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let disk = DiskFolder::open(folder.path(), limits, [1; 16]).expect("it is writable");
        disk.scan(NOW, || true).expect("it is readable");
        let memory = Store::new(StoreLimits { memory_max: 16 << 20, object_max: 1 << 20 }, disk.secret());
        Self { folder, limits, disk, memory }
    }

    /// Another process, which offers another secret.
    fn restart(&mut self, now: CacheTime) -> ScanReport {
        self.disk = DiskFolder::open(self.folder.path(), self.limits, [2; 16]).expect("it is writable");
        self.memory = Store::new(self.memory.limits(), self.disk.secret());
        self.disk.scan(now, || true).expect("it is readable")
    }

    fn in_memory(
        &self,
        key: &str,
        fields: &[(&str, &str)],
        request: HeadView<'_>,
        body: &[u8],
    ) -> Arc<StoredResponse> {
        let head = head(fields);
        let vary = VaryRule::new(head.view()).expect("the fields are sound");
        let lifetime = Lifetime {
            received: NOW,
            initial_age_ms: 1,
            fresh_ms: 60_000,
            stale_if_error_ms: 7,
            must_revalidate: true,
            source: LifetimeSource::Expires,
            ..Lifetime::default()
        };
        let key = self.memory.key(key.as_bytes());
        self.memory.invalidate(&key, NOW);
        let (Found::Missing(slot) | Found::Passed(slot)) = self.memory.find(&key, request, NOW) else {
            panic!("it was removed")
        };
        let Join::Lead(ticket) = self.memory.join(&key, slot) else { panic!("it is alone") };
        let mut storing = ticket.store(NewResponse { status: 203, head, lifetime, vary, len: None }, request);
        storing.writer.append(body).ok();
        storing.writer.finish();
        storing.response
    }

    fn put(&self, key: &str, fields: &[(&str, &str)], body: &[u8]) {
        let response = self.in_memory(key, fields, NONE, body);
        assert!(self.disk.write(&response, NOW).expect("there is room"));
    }

    fn get_for(&self, key: &str, request: HeadView<'_>) -> Option<DiskResponse> {
        let key = self.memory.key(key.as_bytes());
        self.disk.open_hit(&key, &self.disk.find(&key, request, NOW)?)
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.get_for(key, NONE).map(|response| response.read_body().expect("it is readable"))
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect_files(self.folder.path(), &mut files);
        files.retain(|path| path.file_name().is_some_and(|name| name.len() == 32));
        files.sort_unstable();
        files
    }
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("it is readable") {
        let path = entry.expect("it is readable").path();
        if path.is_dir() { collect_files(&path, files) } else { files.push(path) }
    }
}

fn head(fields: &[(&str, &str)]) -> StoredHead {
    let mut head = StoredHead::default();
    fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
    head
}

#[test]
fn a_response_survives_a_restart() {
    let mut stores = TwoStores::new(LIMITS);
    let body: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    stores.put("a", &[("Content-Type", "text/plain"), ("X", "")], &body);
    assert!(stores.get("b").is_none());
    for _ in 0..2 {
        let response = stores.get_for("a", NONE).expect("it is on disk");
        assert_eq!((response.header.status, response.body_len()), (203, 300_000));
        assert_eq!(response.header.head.text(), b"Content-Type: text/plain\r\nX: \r\n");
        assert_eq!(response.header.lifetime.source, LifetimeSource::Expires);
        assert_eq!(response.header.lifetime.expires(), NOW.after(59_999));
        assert!(response.header.lifetime.must_revalidate && !response.header.lifetime.no_cache);
        assert!(response.read_body().expect("it is readable") == body);
        assert_eq!(stores.restart(NOW), ScanReport { kept: 1, removed: 0 });
    }
    // The second time it is asked for it may go to memory.
    let key = stores.memory.key(b"a");
    let first = stores.disk.find(&key, NONE, NOW).expect("it is on disk");
    let again = stores.disk.find(&key, NONE, NOW).expect("it is on disk");
    assert_eq!((first.was_used, again.was_used, again.body_len), (false, true, 300_000));
    let response = stores.disk.open_hit(&key, &again).expect("it is sound");
    let Found::Missing(slot) = stores.memory.find(&key, NONE, NOW) else { panic!("memory is empty") };
    let body = response.read_body().expect("it is readable");
    stores.memory.promote(&key, slot, response.to_new(), NONE, &body);
    let Found::Hit(promoted) = stores.memory.find(&key, NONE, NOW) else { panic!("it was promoted") };
    assert_eq!((promoted.body().len(), promoted.lifetime()), (Some(300_000), response.header.lifetime));
}

/// A redirect, say: the file ends where its body would begin.
#[test]
fn a_response_without_a_body_survives_a_restart() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("a", &[("Location", "/b")], b"");
    for _ in 0..2 {
        assert_eq!(stores.get("a"), Some(Vec::new()));
        assert_eq!(stores.restart(NOW), ScanReport { kept: 1, removed: 0 });
    }
}

#[test]
fn what_is_of_no_use_any_more_is_removed() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("plain", &[], b"1");
    stores.put("tagged", &[("ETag", "\"a\"")], b"2");
    let key = stores.memory.key(b"plain");
    assert!(stores.disk.find(&key, NONE, NOW.after(70_000)).is_none());
    assert_eq!((stores.disk.remove_left(), stores.files().len()), (1, 1));
    stores.put("plain", &[], b"1");
    assert_eq!(stores.restart(NOW.after(70_000)), ScanReport { kept: 1, removed: 1 });
    assert_eq!(stores.restart(NOW.after(5_000_000)), ScanReport { kept: 0, removed: 1 });
    assert!(stores.files().is_empty());
}

#[test]
fn variants_are_found_by_the_fields_of_the_request() {
    let mut stores = TwoStores::new(LIMITS);
    let (german, french) = (head(&[("Accept-Language", "de")]), head(&[("Accept-Language", "fr")]));
    let put = |stores: &TwoStores, request: &StoredHead, vary, body: &[u8]| {
        let response = stores.in_memory("a", &[("Vary", vary)], request.view(), body);
        stores.disk.write(&response, NOW).expect("there is room")
    };
    let get = |stores: &TwoStores, request: &StoredHead| {
        stores.get_for("a", request.view()).map(|response| response.read_body().expect("it is readable"))
    };
    put(&stores, &german, "Accept-Language", b"Tag");
    put(&stores, &french, "Accept-Language", b"jour");
    for _ in 0..2 {
        assert_eq!(get(&stores, &german).as_deref(), Some(&b"Tag"[..]));
        assert_eq!(get(&stores, &french).as_deref(), Some(&b"jour"[..]));
        assert!(stores.get("a").is_none());
        assert_eq!(stores.restart(NOW).kept, 2);
    }
    // Another `Vary` takes the files of before away.
    put(&stores, &german, "Cookie", b"any");
    assert_eq!((get(&stores, &french).as_deref(), stores.files().len()), (Some(&b"any"[..]), 1));
    put(&stores, &german, "Accept-Language", b"Tag");
    put(&stores, &french, "Accept-Language", b"jour");
    assert_eq!(stores.disk.purge(PurgeScope::Key(b"a"), PurgeMode::Hard, NOW).expect("it is writable"), 2);
    assert!(get(&stores, &german).is_none() && stores.files().is_empty());
}

#[test]
fn files_are_bounded_in_bytes_and_number() {
    let few = DiskLimits { bytes_max: 1 << 20, files_max: 50, object_max: 64 << 10, keep_stale_ms: 0 };
    let small =
        DiskLimits { bytes_max: 256 << 10, files_max: 10_000, object_max: 64 << 10, keep_stale_ms: 0 };
    for (limits, body) in [(few, 10), (small, 20_000)] {
        let stores = TwoStores::new(limits);
        for number in 0..200 {
            stores.put(&number.to_string(), &[], &vec![b'x'; body]);
        }
        let size = stores.disk.size();
        let on_disk: u64 =
            stores.files().iter().map(|path| path.metadata().expect("it is there").len()).sum();
        assert!(size.bytes <= limits.bytes_max && on_disk <= limits.bytes_max, "{size:?} {on_disk}");
        assert!(size.files <= limits.files_max && stores.files().len() as u64 == size.files);
        assert_eq!(size.evictions, 200 - size.files);
    }
    let stores = TwoStores::new(small);
    let response = stores.in_memory("large", &[], NONE, &vec![b'x'; 65 << 10]);
    assert!(stores.disk.write(&response, NOW).is_err() && stores.files().is_empty());
    assert_eq!(std::fs::read_dir(stores.folder.path().join("writing")).expect("it is there").count(), 0);
}

#[test]
fn a_file_that_is_damaged_is_never_sent() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("a", &[("Content-Type", "text/plain")], &[b'x'; 5_000]);
    let path = stores.files().pop().expect("there is one");
    let sound = std::fs::read(&path).expect("it is readable");
    let mut damaged: Vec<Vec<u8>> = (0..sound.len()).step_by(37).map(|len| sound[..len].to_vec()).collect();
    damaged.push([&sound[..], b"x"].concat());
    for at in (0..sound.len()).step_by(11) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        damaged.push(bytes);
    }
    let (mut sent, mut count) = (0, 0);
    for bytes in damaged {
        std::fs::write(&path, &bytes).expect("it is writable");
        stores.restart(NOW);
        if let Some(response) = stores.get_for("a", NONE) {
            // Only the padding behind the head, and the second place for one, may differ.
            assert!(response.read_body().expect("it is readable") == [b'x'; 5_000]);
            assert_eq!(response.header.head.text(), b"Content-Type: text/plain\r\n");
            sent += 1;
        } else {
            assert!(!path.exists(), "it is removed");
        }
        count += 1;
    }
    assert!(sent < 90 && count > 500, "{sent} of {count}");
    // A file of another key in its place.
    std::fs::write(&path, &sound).expect("it is writable");
    stores.put("b", &[], b"other");
    let other = stores.files().into_iter().find(|file| *file != path).expect("there are two");
    std::fs::rename(other, &path).expect("it is writable");
    assert_eq!(stores.restart(NOW), ScanReport { kept: 0, removed: 1 });
    assert!(stores.get("a").is_none() && stores.get("b").is_none());
    // One that is damaged behind the scan.
    stores.put("a", &[], b"body");
    std::fs::write(stores.files().pop().expect("there is one"), b"").expect("it is writable");
    assert!(stores.get("a").is_none());
}

#[test]
fn only_files_of_ours_are_touched() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("a", &[], b"1");
    let folder = stores.files()[0].parent().expect("it is in a folder").to_owned();
    for path in [
        folder.join("notes.txt"),
        stores.folder.path().join("ab.txt"),
        stores.folder.path().join("lost+found"),
    ] {
        std::fs::write(path, b"x").expect("it is writable");
    }
    std::fs::write(stores.folder.path().join("writing/left"), b"x").expect("it is writable");
    assert_eq!(stores.restart(NOW), ScanReport { kept: 1, removed: 0 });
    assert!(folder.join("notes.txt").exists() && !stores.folder.path().join("writing/left").exists());
    // A secret that is lost makes everything a stranger's.
    std::fs::write(stores.folder.path().join("secret"), b"short").expect("it is writable");
    assert_eq!(stores.restart(NOW), ScanReport { kept: 0, removed: 1 });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_header_that_could_end_a_line(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(FileHeader::decode(&bytes, &KeySecret([0; 16])).is_err());
        if let Ok(header) = decode_payload(&bytes) {
            prop_assert!(header.head.view().fields.iter().all(|field| !field.value.of(header.head.text()).contains(&b'\n')));
        }
    }
}

#[test]
fn a_folder_that_was_emptied_takes_responses_again() {
    let mut stores = TwoStores::new(LIMITS);
    for empty in [true, false] {
        stores.put("a", &[], b"1");
        let folder = stores.folder.path();
        if empty {
            for entry in std::fs::read_dir(folder).expect("it is readable") {
                let path = entry.expect("it is readable").path();
                if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
                    .expect("it is ours");
            }
        } else {
            std::fs::remove_dir_all(folder).expect("it is ours");
        }
        assert!(stores.get("a").is_none());
        assert_eq!(stores.disk.purge(PurgeScope::All, PurgeMode::Hard, NOW).expect("it is writable"), 0);
        stores.put("a", &[], b"2");
        assert_eq!(stores.get("a").as_deref(), Some(&b"2"[..]));
        // It has the secret by which a restart knows its files.
        assert_eq!(stores.restart(NOW), ScanReport { kept: 1, removed: 0 });
    }
}
