//! Starts the proxy, and gives advice when the system refuses.

use std::io;
use std::path::Path;

use weir_config::Config;
use weir_control::{
    BoundListener, CommandSender, Handover, InheritedSockets, OpenedProxy, Proxy, StartError, why_refused,
    why_unbindable,
};

use crate::error::CommandError;
use crate::log;

/// The highest port that needs a privilege (`net.ipv4.ip_unprivileged_port_start`, as every distribution has it).
const PRIVILEGED_PORT_MAX: u16 = 1023;

/// The kernel's setting for TCP fast open, a set of bits for clients and for listening sockets.
const FAST_OPEN_ALLOWED: &str = "/proc/sys/net/ipv4/tcp_fastopen";

/// The bit for listening sockets.
const FAST_OPEN_SERVER: u32 = 2;

/// The source of the addresses: where they can be changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// This config.
    File(&'a Path),
    /// `weir serve --listen`.
    Arguments,
    /// Objects of Kubernetes.
    #[cfg(feature = "kubernetes")]
    Kubernetes,
    /// `weir demo --listen`.
    Demo,
}

/// Opens the addresses and the logs of a proxy: sockets of the supervisor are `inherited`, those of the process before are in `handover`.
///
/// # Errors
/// The error of the system, with advice.
pub(crate) fn open(
    config: &Config,
    inherited: InheritedSockets,
    handover: Handover,
    origin: Origin<'_>,
) -> Result<OpenedProxy, CommandError> {
    OpenedProxy::open(config, inherited, handover).map_err(|error| failed(error, origin))
}

/// Gives up the privileges that the process does not need any more; no thread runs yet.
///
/// # Errors
/// As [`open`].
pub(crate) fn give_up_privileges(config: &Config, origin: Origin<'_>) -> Result<(), CommandError> {
    weir_control::give_up_privileges(config).map_err(|error| failed(error, origin))
}

/// Notes that a listener takes connections, in the words that scripts wait for.
pub(crate) fn tell_listening(listened: &BoundListener) {
    log::note(&format!("listening listener={} address={}", listened.listener, listened.address));
}

/// Logs what the process may do.
pub(crate) fn tell_confinement() {
    let confined = weir_control::confinement();
    tracing::info!(
        user = confined.user,
        capabilities = confined.capabilities,
        files = confined.files,
        system_calls = confined.system_calls,
        "privileges of the process"
    );
}

/// Starts the proxy with what was opened for it; it accepts no connections yet.
///
/// # Errors
/// As [`open`].
pub(crate) fn proxy(
    config: &Config,
    opened: OpenedProxy,
    origin: Origin<'_>,
    commands: CommandSender,
) -> Result<Proxy, CommandError> {
    weir_proxy::net::memory::give_back_memory_by(crate::allocator::give_back);
    let proxy = Proxy::start_opened(config, opened, commands).map_err(|error| failed(error, origin))?;
    tell_descriptors(&proxy, config);
    tell_memory(&proxy, config);
    let allowed = std::fs::read_to_string(FAST_OPEN_ALLOWED).unwrap_or_default();
    if let Some(listener) = config.listeners.iter().find(|listener| listener.fast_open.is_some())
        && is_fast_open_forbidden(&allowed)
    {
        tracing::warn!(
            listener = &*listener.name,
            "`fast_open` has no effect: the kernel does not allow it; \
             `sysctl net.ipv4.tcp_fastopen=3` does, and so does any value with 2 in it"
        );
    }
    Ok(proxy)
}

/// Accepts connections, once what can be known of servers is known.
///
/// # Errors
/// As [`open`].
pub(crate) fn accept(proxy: &mut Proxy, origin: Origin<'_>) -> Result<(), CommandError> {
    proxy.accept().map_err(|error| failed(error, origin))
}

