//! A web server as the origin: nginx or Apache with the lab's page as a file, so that every byte of an answer is compared as always.
//!
//! Has the one page only. It does not know the URLs of the lab's own origin.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;

use crate::installed::Installed;
use crate::origin::PAGE_LEN;
use crate::process::Job;
use crate::topology::product::Product;
use crate::topology::upstream::OriginKind;
use crate::wire::pattern;

/// Connections that it has room for.
const CONNECTIONS: u32 = 10_000;

/// Threads of Apache's one process; idle connections need none.
const THREADS: u32 = 128;

/// The product that plays `origin`; nothing for the lab's own.
pub(super) fn product(origin: OriginKind) -> Option<Product> {
    match origin {
        OriginKind::Own => None,
        OriginKind::Nginx => Some(Product::Nginx),
        OriginKind::Apache => Some(Product::Apache),
    }
}

/// Writes page and configuration into `dir`, for HTTP/2 by prior knowledge if `is_http2`, which nginx knows alone; returns the program to start.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn job(
    product: Product,
    installed: &Installed,
    listen: SocketAddr,
    is_http2: bool,
    dir: &Path,
) -> anyhow::Result<Job> {
    let page = dir.join("index.html");
    std::fs::write(&page, pattern::run(0, PAGE_LEN as usize)).context("the page of the origin")?;
    let (folder, file) = (dir.display(), dir.join("origin.conf"));
    let is_root = rustix::process::geteuid().is_root();
    let (text, args) = if product == Product::Nginx {
        let line = format!("-p {folder}/ -c {} -e {folder}/error.log", file.display());
        let args = line.split(' ').map(str::to_owned).chain(["-g", "daemon off;"].map(str::to_owned));
        (nginx(listen, is_http2, is_root), args.collect())
    } else {
        let line = format!("-d {folder} -f {} -DFOREGROUND", file.display());
        (apache(installed, listen, dir, is_root), line.split(' ').map(str::to_owned).collect())
    };
    std::fs::write(&file, text)?;
    Ok(Job { program: installed.program.clone(), args, log: dir.join("output.log"), ..Job::default() })
}

fn nginx(listen: SocketAddr, is_http2: bool, is_root: bool) -> String {
    let http2 = if is_http2 { " http2" } else { "" };
    let user = if is_root { "user root;\n" } else { "" };
    format!(
        "{user}worker_processes 1;
pid nginx.pid;
worker_rlimit_nofile {CONNECTIONS};
events {{ worker_connections {CONNECTIONS}; }}
http {{
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    open_file_cache max=16;
    default_type text/html;
    server {{
        listen {listen}{http2} backlog=4096;
        root .;
        location / {{ try_files /index.html =404; }}
    }}
}}
"
    )
}

fn apache(installed: &Installed, listen: SocketAddr, dir: &Path, is_root: bool) -> String {
    let user = if is_root { "User #65534\nGroup #65534\n" } else { "" };
    let modules: String = installed.module_folder.as_ref().map_or_else(String::new, |folder| {
        let line = |name| {
            let file = folder.join(format!("mod_{name}.so"));
            format!(
                "<IfModule !{name}_module>\n    LoadModule {name}_module {}\n</IfModule>\n",
                file.display()
            )
        };
        ["mpm_event", "unixd", "authz_core", "dir"].map(line).concat()
    });
    let dir = dir.display();
    format!(
        "{modules}{user}ServerName weir-lab.test
DefaultRuntimeDir {dir}
PidFile {dir}/apache.pid
ErrorLog {dir}/error.log
ServerLimit 1
StartServers 1
ThreadLimit {THREADS}
ThreadsPerChild {THREADS}
MaxRequestWorkers {THREADS}
MinSpareThreads 1
MaxSpareThreads {THREADS}
AsyncRequestWorkerFactor {}
ListenBacklog 4096
Listen {listen}
MaxKeepAliveRequests 0
KeepAliveTimeout 300
DocumentRoot {dir}
FallbackResource /index.html
DirectoryIndex index.html
",
        CONNECTIONS / THREADS
    )
}
