//! `weir serve` that fails to start or ends abnormally: its message and its exit code.

use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::process::Signal;

use crate::harness::scripts::echo_gated;
use crate::harness::{Client, Gate, Origin, Weir, WrittenConfig, eventually, run, temporary_folder};

#[test]
fn an_address_that_cannot_be_bound_is_reported_with_its_key() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let busy = taken.local_addr().expect("a bound socket has an address").to_string();
    let folder = temporary_folder();
    let file = folder.path().join("notes");
    std::fs::write(&file, "precious").expect("the folder is writable");
    let in_the_way = format!("unix:{}", file.display());
    for (address, trouble) in [
        (busy.as_str(), "another program has this address"),
        ("192.0.2.1:8080", "this machine has no such address"),
        ("unix:/nowhere/weir.sock", "the folder of the socket does not exist"),
        (in_the_way.as_str(), "a file that is no socket has this path"),
    ] {
        let config = WrittenConfig::new(&format!(
            "listener.web = {{ address = \"{address}\", upstream = \"app\" }}\nupstream.app.servers = [\"10.0.0.1:80\"]\n"
        ));
        let done = run(&["serve", config.path()]);
        assert_eq!(done.code, Some(1), "{done:?}");
        let key = format!("change `listener.web.address` in {}", config.path());
        for expected in ["error: ", "listener `web`", address, trouble, &key] {
            assert!(done.stderr.contains(expected), "{expected:?} is missing in:\n{}", done.stderr);
        }
        let done = run(&["serve", "--listen", address, "--to", "10.0.0.1:80"]);
        assert!(
            done.code == Some(1) && done.stderr.contains("choose another address with `--listen`"),
            "{done:?}"
        );
    }
    assert_eq!(std::fs::read_to_string(&file).expect("it is still there"), "precious");
}

#[test]
fn listening_for_no_server_asks_for_one() {
    let done = run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(done.code == Some(2) && done.stderr.contains("--to <ADDRESS>"), "{done:?}");
    assert!(!done.stderr.contains("<FILE>"), "a file cannot be beside it: {done:?}");
}

/// A port that is free on all addresses, and that the system does not assign: it chooses lower ones.
fn free_port() -> u16 {
    let first = 61_000 + (std::process::id() % 4_000) as u16;
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    (first..=u16::MAX).find(is_free).expect("few programs listen there")
}

/// As nginx has it: the more specific address gets its connections, the other one the rest.
#[test]
fn an_address_may_be_a_part_of_another() {
    let (all, near) = (Origin::serving("all"), Origin::serving("near"));
    for all_first in [true, false] {
        let free = free_port();
        let text = |near_host: &str| {
            let mut listeners = [
                format!("listener.all = {{ address = \":{free}\", upstream = \"all\" }}\n"),
                format!("listener.near = {{ address = \"{near_host}:{free}\", upstream = \"near\" }}\n"),
            ];
            if !all_first {
                listeners.reverse();
            }
            let [all, near] = [all.address(), near.address()];
            format!(
                "{}upstream.all.servers = [\"{all}\"]\nupstream.near.servers = [\"{near}\"]\n",
                listeners.concat()
            )
        };
        let at = |host: [u8; 4]| Client::get(SocketAddr::from((host, free)), "/").text();
        let weir = Weir::start(&text("127.0.0.1"));
        assert_eq!((at([127, 0, 0, 1]), at([127, 0, 0, 2])), ("near".to_owned(), "all".to_owned()));
        weir.reload(&text("127.0.0.3"));
        assert_eq!((at([127, 0, 0, 3]), at([127, 0, 0, 2])), ("near".to_owned(), "all".to_owned()));
        for taken in [format!(":{free}"), format!("127.0.0.3:{free}"), format!("127.0.0.9:{free}")] {
            let done = run(&["serve", "--listen", &taken, "--to", "10.0.0.1:80"]);
            assert!(
                done.code == Some(1) && done.stderr.contains("another program has this address"),
                "{done:?}"
            );
        }
    }
}

#[test]
fn mistakes_of_the_command_line_are_pointed_at() {
    let done = run(&["serve", "--listen", "8080", "--to", "10.0.0.1"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{done:?}");
    for expected in ["command line", "--listen 8080 --to 10.0.0.1", "2 errors"] {
        assert!(done.stderr.contains(expected), "{expected:?} is missing in:\n{}", done.stderr);
    }
    assert_eq!(run(&["serve"]).code, Some(2));
}

#[test]
fn warnings_are_shown_before_it_is_ready() {
    let origin = Origin::serving("app");
    let weir = Weir::proxying_with(&origin, "upstream.spare.servers = [\"10.0.0.1:80\"]");
    let stderr = weir.stderr();
    let place = |text: &str| stderr.find(text).unwrap_or_else(|| panic!("{text:?} is missing in:\n{stderr}"));
    assert!(
        place("spare") < place("listening listener=web") && place("1 warning") < place("ready"),
        "{stderr}"
    );
}

#[test]
fn a_second_signal_that_cuts_an_exchange_is_seen_in_the_exit_code() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/slow");
    let folder = temporary_folder();
    let text = format!(
        "process.stop_grace = \"1h\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    );
    let mut weir = Weir::start_in(folder, &text);
    let address = weir.web();
    let mut client = Client::connect(address);
    client.send_get("/slow");
    origin.wait_for_requests(1);
    weir.signal(Signal::INT);
    eventually("the first signal was taken", || TcpStream::connect(address).is_err());
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(3), "{}", weir.stderr());
    gate.open();
}

#[test]
fn it_refuses_what_check_refuses() {
    let file = WrittenConfig::new("[listener.web]\nadress = \"127.0.0.1:0\"\n");
    let done = run(&["serve", file.path()]);
    assert!(done.code.is_some_and(|code| code != 0), "{done:?}");
    assert!(done.stderr.contains("adress") && !done.stderr.contains("ready"), "{done:?}");
}

#[test]
fn it_needs_no_file() {
    let origins = [Origin::serving("one"), Origin::serving("two")];
    let servers = origins.each_ref().map(|origin| origin.address().to_string());
    let folder = temporary_folder();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--to", &servers[0], "--to", &servers[1]];
    let weir = Weir::start_with(folder, &arguments, "no file");
    let address = weir.only_address();
    let mut answers: Vec<String> = (0..10).map(|_| Client::get(address.clone(), "/").text()).collect();
    answers.sort();
    answers.dedup();
    assert_eq!(answers, ["one", "two"]);
}

#[test]
fn a_config_reads_the_environment_and_other_files() {
    let origin = Origin::serving("included");
    let folder = temporary_folder();
    std::fs::create_dir(folder.path().join("conf.d")).expect("the test owns the folder");
    let upstream = "[upstream.app]\nservers = [\"${WEIR_TEST_SERVER}\"]\n";
    std::fs::write(folder.path().join("conf.d/app.toml"), upstream).expect("the test owns the folder");
    let main = "include = \"conf.d/*.toml\"\n[listener.web]\naddress = \"127.0.0.1:0\"\nupstream = \"app\"\n";
    let weir =
        Weir::start_in_environment(folder, main, &[("WEIR_TEST_SERVER", &origin.address().to_string())]);
    assert_eq!(Client::get(weir.web(), "/").text(), "included");
}
