//! Open files: how long they are used, what of them is kept, their forms and types.

use std::path::Path;

use weir_config::{Config, RouteAction};

use super::*;

/// Those of the defaults.
const LIMITS: OpenFileLimits = OpenFileLimits { files_max: None, unused_max: Duration::from_secs(60) };

/// The plan of a route with these files.
fn plan(root: &Path, keys: &str) -> Arc<FilesPlan> {
    let text = format!(
        "[listener.web]\naddress = \":0\"\n[[listener.web.route]]\nfiles = {{ root = '{}', {keys} }}\n",
        root.display()
    );
    let config = Config::parse(&text, "test.toml").expect("the config is good");
    match &config.listeners[0].routes[0].action {
        RouteAction::Files(files) => Arc::new(FilesPlan::new(files)),
        other => panic!("no files: {other:?}"),
    }
}

fn file(item: Result<FolderItem<Rc<OpenFile>>, OpenError>) -> Rc<OpenFile> {
    match item {
        Ok(FolderItem::File(file)) => file,
        other => panic!("no file: {other:?}"),
    }
}

/// The file at a path, which is there.
fn look(files: &OpenFiles, plan: &Arc<FilesPlan>, path: &str, now: Instant) -> Rc<OpenFile> {
    match files.look_up(plan, path.as_bytes(), now) {
        // The folder is on a disk that the kernel has not read yet.
        Err(OpenError::WouldWait) => {
            let loaded = plan.load(path.as_bytes(), MayWait::Yes).expect("it is there");
            file(files.put(plan, path.as_bytes(), loaded, now))
        }
        found => file(found),
    }
}

#[test]
fn an_open_file_is_used_until_its_time_is_over() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("a.html");
    std::fs::write(&path, "first").unwrap();
    let (files, plan, now) = (OpenFiles::new(LIMITS), plan(folder.path(), "valid = '1s'"), clock::now());
    let first = look(&files, &plan, "a.html", now);
    assert_eq!((first.len(), &*first.media_type), (5, &b"text/html; charset=utf-8"[..]));
    let again = look(&files, &plan, "a.html", now + Duration::from_millis(999));
    assert!(Rc::ptr_eq(&first, &again));
    let later = look(&files, &plan, "a.html", now + Duration::from_secs(1));
    assert_eq!(first.etag, later.etag, "it has not changed");
    std::fs::write(folder.path().join("new"), "the second").unwrap();
    std::fs::rename(folder.path().join("new"), &path).unwrap();
    assert_eq!(look(&files, &plan, "a.html", now + Duration::from_millis(1500)).len(), 5);
    let changed = look(&files, &plan, "a.html", now + Duration::from_secs(2));
    assert_eq!(changed.len(), 10);
    assert_ne!(first.etag, changed.etag);
    std::fs::remove_file(&path).unwrap();
    let gone = files.look_up(&plan, b"a.html", now + Duration::from_secs(4));
    assert!(matches!(gone, Err(OpenError::Missing | OpenError::WouldWait)), "{gone:?}");
}

#[test]
fn content_is_kept_once_the_file_has_settled_and_within_bounds() {
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("a"), "content").unwrap();
    let (files, plan, now) = (OpenFiles::new(LIMITS), plan(folder.path(), "valid = '0s'"), clock::now());
    let fresh = look(&files, &plan, "a", now);
    assert!(fresh.content.is_none(), "it may change again within the same tick of the clock");
    let later = clock::unix_now() + 2 * SETTLED_AFTER;
    assert!(fresh.lacks_content(later));
    let Ok(FolderItem::File(mut settled)) = plan.load(b"a", MayWait::Yes) else { panic!("it is there") };
    settled.read_content(later, MayWait::Yes).unwrap();
    assert_eq!(settled.content.as_deref(), Some(&b"content"[..]));
    std::fs::write(folder.path().join("large"), vec![0; CONTENT_MAX as usize + 1]).unwrap();
    assert!(!look(&files, &plan, "large", now).lacks_content(later));
    // Files with content push each other out.
    let content = || -> Option<Box<[u8]>> { Some(vec![0; CONTENTS_MAX / 4].into()) };
    for name in ["b", "c", "d", "e", "f"] {
        std::fs::write(folder.path().join(name), "").unwrap();
        let Ok(FolderItem::File(mut file)) = plan.load(name.as_bytes(), MayWait::Yes) else {
            panic!("there")
        };
        file.content = content();
        files.put(&plan, name.as_bytes(), FolderItem::File(file), now).unwrap();
        assert!(files.content_bytes.get() <= CONTENTS_MAX);
    }
    assert_eq!(files.content_bytes.get(), CONTENTS_MAX);
    assert_eq!(files.entries.borrow().len(), 4);
}

