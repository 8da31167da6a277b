//! Files: written anew, renamed over, behind links that are swapped, broken, and gone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use weir_config::ServerSource;

use super::{FollowedSource, addresses};

fn toml(ports: &[u16]) -> String {
    let servers = ports.iter().map(|port| format!("[[servers]]\naddress = \"127.0.0.1:{port}\"\n"));
    format!("{}{}", if ports.is_empty() { "servers = []\n" } else { "" }, servers.collect::<String>())
}

fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn a_file_is_followed_and_a_bad_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.toml");
    fs::write(&path, toml(&[1])).unwrap();
    let mut followed = FollowedSource::start(ServerSource::File(path.clone()), |_| {});
    let set = followed.until_servers(&["127.0.0.1:1"]).await;
    assert_eq!(&*set.origin.source, format!("file {}", path.display()));
    fs::write(&path, toml(&[1, 2])).unwrap();
    followed.until_servers(&["127.0.0.1:1", "127.0.0.1:2"]).await;
    replace(&path, "[[servers]]\naddress = \"127.0.0.1\"\n");
    let set = followed.until_problem("app.toml, line 2, column 11: `127.0.0.1` has no port").await;
    assert_eq!((addresses(&set).len(), set.origin.is_stale), (2, true));
    replace(&path, &toml(&[3]));
    followed.until_servers(&["127.0.0.1:3"]).await;
    fs::remove_file(&path).unwrap();
    let set = followed.until_problem("cannot be read").await;
    assert_eq!(addresses(&set), ["127.0.0.1:3"]);
    followed.stop().await;
}

#[tokio::test]
async fn a_swapped_link_is_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (version, text) in
        [("v1", r#"{"servers":[{"address":"127.0.0.1:1"}]}"#), ("v2", r#"[{"targets":["127.0.0.1:2"]}]"#)]
    {
        fs::create_dir(root.join(version)).unwrap();
        fs::write(root.join(version).join("app.json"), text).unwrap();
    }
    // As a ConfigMap is mounted: a link to a folder, and a link to a file through it.
    symlink("v1", root.join("..data")).unwrap();
    symlink("..data/app.json", root.join("app.json")).unwrap();
    let mut followed = FollowedSource::start(ServerSource::File(root.join("app.json")), |_| {});
    followed.until_servers(&["127.0.0.1:1"]).await;
    symlink("v2", root.join("..data.new")).unwrap();
    fs::rename(root.join("..data.new"), root.join("..data")).unwrap();
    followed.until_servers(&["127.0.0.1:2"]).await;
    followed.stop().await;
}

#[tokio::test]
async fn an_empty_file_is_believed_after_the_grace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.toml");
    fs::write(&path, toml(&[1])).unwrap();
    let mut followed = FollowedSource::start(ServerSource::File(path.clone()), |config| {
        config.settings.empty_grace = std::time::Duration::from_millis(300);
    });
    followed.until_servers(&["127.0.0.1:1"]).await;
    replace(&path, &toml(&[]));
    let set = followed.until_problem("names no server any more").await;
    assert_eq!(addresses(&set), ["127.0.0.1:1"]);
    followed.until_servers(&[]).await;
    followed.stop().await;
}

#[tokio::test]
async fn the_last_known_servers_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (path, state) = (folder.path().join("app.toml"), folder.path().join("state.json"));
    fs::write(&path, toml(&[1, 2])).unwrap();
    let source = ServerSource::File(path.clone());
    let mut followed =
        FollowedSource::start(source.clone(), |config| config.settings.state_file = Some(state.clone()));
    followed.until_servers(&["127.0.0.1:1", "127.0.0.1:2"]).await;
    followed.stop().await;

    fs::remove_file(&path).unwrap();
    let mut followed =
        FollowedSource::start(source, |config| config.settings.state_file = Some(state.clone()));
    let set = followed.until("of before the restart", |_| true).await;
    assert_eq!((addresses(&set).len(), set.origin.is_stale), (2, true));
    // Either that it has not answered yet, or already that it cannot be read.
    assert!(set.origin.problem.is_some());
    fs::write(&path, toml(&[3])).unwrap();
    followed.until_servers(&["127.0.0.1:3"]).await;
    followed.stop().await;

    // Another source has other servers.
    let other = ServerSource::File(folder.path().join("other.toml"));
    let mut followed = FollowedSource::start(other, |config| config.settings.state_file = Some(state));
    let set = followed.until_problem("cannot be read").await;
    assert!(set.servers.is_empty());
    followed.stop().await;
}

#[tokio::test]
async fn a_new_config_leaves_a_source_alone_that_it_does_not_change() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one.toml"), folder.path().join("two.toml"));
    fs::write(&one, toml(&[1])).unwrap();
    fs::write(&two, toml(&[2])).unwrap();
    let mut followed = FollowedSource::start(ServerSource::File(one), |_| {});
    followed.until_servers(&["127.0.0.1:1"]).await;
    followed.config.sources.push(("other".into(), std::sync::Arc::new(ServerSource::File(two.clone()))));
    followed.configs.as_ref().unwrap().send(followed.config.clone()).unwrap();
    let set = followed.until("at all", |_| true).await;
    assert_eq!((&*set.upstream, addresses(&set)), ("other", vec!["127.0.0.1:2".to_owned()]));
    followed.config.sources.remove(0);
    followed.configs.as_ref().unwrap().send(followed.config.clone()).unwrap();
    fs::write(&two, toml(&[3])).unwrap();
    let set = followed.until("at all", |_| true).await;
    assert_eq!((&*set.upstream, addresses(&set)), ("other", vec!["127.0.0.1:3".to_owned()]));
    followed.stop().await;
}
