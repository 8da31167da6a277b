//! Purges of files hold beyond a restart, and for what is being written or not scanned yet; soft ones leave files that are stale.

use super::confirmed::{confirm, written_bytes};
use super::*;

#[test]
fn purges_hold_beyond_a_restart() {
    for (scope, expected) in [
        (PurgeScope::All, [false; 3]),
        (PurgeScope::Key(b"x/1"), [false, true, true]),
        (PurgeScope::Prefix(b"x/"), [false, false, true]),
        (PurgeScope::Tag(b"red"), [true, false, false]),
    ] {
        let mut stores = TwoStores::new(LIMITS);
        stores.put("x/1", &[], b"1");
        stores.put("x/2", &[("Cache-Tag", "blue, red")], b"2");
        stores.put("y", &[("Surrogate-Key", "red")], b"3");
        let count = expected.iter().filter(|stays| !**stays).count();
        assert_eq!(stores.disk.purge(scope, PurgeMode::Hard, NOW).expect("it is writable"), count);
        for _ in 0..2 {
            assert_eq!(["x/1", "x/2", "y"].map(|key| stores.get(key).is_some()), expected, "{scope:?}");
            assert_eq!(stores.restart(NOW), ScanReport { kept: 3 - count, removed: 0 });
        }
    }
}

#[test]
fn a_purge_that_was_cut_short_goes_on_at_the_next_start() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("x/1", &[], b"1");
    stores.put("y", &[], b"2");
    // As a process leaves it that ends behind the first step of a purge.
    std::fs::write(
        stores.folder.path().join("purges/1"),
        [&b"p"[..], &NOW.millis().to_le_bytes(), b"x/"].concat(),
    )
    .expect("it is writable");
    assert_eq!(stores.restart(NOW), ScanReport { kept: 1, removed: 1 });
    stores.put("x/1", &[], b"1");
    assert_eq!(stores.restart(NOW), ScanReport { kept: 2, removed: 0 });
}

#[test]
fn what_was_purged_while_it_was_written_is_not_stored() {
    for scope in [PurgeScope::All, PurgeScope::Key(b"a"), PurgeScope::Prefix(b"a"), PurgeScope::Tag(b"red")] {
        let stores = TwoStores::new(LIMITS);
        let response = stores.in_memory("a", &[("Cache-Tag", "red")], NONE, b"");
        let mut writer = stores.disk.begin_write(&response, NOW).expect("it is writable");
        stores.disk.purge(scope, PurgeMode::Hard, NOW).expect("it is writable");
        writer.append(b"body").expect("there is room");
        assert!(!writer.finish().expect("there is room"));
        assert!(stores.get("a").is_none() && stores.files().is_empty());
    }
    let stores = TwoStores::new(LIMITS);
    let response = stores.in_memory("a", &[], NONE, b"");
    stores.memory.purge(PurgeScope::All, PurgeMode::Hard, NOW);
    assert!(!stores.disk.write(&response, NOW).expect("there is room"));
    assert!(stores.get("a").is_none());
}

#[test]
fn a_purge_of_both_finds_what_goes_from_the_file_to_memory() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("a", &[], b"body");
    stores.restart(NOW);
    // Read before the purge, stored behind it.
    let key = stores.memory.key(b"a");
    let Found::Missing(slot) = stores.memory.find(&key, NONE, NOW) else { panic!("memory is empty") };
    let Join::Lead(ticket) = stores.memory.join(&key, slot) else { panic!("it is alone") };
    let response = stores.get_for("a", NONE).expect("it is on disk");
    let purged = stores.disk.purge_with(&stores.memory, PurgeScope::Key(b"a"), PurgeMode::Hard, NOW);
    assert_eq!(purged.expect("it is writable"), (0, 1));
    ticket.store(response.to_new(), NONE);
    assert!(matches!(stores.memory.find(&key, NONE, NOW), Found::Missing(_)) && stores.get("a").is_none());
}

