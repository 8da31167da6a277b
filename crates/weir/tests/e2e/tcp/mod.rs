//! TCP listeners: bytes in both directions, to the server that routes, balancer and queue choose.
//!
//! Tunnels that HTTP/1 opens with `Upgrade` or CONNECT belong to `http1`.

mod relay;
mod servers;
mod limits;

use crate::harness::Origin;

/// A Weir with a TCP listener and one upstream.
fn config(servers: &[&str], upstream: &str, listener: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "admin.address = \"127.0.0.1:0\"\n\
         [listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\nupstream = \"app\"\n{listener}\n\
         access_log = {{ format = \"{{listener}} {{upstream}} {{server}} {{attempts}} {{bytes_in}} {{bytes_out}} {{ended_by}} {{reason}}\", \
         output = \"file:{{dir}}/access.log\" }}\n\
         [upstream.app]\nservers = [{}]\n{upstream}\n",
        servers.join(", ")
    )
}

fn address(origin: &Origin) -> String {
    origin.address().to_string()
}

/// A server that greets before it is asked, then returns each byte increased by one, to the end of the client.
fn echo() -> Origin {
    Origin::start(|conn| {
        conn.send("hello")?;
        let mut buf = [0; 4096];
        while let Some(len) = conn.skim(&mut buf).filter(|len| *len > 0) {
            let answer: Vec<u8> = buf[..len].iter().map(|byte| byte.wrapping_add(1)).collect();
            conn.send(answer)?;
        }
        Some(())
    })
}
