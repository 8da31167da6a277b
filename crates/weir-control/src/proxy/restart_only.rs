//! Keys of the config that only a restart changes.

use std::sync::Arc;

use weir_config::{Admin, Config, Http3Key, LogSettings, Process, RecorderSettings};

/// The sections of a config that hold from the start of the process to its end, or partly so.
#[derive(Debug, Clone)]
pub(super) struct RestartOnly {
    process: Process,
    http3_keys: Vec<Arc<Http3Key>>,
    admin: Admin,
    log: LogSettings,
    recorder: RecorderSettings,
}

impl RestartOnly {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            process: config.process.clone(),
            http3_keys: config.http3_keys.clone(),
            admin: config.admin.clone(),
            log: config.log.clone(),
            recorder: config.recorder.clone(),
        }
    }

    /// The keys by which `config` differs and that nothing but a restart can change.
    pub(super) fn needs_restart(&self, config: &Config) -> Vec<&'static str> {
        let (process, next) = (&self.process, &config.process);
        let secrets = |keys: &[Arc<Http3Key>]| keys.iter().map(|key| key.secret.clone()).collect::<Vec<_>>();
        [
            ("process.workers", process.workers != next.workers),
            ("process.pin_workers", process.pin_workers != next.pin_workers),
            ("process.buffer_size", process.buffer_size != next.buffer_size),
            ("process.buffers_max", process.buffers_max != next.buffers_max),
            ("process.name", process.name != next.name),
            ("process.user", process.user != next.user),
            ("process.group", process.group != next.group),
            ("process.chroot", process.chroot != next.chroot),
            ("process.pid_file", process.pid_file != next.pid_file),
            ("process.sandbox", process.sandbox != next.sandbox),
            ("process.keepalived", process.keepalived != next.keepalived),
            ("process.bird", process.bird != next.bird),
            ("process.frozen_after", process.frozen_after != next.frozen_after),
            // The files may be the same, and have other keys.
            ("process.http3_keys", secrets(&self.http3_keys) != secrets(&config.http3_keys)),
            ("log", self.log != config.log),
            ("admin.address", self.admin.address != config.admin.address),
            ("admin.socket", self.admin.socket != config.admin.socket),
            ("admin.socket_mode", self.admin.socket_mode != config.admin.socket_mode),
            ("recorder", self.recorder != config.recorder),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_config::{ChangeKind, CheckedConfig, ConfigDiff, Effect};

    use super::*;

    #[test]
    fn a_plan_and_a_reload_agree_on_what_needs_a_restart() {
        let rest = "listener.web = { address = \":0\", upstream = \"app\" }\nupstream.app.servers = [\"127.0.0.1:1\"]\n";
        let file = std::env::temp_dir().join(format!("weir-restart-only-{}", std::process::id()));
        std::fs::write(&file, (0..80).collect::<Vec<u8>>()).expect("it is a folder for that");
        let text = format!(
            "process = {{ workers = 3, pin_workers = true, buffer_size = \"8KiB\", buffers_max = 99, name = \"n\", reload_grace = \"1s\", \
             connections_max = 9, user = \"0\", group = \"0\", chroot = \"/\", pid_file = \"p\", sandbox = \"off\", \
             keepalived = {{ track_file = \"/t\" }}, bird = {{ protocol = \"b\" }}, frozen_after = \"1s\", http3_keys = [{file:?}] }}\nlog = {{ level = \"warn\", format = \"json\" }}\nrecorder = {{ exchanges = 1, failures = 2 }}\n\
             admin = {{ address = \"127.0.0.1:1\", changes = true, socket = \"unix:/a\", socket_mode = \"0660\", socket_changes = true }}\n\
             dns.timeout = \"1s\"\naccess_log.format = \"json\"\n{rest}"
        );
        let (before, after) =
            (CheckedConfig::parse(rest, "old.toml"), CheckedConfig::parse(&text, "new.toml"));
        let difference = ConfigDiff::between(&before, &after);
        let of_sections = ["log", "recorder"];
        let of_tables = ["process.keepalived", "process.bird"];
        let mut planned = BTreeSet::new();
        for change in &difference.changes {
            let ChangeKind::Changed(keys) = &change.kind else { continue };
            for key in keys.iter().filter(|key| key.effect == Effect::Restart) {
                let section = change.part.kind();
                let whole = of_sections.contains(&section);
                let key = if whole { section.to_owned() } else { format!("{section}.{}", key.key) };
                let table = of_tables.into_iter().find(|table| key.starts_with(&format!("{table}.")));
                planned.insert(table.map_or(key, str::to_owned));
            }
        }
        let valid = |checked: CheckedConfig| checked.into_result().expect("it has no mistake");
        let restart_only = RestartOnly::new(&valid(before));
        let needed: BTreeSet<String> =
            restart_only.needs_restart(&valid(after)).into_iter().map(str::to_owned).collect();
        std::fs::remove_file(&file).expect("it was just written");
        assert_eq!(planned, needed);
    }
}