#[test]
fn a_soft_purge_leaves_files_that_are_stale() {
    for (scope, expected) in [
        (PurgeScope::All, [true; 3]),
        (PurgeScope::Key(b"x/1"), [true, false, false]),
        (PurgeScope::Prefix(b"x/"), [true, true, false]),
        (PurgeScope::Tag(b"red"), [false, true, true]),
    ] {
        let mut stores = TwoStores::new(LIMITS);
        let large = vec![b'x'; 100_000];
        stores.put("x/1", &[("ETag", "\"1\"")], &large);
        stores.put("x/2", &[("ETag", "\"1\""), ("Cache-Tag", "blue, red")], b"2");
        stores.put("y", &[("ETag", "\"1\""), ("Surrogate-Key", "red")], b"3");
        let (before, at) = (written_bytes(&stores), NOW.after(10_000));
        let count = expected.iter().filter(|is_stale| **is_stale).count();
        let purged = stores.disk.purge(scope, PurgeMode::Soft, at).expect("it is writable");
        assert_eq!(purged, count, "{scope:?}");
        assert!(written_bytes(&stores) - before <= 1_024 * count as u64);
        for _ in 0..2 {
            let stale = ["x/1", "x/2", "y"].map(|key| {
                let response = stores.get_for(key, NONE).expect("it stays");
                !response.header.lifetime.is_fresh(at)
            });
            assert_eq!(stale, expected, "{scope:?}");
            assert_eq!(stores.restart(at), ScanReport { kept: 3, removed: 0 });
        }
    }
    // What is of no use as a stale one does not stay.
    let mut lifetime = Lifetime { received: NOW, fresh_ms: 60_000, ..Lifetime::default() };
    for stale_if_error_ms in [0, 9_000] {
        lifetime.stale_if_error_ms = stale_if_error_ms;
        let stores = TwoStores::new(LIMITS);
        stores.put("a", &[], b"body");
        let response = confirm(&stores, "a", &[], lifetime);
        assert!(stores.disk.freshen(&response, NOW).expect("it is writable"));
        assert_eq!(stores.disk.purge(PurgeScope::All, PurgeMode::Soft, NOW).expect("it is writable"), 1);
        assert_eq!(stores.files().len(), usize::from(stale_if_error_ms > 0));
        assert!(stores.disk.find(&stores.memory.key(b"a"), NONE, NOW.after(9_000)).is_none());
    }
}

#[test]
fn a_soft_purge_marks_the_variants_of_a_key() {
    let stores = TwoStores::new(LIMITS);
    for language in ["de", "fr"] {
        let request = head(&[("Accept-Language", language)]);
        let fields = [("Vary", "Accept-Language"), ("ETag", "\"1\"")];
        let response = stores.in_memory("a", &fields, request.view(), b"body");
        assert!(stores.disk.write(&response, NOW).expect("there is room"));
    }
    assert_eq!(stores.disk.purge(PurgeScope::Key(b"a"), PurgeMode::Soft, NOW).expect("it is writable"), 2);
    let request = head(&[("Accept-Language", "fr")]);
    let response = stores.get_for("a", request.view()).expect("it stays");
    assert!(!response.header.lifetime.is_fresh(NOW));
}

#[test]
fn a_soft_purge_reaches_what_is_being_written() {
    let stores = TwoStores::new(LIMITS);
    let response = stores.in_memory("a", &[("ETag", "\"1\""), ("Cache-Tag", "red")], NONE, b"");
    let mut writer = stores.disk.begin_write(&response, NOW).expect("it is writable");
    // Behind the purge of the memory: it has nothing to mark.
    stores.disk.purge(PurgeScope::Tag(b"red"), PurgeMode::Soft, NOW.after(1)).expect("it is writable");
    writer.append(b"body").expect("there is room");
    assert!(writer.finish().expect("there is room"));
    assert!(!stores.get_for("a", NONE).expect("it stays").header.lifetime.is_fresh(NOW.after(1)));
}

