//! Keys of Weir 0.1 with a new name.

/// Keys that were renamed: the table as it is called now, the old name and the new one.
const RENAMED: [(&str, &str, &str); 19] = [
    ("admin", "hosts", "allowed_hosts"),
    ("traces", "follow", "accept"),
    ("traces", "queue", "queue_max"),
    ("listener.NAME", "allow", "lenient"),
    ("listener.NAME.limits", "requests_per_session", "requests_per_connection"),
    ("listener.NAME.request_id", "respond", "in_response"),
    ("listener.NAME.route.replace_regex", "with", "replacement"),
    ("listener.NAME.timeouts", "session", "connection_age"),
    ("upstream.NAME", "allow", "lenient"),
    ("upstream.NAME", "idle", "pool"),
    ("upstream.NAME", "persistence", "affinity"),
    ("upstream.NAME.affinity", "idle", "expire"),
    ("upstream.NAME.affinity", "lifetime", "max_age"),
    ("upstream.NAME.ejection", "time", "base_time"),
    ("upstream.NAME.ejection", "time_max", "max_time"),
    ("upstream.NAME.health", "interval_changing", "fast_interval"),
    ("upstream.NAME.pool", "connections_max", "idle_max"),
    ("upstream.NAME.queue", "own_server", "affinity_wait"),
    ("upstream.NAME.retry", "on_broken", "on_connection_error"),
];

/// The present name of a key of this table.
pub(in crate::key) fn new_name(table: &str, key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(path, old, _)| *path == table && *old == key).map(|(_, _, new)| *new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::sections;

    #[test]
    fn new_names_exist_and_old_ones_do_not() {
        for (path, old, new) in RENAMED {
            let section = sections().iter().find(|section| section.path == path).unwrap();
            assert!(section.key(new).is_some() && section.key(old).is_none(), "{path}: {old} -> {new}");
        }
    }
}