/// An error of the system, with advice.
pub(crate) fn failed(error: StartError, origin: Origin<'_>) -> CommandError {
    let help = help(&error, origin);
    CommandError::Failed { error: error.into(), help }
}

/// Logs the shares of the descriptors, and the settings for which they are not enough.
pub(crate) fn tell_descriptors(proxy: &Proxy, config: &Config) {
    let budget = proxy.descriptor_budget();
    tracing::info!("file descriptors: {budget}");
    for warning in budget.warnings(config) {
        tracing::warn!("{warning}");
    }
}

/// Logs the parts of the memory budget, and the settings for which it is not enough.
fn tell_memory(proxy: &Proxy, config: &Config) {
    let plan = proxy.memory_plan();
    tracing::info!("memory: {plan}");
    for warning in plan.warnings(config) {
        tracing::warn!("{warning}");
    }
}

/// The limit on open files of the process, and that of the machine, is reached (errno(3): EMFILE, ENFILE).
const NO_DESCRIPTOR: [i32; 2] = [24, 23];

/// Whether the kernel says that listening sockets are not allowed fast open.
fn is_fast_open_forbidden(allowed: &str) -> bool {
    allowed.trim().parse::<u32>().is_ok_and(|bits| bits & FAST_OPEN_SERVER == 0)
}

/// The advice.
pub(crate) fn help(error: &StartError, origin: Origin<'_>) -> Option<String> {
    match error {
        StartError::Bind { listener, address, error } => {
            let change = origin.change(&format!("listener.{listener}.address"));
            Some(help_for_address(error, address, &change))
        }
        StartError::BindAdmin { address, error } => {
            let change = origin.change("admin.address");
            Some(help_for_address(error, &address.to_string(), &change))
        }
        StartError::BindSocket { address, error } => {
            Some(help_for_address(error, address, &origin.change("admin.socket")))
        }
        StartError::PidFileTaken { pid, .. } => Some(format!(
            "stop that process, or, if it has nothing to do with Weir, {}; `ps {pid}` shows it",
            origin.change("process.pid_file")
        )),
        StartError::Names(_) => {
            Some("a server in `mode = \"maintenance\"` may have a name that is not there yet".to_owned())
        }
        StartError::PidFile { .. } => Some(origin.change("process.pid_file")),
        StartError::NotRoot { key, .. } => Some(format!(
            "start Weir as root, or have the supervisor start it as that user (`User=` of systemd) and {}",
            origin.change(&format!("process.{key}"))
        )),
        _ => None,
    }
}

impl Origin<'_> {
    /// Advice on choosing another address, as the end of a sentence.
    fn change(self, key: &str) -> String {
        match self {
            Origin::File(file) => format!("change `{key}` in {}", file.display()),
            Origin::Arguments => "choose another address with `--listen`".to_owned(),
            #[cfg(feature = "kubernetes")]
            Origin::Kubernetes => "choose another port for the listener of the Gateway".to_owned(),
            Origin::Demo => {
                "choose another address: `weir demo --listen 127.0.0.1:0` takes any free port".to_owned()
            }
        }
    }
}

