//! A failing case as a script of Python that needs the program and nothing else: the config, the files beside it, and on each connection the
//! bytes of the peers in the order in which they were sent.

use std::fmt::Write as _;
use std::path::Path;

use data_encoding::BASE64;

use crate::oracle::OracleFinding;
use crate::peer::{ConnectionTape, Label, Speaks, TapeEvent};
use crate::run::Observation;

/// What comes behind the data in every script.
const REPLAY: &str = include_str!("replay.py");

/// The script.
pub(crate) fn script(
    observation: &Observation,
    findings: &[OracleFinding],
    files: &Path,
) -> std::io::Result<String> {
    let mut text = format!(
        "#!/usr/bin/env python3\n# Case {}\n# Run it with the path of the program: python3 replay.py target/debug/weir\n",
        observation.case
    );
    for finding in findings {
        for line in finding.to_string().lines() {
            push(&mut text, format_args!("# {line}"));
        }
    }
    let mut config = observation.config.clone();
    for (name, address) in &observation.servers {
        config = config.replace(&address.to_string(), &format!("{{{name}}}"));
    }
    push(&mut text, format_args!("CONFIG = r'''\n{config}'''"));
    push(&mut text, format_args!("FILES = {{"));
    for entry in std::fs::read_dir(files)? {
        let entry = entry?;
        let content = BASE64.encode(&std::fs::read(entry.path())?);
        push(&mut text, format_args!("    {:?}: {content:?},", entry.file_name().to_string_lossy()));
    }
    push(&mut text, format_args!("}}\nSERVERS = {{"));
    for (name, _) in &observation.servers {
        push(&mut text, format_args!("    {name:?}: ["));
        let of_it = |record: &&ConnectionTape| record.label == Label::Server(name);
        observation.records.iter().filter(of_it).for_each(|record| push_record(&mut text, record));
        push(&mut text, format_args!("    ],"));
    }
    push(&mut text, format_args!("}}\nCLIENTS = ["));
    let clients = observation.records.iter().filter(|record| record.label == Label::Client);
    clients.for_each(|record| push_record(&mut text, record));
    push(&mut text, format_args!("]\n"));
    text.push_str(REPLAY);
    Ok(text)
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

/// A connection: whether it has TLS, the protocol, and its steps.
fn push_record(text: &mut String, record: &ConnectionTape) {
    let protocol = match record.speaks {
        Speaks::Http2 => "h2",
        // Python has no QUIC: the script says so.
        Speaks::Http3 => "h3",
        Speaks::Http1 | Speaks::Fastcgi => "http/1.1",
    };
    let tls = if record.has_tls { "True" } else { "False" };
    push(text, format_args!("        ({tls}, {protocol:?}, ["));
    let mut received = 0;
    for event in &record.events {
        match event {
            TapeEvent::Sent(bytes) => {
                push(text, format_args!("            ('send', {:?}),", BASE64.encode(bytes)));
            }
            TapeEvent::Received(bytes) => {
                received += bytes.len();
                push(text, format_args!("            ('wait', {received}),"));
            }
            TapeEvent::Ended(_) => push(text, format_args!("            ('wait-for-end',),")),
            TapeEvent::Finished => push(text, format_args!("            ('finish',),")),
            TapeEvent::Aborted => push(text, format_args!("            ('abort',),")),
            TapeEvent::Event(event) => push(text, format_args!("            ('event', {event:?}),")),
        }
    }
    push(text, format_args!("        ]),"));
}
