//! The configs that many tests start from: one listener `web`, one upstream `app`, and an admin listener.
//!
//! A test adds the keys it is about, so that these stand out in it. All keys are dotted, one a line, so that more can follow.

use super::origin::Origin;

/// A config with an admin listener and the listener `web` in front of the upstream `app` with these `servers`, each an entry as
/// [`Origin::entry`] or [`Origin::named`] writes it; then `settings`.
pub(crate) fn config_with(servers: &[String], settings: &str) -> String {
    let servers = servers.join(", ");
    format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [{servers}]\n{settings}\n"
    )
}

/// [`config_with`] for origins without names, and `keys` of their upstream.
pub(crate) fn config_of(origins: &[Origin], keys: &str) -> String {
    config_with(&entries(origins), &of_upstream(keys))
}

/// These `keys`, one a line, as keys of the upstream `app`.
pub(crate) fn of_upstream(keys: &str) -> String {
    keys.lines().map(|key| format!("upstream.app.{}\n", key.trim_start())).collect()
}

/// An entry for each origin, without a name.
pub(crate) fn entries(origins: &[Origin]) -> Vec<String> {
    origins.iter().map(Origin::entry).collect()
}

/// The listener `web` in front of one origin and nothing else.
pub(crate) fn minimal(origin: &Origin) -> String {
    format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [{}]\n",
        origin.entry()
    )
}
