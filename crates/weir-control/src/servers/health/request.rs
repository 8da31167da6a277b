//! The request of an HTTP probe, written once per server.

use weir_config::{HttpProbe, ServerAddress};
use weir_http::Version;
use weir_http::http1::write;

/// Whether a connection carries more than one probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeReuse {
    Yes,
    No,
}

/// The name of Weir unless the config has another.
pub(super) const USER_AGENT: &[u8] = concat!("weir-health/", env!("CARGO_PKG_VERSION")).as_bytes();

/// The bytes of the request. Unless the connection is `kept`, it tells the server to close it.
pub(super) fn write_request(probe: &HttpProbe, address: &ServerAddress, kept: ProbeReuse) -> Box<[u8]> {
    let mut out = Vec::with_capacity(256);
    write::request_line(&mut out, probe.method.as_bytes(), probe.path.exposed().as_bytes(), Version::Http11);
    write::field(&mut out, b"Host", authority(probe.host.as_deref(), address).as_bytes());
    if !probe.headers.iter().any(|(name, _)| &**name == "user-agent") {
        write::field(&mut out, b"User-Agent", USER_AGENT);
    }
    for (name, value) in &probe.headers {
        write::field(&mut out, name.as_bytes(), value.as_bytes());
    }
    // RFC 9110 section 8.6: methods that anticipate content say that there is none.
    if matches!(&*probe.method, "POST" | "PUT" | "PATCH") {
        write::field(&mut out, b"Content-Length", b"0");
    }
    if kept == ProbeReuse::No {
        write::field(&mut out, b"Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out.into()
}

/// The host of a probe.
pub(super) fn authority(host: Option<&str>, address: &ServerAddress) -> String {
    match (host, address) {
        (Some(host), _) => host.to_owned(),
        // A path is no host, and there must be one (RFC 9112 section 3.2).
        (None, ServerAddress::Unix(_)) => "localhost".to_owned(),
        (None, address) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(headers: &[(&str, &str)], method: &str, host: Option<&str>, address: &str) -> String {
        let mut probe = HttpProbe::new(method, "/healthz?full=1");
        probe.host = host.map(Into::into);
        let header = |(name, value): &(&str, &str)| (name.parse().unwrap(), value.parse().unwrap());
        probe.headers = headers.iter().map(header).collect();
        String::from_utf8(write_request(&probe, &address.parse().unwrap(), ProbeReuse::No).into_vec())
            .unwrap()
    }

    #[test]
    fn requests_are_whole_and_ask_for_the_close() {
        let usual = format!(
            "GET /healthz?full=1 HTTP/1.1\r\nHost: 10.0.0.1:80\r\nUser-Agent: weir-health/{}\r\nConnection: close\r\n\r\n",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(written(&[], "GET", None, "10.0.0.1:80"), usual);
        assert_eq!(
            written(&[("User-Agent", "probe"), ("x-a", "b")], "POST", Some("app.test"), "10.0.0.1:80"),
            "POST /healthz?full=1 HTTP/1.1\r\nHost: app.test\r\nuser-agent: probe\r\nx-a: b\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        assert!(written(&[], "HEAD", None, "unix:/run/app.sock").contains("\r\nHost: localhost\r\n"));
    }
}
