//! The program that sets and removes TXT records, for `dns-01`.
//!
//! It is started without a shell, gets an environment of its own, and nothing of Weir's: no variable, no socket. What it writes is kept for
//! the message when it fails.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use weir_config::DnsHook;
use weir_proxy::net::clock;

use super::delegation::RecordName;
use super::issuer::IssuanceError;
use crate::lifecycle::privileges;

/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The part of its output that a message shows.
const OUTPUT_BYTES_MAX: u64 = 2048;

/// Where programs of its own are found.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts it with `action`, the name that the record of `host` has, and its value behind its own arguments, and waits for its end.
///
/// # Errors
/// When it cannot be started, fails, or takes too long.
pub(super) async fn run(
    hook: &DnsHook,
    action: &str,
    host: &str,
    record: &RecordName,
    value: &str,
) -> Result<(), IssuanceError> {
    let [program, arguments @ ..] = &*hook.command else {
        return Err(IssuanceError::unreached("`dns_command` is empty"));
    };
    let failed = |what: String| IssuanceError::refused(format!("`{program} {action}` {what}"));
    let started = Command::new(&**program)
        .args(arguments.iter().map(|argument| &**argument))
        .args([action, &record.target, value])
        .env_clear()
        .envs([
            ("PATH", SEARCH_PATH),
            ("WEIR_ACME_ACTION", action),
            ("WEIR_ACME_HOST", host),
            ("WEIR_ACME_RECORD", &record.target),
            ("WEIR_ACME_CHALLENGE", &record.challenge),
            ("WEIR_ACME_VALUE", value),
        ])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|error| {
        let why = match error.kind() {
            // A reload has brought the command to a process that is confined.
            std::io::ErrorKind::PermissionDenied if privileges::filters_system_calls() => {
                ": the process is confined since its start (`process.sandbox`); restart Weir, which then starts without"
            }
            _ => "",
        };
        failed(format!("cannot be started: {error}{why}"))
    })?;
    let output = child.stderr.take().map(|mut pipe| {
        tokio::task::spawn_blocking(move || {
            let mut text = Vec::new();
            let _broken = pipe.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut text);
            // Else it would wait for a reader.
            let _broken = std::io::copy(&mut pipe, &mut std::io::sink());
            String::from_utf8_lossy(&text).trim().to_owned()
        })
    });
    let ended = wait(&mut child, hook.timeout).await?;
    let Some(status) = ended else {
        return Err(failed(format!("was ended: it has taken longer than {} s", hook.timeout.as_secs())));
    };
    if status.success() {
        return Ok(());
    }
    let said = match output {
        // A process that it left behind may hold the pipe.
        Some(output) => tokio::time::timeout(LOOK, output).await,
        None => return Err(failed(format!("failed with {status}"))),
    };
    match said {
        Ok(Ok(said)) if !said.is_empty() => Err(failed(format!("failed with {status}: {said}"))),
        _ => Err(failed(format!("failed with {status}"))),
    }
}

/// Waits for the end; `None` when it had to be ended, with all that it has started.
async fn wait(
    child: &mut Child,
    timeout: Duration,
) -> Result<Option<std::process::ExitStatus>, IssuanceError> {
    let end = clock::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if clock::now() >= end {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _gone = kill_process_group(group, Signal::KILL);
            }
            let _reaped = child.wait();
            return Ok(None);
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(script: &str, timeout: Duration) -> DnsHook {
        let command = ["/bin/sh", "-c", script, "hook"].map(Into::into).to_vec();
        DnsHook::new(command, timeout)
    }

    fn outcome(script: &str, timeout: Duration) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let hook = hook(script, timeout);
        let record = RecordName::direct("example.com");
        let ran = run(&hook, "present", "example.com", &record, "value-1");
        runtime.block_on(ran).map_err(|error| error.text)
    }

    #[test]
    fn it_gets_its_arguments_and_an_environment_of_its_own() {
        let script = r#"
            [ "$*" = "present _acme-challenge.example.com. value-1" ] || { echo "arguments: $*" >&2; exit 1; }
            [ "$WEIR_ACME_RECORD" = "_acme-challenge.example.com." ] || exit 2
            [ "$WEIR_ACME_CHALLENGE" = "_acme-challenge.example.com." ] || exit 2
            [ "$WEIR_ACME_HOST $WEIR_ACME_ACTION $WEIR_ACME_VALUE" = "example.com present value-1" ] || exit 3
            # What the shell adds itself is no inheritance.
            names=$(env | grep -o '^[A-Z_]*=' | grep -v '^\(WEIR_ACME_.*\|PATH\|PWD\|SHLVL\|_\|OLDPWD\)=$')
            [ -z "$names" ] || { echo "inherited: $names" >&2; exit 4; }
        "#;
        assert_eq!(outcome(script, Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn it_inherits_no_descriptor() {
        let _held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let script = r#"
            for fd in /proc/$$/fd/*; do
                case $(readlink "$fd") in socket:*|anon_inode:*) readlink "$fd" >&2; exit 1;; esac
            done
        "#;
        assert_eq!(outcome(script, Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn failures_say_what_it_has_said() {
        let error = outcome("echo the zone is locked >&2; exit 7", Duration::from_secs(60)).unwrap_err();
        assert!(error.contains("exit status: 7: the zone is locked"), "{error}");
        assert!(error.starts_with("`/bin/sh present` failed"), "{error}");
        let error = outcome("sleep 600", Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("was ended"), "{error}");
    }
}
