//! `weir ctl memory`: the memory of the process against its budget, and what was given up for it.

use clap::Args;
use serde_json::Value;

use crate::error::CommandError;
use crate::output::shown;
use crate::running::admin_client::AdminClient;

/// How the memory is shown.
#[derive(Debug, Args)]
pub(crate) struct MemoryArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The memory of a running Weir.
pub(crate) fn show(client: &AdminClient, arguments: &MemoryArguments) -> Result<String, CommandError> {
    let memory: Value = serde_json::from_str(&client.get("/api/memory")?.accepted()?)?;
    Ok(if arguments.json { format!("{memory:#}\n") } else { text(&memory) })
}

fn text(memory: &Value) -> String {
    let mib = |bytes: &Value| format!("{:.1} MiB", bytes.as_f64().unwrap_or(0.0) / f64::from(1 << 20));
    let max = if memory["max_bytes"].is_u64() { mib(&memory["max_bytes"]) } else { "no limit".to_owned() };
    let mut text = format!("used     {} of {max}\n", mib(&memory["used_bytes"]));
    let group = &memory["cgroup"];
    if group.is_object() {
        text.push_str(&format!("cgroup   {} of {}\n", mib(&group["used_bytes"]), mib(&group["max_bytes"])));
    }
    let tcp = &memory["kernel_tcp"];
    if tcp.is_object() {
        text.push_str(&format!(
            "tcp      {} of {} in the kernel, all programs\n",
            mib(&tcp["used_bytes"]),
            mib(&tcp["max_bytes"])
        ));
    }
    text.push_str(&format!("step     {}\n", shown(&memory["step"])));
    text.push_str(&format!(
        "ended    {} idle, {} slow, {} refused\n",
        memory["idle_closed"], memory["slow_ended"], memory["refused"]
    ));
    for class in memory["classes"].as_array().into_iter().flatten() {
        text.push_str(&format!("  {:<12} {:>10}\n", shown(&class["name"]), mib(&class["bytes"])));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn memory_is_shown_by_use() {
        let memory = json!({
            "used_bytes": 10 << 20, "max_bytes": 256 << 20, "cgroup": { "used_bytes": 20 << 20, "max_bytes": 300 << 20 },
            "step": "idle", "idle_closed": 3, "slow_ended": 2, "refused": 1,
            "classes": [{ "name": "buffers", "bytes": 1 << 19 }, { "name": "other", "bytes": 0 }],
        });
        let expected = "\
used     10.0 MiB of 256.0 MiB
cgroup   20.0 MiB of 300.0 MiB
step     idle
ended    3 idle, 2 slow, 1 refused
  buffers         0.5 MiB
  other           0.0 MiB
";
        assert_eq!(text(&memory), expected);
        assert!(text(&json!({ "used_bytes": 1 })).starts_with("used     0.0 MiB of no limit\n"));
    }
}
