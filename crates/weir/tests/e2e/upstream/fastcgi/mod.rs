//! Servers of FastCGI: what they are told, what they answer, what goes wrong with them, and PHP itself.

mod caching;
mod failures;
mod health;
mod php;
mod requests;
mod responses;
mod scripts;
mod wordpress;

use std::fs;
use std::sync::mpsc;

use tempfile::TempDir;

use crate::harness::fastcgi::{FastcgiRequest, response};
use crate::harness::{Origin, Weir, config_with, temporary_folder};

/// A page that a script writes.
const PAGE: &str = "Content-Type: text/plain\r\n\r\nhello";

/// An origin that answers each request with what `answer` makes of it, and closes the connection behind that unless it is to be kept; and the
/// requests as they come.
fn server(
    answer: impl Fn(&FastcgiRequest) -> Vec<u8> + Send + Sync + 'static,
) -> (Origin, mpsc::Receiver<FastcgiRequest>) {
    let (requests, received) = mpsc::channel();
    let origin = Origin::start(move |conn| {
        loop {
            let request = FastcgiRequest::read(conn)?;
            let (answer, keeps_connection) = (answer(&request), request.keeps_connection);
            let _gone = requests.send(request);
            conn.send(answer)?;
            if !keeps_connection {
                return Some(());
            }
        }
    });
    (origin, received)
}

/// The same with one page.
fn page_server(output: &'static str) -> (Origin, mpsc::Receiver<FastcgiRequest>) {
    server(move |_| response(output))
}

/// A site in the folder `site`.
fn site() -> TempDir {
    let folder = temporary_folder();
    let site = folder.path().join("site");
    for path in ["admin", "upload", "empty"] {
        fs::create_dir_all(site.join(path)).expect("the folder takes folders");
    }
    for (path, content) in [
        ("index.php", "<?php secret"),
        ("about.php", "<?php secret"),
        ("admin/index.php", "<?php secret"),
        ("upload/image.jpg", "<?php evil"),
        ("UPPER.PHP", "<?php secret"),
        ("style.css", "p {}"),
    ] {
        fs::write(site.join(path), content).expect("the folder takes files");
    }
    folder
}

/// Weir in front of `origin`, with a route for everything that has these keys, in a folder with a site.
fn start(origin: &Origin, route: &str, upstream: &str) -> Weir {
    let settings = format!(
        "upstream.app.protocol = \"fastcgi\"\n{upstream}\n\
         [[listener.web.route]]\nupstream = \"app\"\n{route}\n"
    );
    let text = config_with(&[origin.entry()], &settings).replace("listener.web.upstream = \"app\"\n", "");
    Weir::start_in(site(), &text)
}
