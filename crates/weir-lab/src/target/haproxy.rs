//! HAProxy's configuration, run in the foreground.
//!
//! Tuned by its configuration manual; as shipped follows Debian's `haproxy.cfg`.

use super::{Class, Description, Rendered};

pub(super) fn render(description: &Description<'_>) -> Rendered {
    let text = match description.class {
        Class::Tuned => tuned(description),
        Class::AsShipped => as_shipped(description),
    };
    let path = description.dir.join("haproxy.cfg");
    let args = vec!["-db".to_owned(), "-f".to_owned(), path.display().to_string()];
    Rendered { file: "haproxy.cfg", text, args }
}

fn tuned(description: &Description<'_>) -> String {
    let Description { listen, origin, clients, .. } = description;
    let connections = clients + 64;
    let reuse = if description.server_reuse {
        "    # By default the first request of each client connection opens a new one to the server; the manual allows
    # `always` where servers keep idle connections long, as this one does. Without it, short client connections
    # would never find an idle server connection.
    http-reuse always"
    } else {
        "    # The variant without reuse of server connections.
    http-reuse never
    option http-server-close"
    };
    format!(
        "global
    # One thread for the one CPU of the target, as the others have.
    nbthread 1
    # Room for the clients of the scenario; by default as many as descriptors allow, both sides counted.
    maxconn {connections}

defaults
    mode http
    maxconn {connections}
    # Keep-alive on both sides, no log and no checks are the defaults. Idle clients must not be closed while they
    # are counted, hence the long times.
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    timeout http-keep-alive 300s
    timeout http-request 20s
{reuse}
    # The client's address reaches the server, as the other targets pass it on.
    option forwardfor

frontend bench
    # The kernel's limit, so that a crowd that arrives at once is queued, not dropped.
    bind {listen} backlog 4096
    default_backend origin

backend origin
    server origin {origin}
"
    )
}

fn as_shipped(description: &Description<'_>) -> String {
    let Description { listen, origin, .. } = description;
    format!(
        "# Debian's haproxy.cfg, without what needs the system (syslog, chroot, user, admin socket, daemon), with a
# frontend and a backend.
global

defaults
    mode http
    option dontlognull
    timeout connect 5000
    timeout client 50000
    timeout server 50000

frontend bench
    bind {listen}
    default_backend origin

backend origin
    server origin {origin}
"
    )
}
