//! Several files that are read as one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;
use weir_config::CheckedConfig;

/// Writes files into a new folder and loads the first of them.
fn load(files: &[(&str, &str)]) -> (TempDir, CheckedConfig) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (name, text) in files {
        let path = folder.path().join(name);
        let written =
            path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let checked = CheckedConfig::load(&folder.path().join(files[0].0));
    (folder, checked)
}

/// The mistakes with paths relative to the folder.
fn lines(folder: &Path, checked: &CheckedConfig) -> Vec<String> {
    let prefix = format!("{}/", folder.display());
    checked.diagnostics.to_string().lines().map(|line| line.replace(&prefix, "")).collect()
}

#[test]
fn listeners_routes_and_upstreams_come_together() {
    let (_folder, checked) = load(&[
        ("weir.toml", "include = [\"conf.d/*.toml\"]\n[listener.web]\naddress = \":0\"\n"),
        (
            "conf.d/a.toml",
            "[[listener.web.route]]\npath = \"/a\"\nupstream = \"a\"\n[upstream.a]\nservers = [\"a:80\"]\n",
        ),
        (
            "conf.d/b.toml",
            "[[listener.web.route]]\npath = \"/b\"\nupstream = \"b\"\n[upstream.b]\nservers = [\"b:80\"]\n",
        ),
        ("conf.d/ignored.txt", "not TOML"),
    ]);
    assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
    let config = checked.config.unwrap();
    let routes: Vec<&str> = config.listeners[0].routes.iter().map(|route| &*route.name).collect();
    assert_eq!(routes, ["/a", "/b"]);
    assert_eq!(config.upstreams.len(), 2);
}

#[test]
fn diagnostics_have_the_place_in_their_own_file() {
    let (folder, checked) = load(&[
        ("weir.toml", "include = \"more.toml\"\n[listener.web]\naddress = \":0\"\nupstream = \"a\"\n"),
        ("more.toml", "# comment\n[upstream.a]\nservers = [\"a\"]\n[upstream.b\n"),
    ]);
    let lines = lines(folder.path(), &checked);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("more.toml:3:12: error: `a` has no port"), "{lines:?}");
    assert!(lines[1].starts_with("more.toml:4:12: error: this is not TOML"), "{lines:?}");
}

#[test]
fn a_key_that_two_files_set_is_a_diagnostic_in_the_second() {
    let (folder, checked) = load(&[
        (
            "weir.toml",
            "include = \"more.toml\"\n[process]\nworkers = 1\n[listener.web]\naddress = \":0\"\nupstream = \"a\"\n\
             [upstream.a]\nservers = [\"a:80\"]\n",
        ),
        (
            "more.toml",
            "[process]\nworkers = 2\n[listener.web]\nbacklog = 5\naddress = \":1\"\n[upstream.a]\nbalance = \"random\"\n",
        ),
    ]);
    let lines = lines(folder.path(), &checked);
    assert_eq!(
        lines,
        [
            "more.toml:1:2: error: `process` is set twice",
            "more.toml:5:1: error: `listener.web.address` is set twice",
            "more.toml:6:11: error: `upstream.a` is set twice",
        ]
    );
    let labels = checked.diagnostics.labels(checked.diagnostics.iter().next().unwrap());
    assert_eq!((labels[0].0.line, labels[0].0.column), (2, 2));
}

#[test]
fn circles_and_files_that_are_not_there_are_diagnostics() {
    let (folder, checked) = load(&[
        ("weir.toml", "include = [\"a.toml\", \"gone.toml\", \"none/*.toml\", \"[\"]\n"),
        ("a.toml", "include = [\"b.toml\", \"./b.toml\"]\n"),
        ("b.toml", "include = [\"weir.toml\"]\n"),
    ]);
    let lines = lines(folder.path(), &checked);
    let starts = [
        "weir.toml:1:22: error: there is no file `gone.toml`",
        "weir.toml:1:50: error: this is not a pattern of file names",
        "a.toml:1:22: error: `./b.toml` is included twice",
        "b.toml:1:12: error: `weir.toml` is included twice",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}\n{start}");
    }
}

#[test]
fn a_folder_that_cannot_be_looked_into_is_a_diagnostic() {
    let (folder, checked) = load(&[
        (
            "weir.toml",
            "include = [\"conf.d/*.toml\", \"later.d/*.toml\"]\n[listener.web]\naddress = \":0\"\nupstream = \"a\"\n",
        ),
        ("conf.d", "a file, where a folder should be"),
    ]);
    let lines = lines(folder.path(), &checked);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].starts_with("weir.toml:1:12: error: `conf.d` cannot be read: "), "{lines:#?}");
}

/// Whether a folder is closed to this user decides the system, and root may look into any.
#[test]
fn a_folder_that_is_closed_is_a_diagnostic() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (closed, file) = (folder.path().join("b.d"), folder.path().join("weir.toml"));
    std::fs::create_dir(&closed).expect("the folder takes another");
    std::fs::write(&file, "include = \"*.d/*.toml\"\n").expect("the folder takes a file");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).expect("it is ours");
    if std::fs::read_dir(&closed).is_ok() {
        return;
    }
    let lines = lines(folder.path(), &CheckedConfig::load(&file));
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].starts_with("weir.toml:1:11: error: `b.d` cannot be read: "), "{lines:#?}");
}

#[test]
fn keys_of_a_missing_file_are_not_reported_as_missing() {
    for file in ["gone.toml", "broken.toml"] {
        let include =
            format!("include = \"{file}\"\n[listener.web]\naddress = \":0\"\nupstream = \"a\"\nport = 1\n");
        let (folder, checked) = load(&[("weir.toml", &include), ("broken.toml/x", "")]);
        let lines = lines(folder.path(), &checked);
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(lines[0].starts_with("weir.toml:1:11: error: there is no file "), "{lines:#?}");
        assert!(lines[1].starts_with("weir.toml:5:1: error: "), "what is wrong in itself is: {lines:#?}");
    }
}

#[test]
fn the_name_of_a_folder_is_no_pattern() {
    let (_folder, checked) = load(&[
        ("a[1]/weir.toml", "include = \"*.inc\"\n[listener.web]\naddress = \":0\"\nupstream = \"a\"\n"),
        ("a[1]/x.inc", "upstream.a.servers = [\"a:80\"]\n"),
    ]);
    assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
}

#[test]
fn nothing_is_included_in_a_text_without_a_file() {
    let checked = CheckedConfig::parse_alone("include = [\"/**\"]\n", "weir.toml", &|_| None);
    assert_eq!(checked.diagnostics.to_string().lines().count(), 1, "{}", checked.diagnostics);
}