fn help_for_address(error: &io::Error, address: &str, change: &str) -> String {
    if error.raw_os_error().is_some_and(|number| NO_DESCRIPTOR.contains(&number)) {
        return "raise the limit on open files (`ulimit -n`, `LimitNOFILE=` in systemd)".to_owned();
    }
    let is_unix = address.starts_with("unix:");
    let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let show = if is_unix { "ss -lxp" } else { "ss -ltnp" };
            format!("another program has this address (`{show}` shows which one): stop it, or {change}")
        }
        io::ErrorKind::PermissionDenied if port.is_some_and(|port| port <= PRIVILEGED_PORT_MAX) => why_unbindable().unwrap_or_else(|| format!(
            "ports up to {PRIVILEGED_PORT_MAX} need root or the capability CAP_NET_BIND_SERVICE: grant it, or {change}"
        )),
        io::ErrorKind::PermissionDenied if is_unix => {
            let path = Path::new(address.trim_start_matches("unix:"));
            why_refused(path)
                .unwrap_or_else(|| format!("this user may not create a socket in that folder: allow it, or {change}"))
        }
        io::ErrorKind::AddrNotAvailable => {
            let family = if address.starts_with('[') { "ipv6" } else { "ipv4" };
            format!(
                "this machine has no such address (`ip address` shows what it has): {change}; if it comes later, sysctl net.{family}.ip_nonlocal_bind=1 allows it now"
            )
        }
        io::ErrorKind::AlreadyExists if is_unix => {
            format!("a file that is no socket has this path: move it away, or {change}")
        }
        io::ErrorKind::NotFound if is_unix => {
            format!("the folder of the socket does not exist: create it, or {change}")
        }
        _ => change.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_whether_it_allows_fast_open() {
        for (allowed, forbidden) in [
            ("0\n", true),
            ("1\n", true),
            ("2\n", false),
            ("3\n", false),
            ("1027\n", false),
            ("4\n", true),
            ("", false),
        ] {
            assert_eq!(is_fast_open_forbidden(allowed), forbidden, "{allowed:?}");
        }
    }

    #[test]
    fn help_names_the_trouble_and_the_remedy() {
        let file = Origin::File(Path::new("weir.toml"));
        for (kind, address, origin, expected) in [
            (
                io::ErrorKind::AddrInUse,
                "127.0.0.1:8080",
                file,
                "another program has this address (`ss -ltnp` shows which one): stop it, or change `listener.web.address` in weir.toml",
            ),
            (
                io::ErrorKind::AddrInUse,
                "unix:/run/weir.sock",
                Origin::Arguments,
                "another program has this address (`ss -lxp` shows which one): stop it, or choose another address with `--listen`",
            ),
            (
                io::ErrorKind::AddrInUse,
                "127.0.0.1:8080",
                Origin::Demo,
                "another program has this address (`ss -ltnp` shows which one): stop it, or choose another address: `weir demo --listen 127.0.0.1:0` takes any free port",
            ),
            (
                io::ErrorKind::PermissionDenied,
                "[::]:80",
                file,
                "ports up to 1023 need root or the capability CAP_NET_BIND_SERVICE: grant it, or change `listener.web.address` in weir.toml",
            ),
            (
                io::ErrorKind::PermissionDenied,
                "unix:/run/weir.sock",
                file,
                "this user may not create a socket in that folder: allow it, or change `listener.web.address` in weir.toml",
            ),
            (
                io::ErrorKind::AddrNotAvailable,
                "192.0.2.1:80",
                file,
                "this machine has no such address (`ip address` shows what it has): change `listener.web.address` in weir.toml; if it comes later, sysctl net.ipv4.ip_nonlocal_bind=1 allows it now",
            ),
            (
                io::ErrorKind::NotFound,
                "unix:/run/none/weir.sock",
                file,
                "the folder of the socket does not exist: create it, or change `listener.web.address` in weir.toml",
            ),
            (io::ErrorKind::Other, ":80", file, "change `listener.web.address` in weir.toml"),
        ] {
            let error =
                StartError::Bind { listener: "web".into(), address: address.to_owned(), error: kind.into() };
            assert_eq!(help(&error, origin).as_deref(), Some(expected));
        }
        let error = io::Error::from_raw_os_error(24);
        let error = StartError::Bind { listener: "web".into(), address: "127.0.0.1:80".to_owned(), error };
        assert!(help(&error, file).is_some_and(|help| help.starts_with("raise the limit on open files")));
        let admin = StartError::BindAdmin {
            address: ([127, 0, 0, 1], 9000).into(),
            error: io::ErrorKind::AddrInUse.into(),
        };
        assert!(help(&admin, file).is_some_and(|help| help.ends_with("change `admin.address` in weir.toml")));
    }
}