#[test]
fn purges_reach_files_that_the_scan_has_not_seen_yet() {
    for (scope, mode) in [
        (PurgeScope::All, PurgeMode::Soft),
        (PurgeScope::Key(b"a"), PurgeMode::Soft),
        (PurgeScope::Tag(b"red"), PurgeMode::Hard),
        (PurgeScope::Key(b"a"), PurgeMode::Hard),
    ] {
        // A purge of a key is not kept on disk.
        for cut_short in [false, true].into_iter().filter(|cut| !cut || !matches!(scope, PurgeScope::Key(_)))
        {
            let mut stores = TwoStores::new(LIMITS);
            stores.put("a", &[("ETag", "\"1\""), ("Cache-Tag", "red")], b"body");
            stores.disk = DiskFolder::open(stores.folder.path(), LIMITS, [2; 16]).expect("it is writable");
            let at = NOW.after(10);
            assert_eq!(stores.disk.purge(scope, mode, at).expect("it is writable"), 0);
            if cut_short {
                stores.disk =
                    DiskFolder::open(stores.folder.path(), LIMITS, [2; 16]).expect("it is writable");
            }
            let kept = stores.disk.scan(at, || true).expect("it is readable").kept;
            for _ in 0..2 {
                let is_fresh =
                    stores.get_for("a", NONE).map(|response| response.header.lifetime.is_fresh(at));
                assert_eq!(
                    (kept, is_fresh),
                    match mode {
                        PurgeMode::Soft => (1, Some(false)),
                        PurgeMode::Hard => (0, None),
                    }
                );
                stores.restart(at);
            }
            assert_eq!(
                std::fs::read_dir(stores.folder.path().join("purges")).expect("it is there").count(),
                0
            );
        }
    }
}

#[test]
fn more_keys_than_are_noted_during_a_scan_purge_all_that_is_older() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("a", &[], b"1");
    stores.put("b", &[], b"2");
    for (count, kept) in [(10, 2), (100_001, 0)] {
        stores.disk = DiskFolder::open(stores.folder.path(), LIMITS, [2; 16]).expect("it is writable");
        for number in 0..count {
            let key = format!("k{number}");
            stores.disk.purge(PurgeScope::Key(key.as_bytes()), PurgeMode::Hard, NOW).expect("it is writable");
        }
        assert_eq!(stores.disk.scan(NOW, || true).expect("it is readable").kept, kept);
    }
}

#[test]
fn a_purge_of_a_key_reaches_its_files_in_all_partitions() {
    let key = |text: &str, name: u8| {
        let mut key = text.as_bytes().to_vec();
        KeyPartition::new([name; 16], 1).end(&mut key);
        String::from_utf8(key).expect("it is ASCII")
    };
    let keys = [key("a", 1), key("a", 17), key("b", 1)];
    for mode in [PurgeMode::Soft, PurgeMode::Hard] {
        for is_scanned in [true, false] {
            let mut stores = TwoStores::new(LIMITS);
            keys.iter().for_each(|key| stores.put(key, &[("ETag", "\"1\"")], b"body"));
            if is_scanned {
                stores.restart(NOW);
            } else {
                stores.disk =
                    DiskFolder::open(stores.folder.path(), LIMITS, [2; 16]).expect("it is writable");
            }
            let count = stores.disk.purge(PurgeScope::Key(b"a"), mode, NOW).expect("it is writable");
            assert_eq!(count, if is_scanned { 2 } else { 0 });
            if !is_scanned {
                stores.disk.scan(NOW, || true).expect("it is readable");
            }
            let is_fresh = |key: &String| {
                stores
                    .get_for(key, NONE)
                    .is_some_and(|response| response.header.lifetime.is_fresh(NOW.after(1)))
            };
            assert_eq!(keys.each_ref().map(is_fresh), [false, false, true], "{mode:?} {is_scanned}");
        }
    }
}

#[test]
fn files_of_a_version_without_partitions_are_removed() {
    let mut stores = TwoStores::new(LIMITS);
    stores.put("a", &[], b"body");
    let path = &stores.files()[0];
    let mut bytes = std::fs::read(path).expect("it is readable");
    assert_eq!(bytes[8..12], 3_u32.to_le_bytes());
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    std::fs::write(path, bytes).expect("it is writable");
    assert_eq!(stores.restart(NOW), ScanReport { kept: 0, removed: 1 });
}