#[test]
fn no_more_files_are_open_than_may_be() {
    let folder = tempfile::tempdir().expect("there is room");
    let (files, plan, now) = (OpenFiles::new(LIMITS), plan(folder.path(), ""), clock::now());
    for number in 0..descriptors::worker_files_max() + 10 {
        let name = number.to_string();
        std::fs::write(folder.path().join(&name), "x").unwrap();
        look(&files, &plan, &name, now);
    }
    assert_eq!(files.entries.borrow().len(), descriptors::worker_files_max());
    assert_eq!(files.descriptors.get(), descriptors::worker_files_max());
}

#[test]
fn the_config_says_how_many_stay_open_and_for_how_long() {
    let folder = tempfile::tempdir().expect("there is room");
    let (plan, now) = (plan(folder.path(), "valid = '1h'"), clock::now());
    let names = ["a", "b", "c", "d"];
    names.iter().for_each(|name| std::fs::write(folder.path().join(name), "x").unwrap());
    let limits = |keys: &str| {
        let text =
            format!("{keys}\nlistener.web = {{ address = \":0\", route = [{{ files.root = \"/\" }}] }}");
        let config = Config::parse(&text, "test.toml").expect("the config is good");
        OpenFileLimits::new(&config.process, 2)
    };
    let of_config = limits("process.open_file_cache_max = 5\nprocess.open_file_cache_inactive = \"2s\"");
    let files = OpenFiles::new(of_config);
    let open = |files: &OpenFiles| (files.descriptors.get(), files.entries.borrow().len());
    names.iter().for_each(|name| drop(look(&files, &plan, name, now)));
    assert_eq!(open(&files), (3, 3), "half of five, rounded up");
    files.close_unused(now + Duration::from_secs(2));
    assert_eq!(open(&files), (3, 3));
    files.limit(limits("process.open_file_cache_max = 2"));
    assert_eq!(open(&files), (1, 1), "a reload closes what is too much");
    files.close_unused(now + Duration::from_secs(60));
    assert_eq!(open(&files), (1, 1), "a minute by default");
    files.limit(limits("process.open_file_cache_max = 0"));
    assert_eq!(look(&files, &plan, "a", now).len(), 1, "it is sent all the same");
    assert_eq!(open(&files), (0, 0));
    let all = limits("process.open_file_cache_max = 1000000");
    assert_eq!(all.files_max(), descriptors::worker_files_max(), "descriptors bound it");
}

#[test]
fn what_is_not_asked_for_is_closed() {
    let folder = tempfile::tempdir().expect("there is room");
    let (files, plan, now) = (OpenFiles::new(LIMITS), plan(folder.path(), "valid = '1h'"), clock::now());
    for name in ["used", "unused"] {
        std::fs::write(folder.path().join(name), "x").unwrap();
        look(&files, &plan, name, now);
    }
    look(&files, &plan, "used", now + LIMITS.unused_max);
    files.close_unused(now + LIMITS.unused_max);
    assert_eq!(files.descriptors.get(), 2);
    files.close_unused(now + LIMITS.unused_max + Duration::from_millis(1));
    assert_eq!((files.descriptors.get(), files.entries.borrow().len()), (1, 1));
}

#[test]
fn encoded_forms_are_found_beside_the_file() {
    let folder = tempfile::tempdir().expect("there is room");
    for name in ["a.js", "a.js.gz", "a.js.br", "b.js", "a.js.zst"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    let (files, now) = (OpenFiles::new(LIMITS), clock::now());
    let both = plan(folder.path(), "precompressed = ['br', 'gzip']");
    let found = look(&files, &both, "a.js", now);
    let forms: Vec<_> = found.beside.iter().map(|(encoding, form)| (encoding.name(), form.len())).collect();
    assert_eq!(forms, [("br", 7), ("gzip", 7)]);
    assert!(found.beside.iter().all(|(_, form)| form.etag != found.etag));
    assert!(look(&files, &both, "b.js", now).beside.is_empty());
    // Another route of the same folder has files of another form.
    assert!(look(&files, &plan(folder.path(), ""), "a.js", now).beside.is_empty());
}

#[test]
fn media_types_are_those_of_the_config_then_the_usual_ones() {
    let folder = tempfile::tempdir().expect("there is room");
    let plan = plan(
        folder.path(),
        "types = { 'Conf' = 'text/x-conf' }, default_type = 'application/x-other', charset = 'off'",
    );
    for (path, expected) in [
        ("a.conf", "text/x-conf"),
        ("a.html", "text/html"),
        ("dir.html/a", "application/x-other"),
        ("a.PNG", "image/png"),
        ("a", "application/x-other"),
        ("", "application/x-other"),
    ] {
        assert_eq!(String::from_utf8_lossy(&plan.media_type(path.as_bytes())), expected, "{path}");
    }
}
