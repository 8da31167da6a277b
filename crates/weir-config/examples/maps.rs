//! Times of a map with a file of a million entries on this machine: `cargo run --profile dist -p weir-config --example maps`.
//!
//! How long the file takes to load, when it is read again as well, what the table takes in memory, and how long a lookup takes as the data path makes it:
//! the source is written out, looked up, and replaced by the value. With the argument `nginx`, it writes what nginx needs for the same into the folder and
//! ends.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use weir_config::{Config, OwnValue, TemplateFacts, TemplateValue, load_map};

const ENTRIES: u32 = 1_000_000;
const LOOKUPS: u32 = 10_000_000;

/// An exchange with a host.
struct Exchange<'a>(&'a str);

impl TemplateFacts for Exchange<'_> {
    fn count(&self, _: &TemplateValue) -> usize {
        1
    }

    fn write_nth(&self, value: &TemplateValue, _: usize, out: &mut Vec<u8>) {
        self.write_first(value, out);
    }

    fn write_first(&self, _: &TemplateValue, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

fn key(number: u32) -> String {
    format!("customer-{number}.shop.example.com")
}

/// The CPU time of the least of five rounds: other programs do not count, but for the caches that they empty.
fn least(mut round: impl FnMut()) -> Duration {
    let once = |_| {
        let before = cpu_time();
        round();
        cpu_time().saturating_sub(before)
    };
    (0..5).map(once).min().unwrap_or_default()
}

/// The CPU time of this process so far, in steps of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name of the program, in parentheses: user time and system time are the 12th and 13th.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn main() {
    let folder = std::env::temp_dir().join("weir-maps");
    std::fs::create_dir_all(&folder).expect("the folder of temporary files takes a folder");
    let lines = |end: &str| {
        let mut text = String::new();
        for number in 0..ENTRIES {
            writeln!(text, "{} backend-{}{end}", key(number), number % 1000).expect("a text takes text");
        }
        text
    };
    if std::env::args().nth(1).as_deref() == Some("nginx") {
        std::fs::write(folder.join("nginx.map"), lines(";")).expect("written");
        return;
    }
    std::fs::write(folder.join("hosts.map"), lines("")).expect("written");
    let config = format!(
        "map.backend = {{ source = \"{{host}}\", default = \"none\", file = \"{}\" }}\n\
         listener.web = {{ address = \":80\", route = [{{ respond = {{ body = \"{{map.backend}}\" }} }}] }}",
        folder.join("hosts.map").display()
    );
    let began = cpu_time();
    let config = Config::parse(&config, "weir.toml").expect("it is well-formed");
    println!(
        "a config with a map of {ENTRIES} hosts in a file is read in {} ms of CPU time",
        cpu_time().saturating_sub(began).as_millis()
    );
    let map: &OwnValue = config.maps.first().expect("there is one");
    let loaded = least(|| drop(black_box(load_map(map).expect("the file is well-formed"))));
    println!("its file is read again in {} ms of CPU time", loaded.as_millis());
    let definition = map.map().expect("it is a map");
    definition.begin(None);
    println!("it takes {} MB", definition.table().heap_bytes() / 1_000_000);
    println!("resident memory: {}", resident());
    let asked: Vec<String> =
        (0..65_536_u32).map(|number| key(number.wrapping_mul(2_654_435_761) % ENTRIES)).collect();
    let mut out = Vec::with_capacity(256);
    let spent = least(|| {
        for number in 0..LOOKUPS {
            out.clear();
            definition.write(&Exchange(&asked[(number % 65_536) as usize]), 0, &mut out);
            assert!(black_box(&out).starts_with(b"backend-"), "the host is known");
        }
    });
    println!("a lookup takes {} ns", spent.as_nanos() / u128::from(LOOKUPS));
}

/// What the process has in memory, as the kernel says.
fn resident() -> String {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or_default().trim().to_owned()
}
