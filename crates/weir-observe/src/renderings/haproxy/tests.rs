//! Every form of every answer, from an overview that is made up here.

use std::collections::HashMap;
use std::time::Duration;

use super::columns::COLUMNS;
use super::*;
use crate::access_log::UnixMicros;
use crate::counters::counter::Level;
use crate::counters::memory::MemoryStats;
use crate::counters::stats::{ListenerStats, ReloadStats, ServerStats, UpstreamStats, WorkerStats};
use crate::failure::{Cause, Failure};
use crate::overview::*;
use crate::words::phase::Phase;

/// The header of HAProxy 2.6.12 as Debian 12 has it.
const HEADER: &str = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,weight,act,bck,chkfail,chkdown,lastchg,downtime,qlimit,pid,iid,sid,throttle,lbtot,tracked,type,rate,rate_lim,rate_max,check_status,check_code,check_duration,hrsp_1xx,hrsp_2xx,hrsp_3xx,hrsp_4xx,hrsp_5xx,hrsp_other,hanafail,req_rate,req_rate_max,req_tot,cli_abrt,srv_abrt,comp_in,comp_out,comp_byp,comp_rsp,lastsess,last_chk,last_agt,qtime,ctime,rtime,ttime,agent_status,agent_code,agent_duration,check_desc,agent_desc,check_rise,check_fall,check_health,agent_rise,agent_fall,agent_health,addr,cookie,mode,algo,conn_rate,conn_rate_max,conn_tot,intercepted,dcon,dses,wrew,connect,reuse,cache_lookups,cache_hits,srv_icur,src_ilim,qtime_max,ctime_max,rtime_max,ttime_max,eint,idle_conn_cur,safe_conn_cur,used_conn_cur,need_conn_est,uweight,agg_server_status,agg_server_check_status,agg_check_status,-,ssl_sess,ssl_reused_sess,ssl_failed_handshake,h2_headers_rcvd,h2_data_rcvd,h2_settings_rcvd,h2_rst_stream_rcvd,h2_goaway_rcvd,h2_detected_conn_protocol_errors,h2_detected_strm_protocol_errors,h2_rst_stream_resp,h2_goaway_resp,h2_open_connections,h2_backend_open_streams,h2_total_connections,h2_backend_total_streams,h1_open_connections,h1_open_streams,h1_total_connections,h1_total_streams,h1_bytes_in,h1_bytes_out,h1_spliced_bytes_in,h1_spliced_bytes_out,";

fn server(name: &str, status: ServerStatus) -> ServerOverview {
    ServerOverview {
        name: name.into(),
        address: "10.0.0.1:80".into(),
        endpoints: vec!["10.0.0.1:80".into()],
        status,
        since_ms: 90_000,
        why: "its probe failed: refused, \"again\"".into(),
        weight: 5,
        ramp_percent: 100,
        is_backup: false,
        is_last_resort: false,
        zone: None,
        metadata: Default::default(),
        max_requests: Some(7),
        in_flight: 2,
        deadline_in_ms: None,
        reuse_percent: None,
        response_time: Quantiles { count: 1, mean_us: Some(2500), ..Quantiles::default() },
        connect_time: Quantiles::default(),
        rates: EventRates::default(),
        failures: vec![NamedCount { name: "response", count: 3 }, NamedCount { name: "connect", count: 9 }],
        ejections: Vec::new(),
        probes: Some(ProbeOverview {
            passed: 1,
            failed: 2,
            failures: Vec::new(),
            last_us: 1500,
            check: "L7STS",
            changes: 3,
        }),
        stats: ServerStats {
            attempts: 11,
            attempts_open: Level { now: 2, peak: 4 },
            connect_errors: 9,
            bytes_in: 1000,
            bytes_out: 200,
            responses: [0, 10, 0, 0, 1],
            is_up: status != ServerStatus::Down,
            connections_open: Level { now: 3, peak: 5 },
            connections_idle: Level { now: 1, peak: 2 },
            ..ServerStats::default()
        },
    }
}

fn overview() -> Overview {
    let listener = ListenerOverview {
        name: "web".into(),
        addresses: vec!["0.0.0.0:80".into()],
        protocol: "http",
        has_tls: false,
        connections_max: None,
        maintenance: None,
        routes: Vec::new(),
        rates: EventRates::default(),
        history: RateHistory::default(),
        failures: vec![FailureCount {
            reason: "request-malformed",
            phases: vec!["request"],
            party: "client",
            count: 6,
        }],
        tls_handshakes: Vec::new(),
        stats: ListenerStats {
            connections: 21,
            connections_open: Level { now: 2, peak: 8 },
            requests: 12,
            ..ListenerStats::default()
        },
    };
    let upstream = UpstreamOverview {
        name: "app".into(),
        protocol: "http",
        balance: "least-requests".into(),
        when_full: "queue",
        servers_usable: 1,
        servers_total: 2,
        queue_length_max: 10,
        queue_time: Quantiles::default(),
        response_time: Quantiles::default(),
        rates: EventRates::default(),
        source: None,
        history: RateHistory::default(),
        failures: Vec::new(),
        retries: vec![NamedCount { name: "refused", count: 4 }],
        retries_refused: Vec::new(),
        affinity: Vec::new(),
        servers: vec![
            server("a", ServerStatus::Up),
            server("b", ServerStatus::Down),
            server("c", ServerStatus::Maintenance),
            ServerOverview {
                probes: None,
                address: "app.internal:81".into(),
                endpoints: Vec::new(),
                ..server("d", ServerStatus::Up)
            },
        ],
        stats: UpstreamStats {
            requests: 12,
            queue_length: Level { now: 1, peak: 3 },
            ..UpstreamStats::default()
        },
    };
    Overview {
        routes_from: Vec::new(),
        page: Default::default(),
        process: ProcessOverview {
            version: "1.2.3",
            name: "weir-1".into(),
            pid: 42,
            at_ms: 100_000,
            started_ms: 3_000,
            is_stopping: false,
            state: "serving",
            announcements: Vec::new(),
            is_watched: None,
            connections_open: Level { now: 2, peak: 8 },
            connections_max: 1000,
            open_files: 10,
            open_files_max: 4096,
            memory_bytes: 1,
            memory: MemoryStats::default(),
            access_log_lines_lost: 0,
            own_log_lines_lost: 0,
            allows_changes: true,
            confinement: Default::default(),
            panics: Vec::new(),
        },
        config: ReloadStats::default(),
        workers: vec![WorkerOverview {
            exchanges_rate: EventRate::default(),
            stats: WorkerStats { exchanges: 12, ..WorkerStats::default() },
        }],
        listeners: vec![listener],
        limits: Vec::new(),
        tables: Vec::new(),
        caches: Vec::new(),
        keys: Vec::new(),
        certificates: Vec::new(),
        upstreams: vec![upstream],
    }
}

/// The rows of a CSV by `pxname/svname`, each as column to value.
fn table(csv: &str) -> HashMap<String, HashMap<&str, &str>> {
    let mut lines = csv.lines();
    let columns: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
    lines
        .map(|line| {
            let values: Vec<&str> = line.split(',').collect();
            assert_eq!(values.len(), columns.len(), "{line}");
            let row: HashMap<_, _> = columns.iter().copied().zip(values).collect();
            (format!("{}/{}", row["pxname"], row["svname"]), row)
        })
        .collect()
}

#[test]
fn the_columns_are_those_of_haproxy_in_their_order() {
    let csv = stat(&overview(), &StatFilter::default(), StatForm::Text);
    assert_eq!(csv.lines().next(), Some(HEADER));
}

#[test]
fn each_row_has_its_known_values() {
    let csv = stat(&overview(), &StatFilter::default(), StatForm::Text);
    let table = table(&csv);
    for (row, expected) in [
        (
            "web/FRONTEND",
            "type=0 iid=2 sid=0 scur=2 smax=8 slim=1000 stot=21 ereq=6 status=OPEN mode=http qcur= weight=",
        ),
        (
            "app/a",
            "type=2 iid=3 sid=1 scur=2 smax=4 slim=7 stot=11 bin=200 bout=1000 econ=9 eresp=3 status=UP weight=5 uweight=5 lastchg=10 chkfail=2 chkdown=2 check_duration=1 rtime=2 addr=10.0.0.1:80 hrsp_2xx=10 used_conn_cur=2 srv_icur=1 cookie= agent_status=",
        ),
        ("app/b", "status=DOWN sid=2 check_status=L7STS"),
        ("app/c", "status=MAINT sid=3"),
        ("app/d", "sid=4 addr=app.internal:81 check_status= chkfail="),
        (
            "app/BACKEND",
            "type=1 iid=3 sid=0 qcur=1 qmax=3 scur=8 stot=12 wretr=4 status=UP act=2 bck=0 weight=10 algo=least-requests",
        ),
    ] {
        for pair in expected.split(' ') {
            let (column, value) = pair.split_once('=').unwrap();
            assert_eq!(table[row][column], value, "{row} {column}");
        }
    }
    assert_eq!(table["app/d"]["status"], "no check");
    assert_eq!(table["app/b"]["check_desc"], "its probe failed: refused; 'again'");
}

#[test]
fn filters_take_by_id_name_type_and_state() {
    let rows = |filter: &StatFilter| stat(&overview(), filter, StatForm::Text).lines().count() - 1;
    let all = StatFilter::default;
    assert_eq!(rows(&all()), 6);
    assert_eq!(rows(&StatFilter { proxy: Some(ProxyName::Id(2)), ..all() }), 1);
    assert_eq!(rows(&StatFilter { proxy: Some(ProxyName::Name("app".into())), ..all() }), 5);
    assert_eq!(rows(&StatFilter { types: 4, ..all() }), 4);
    assert_eq!(rows(&StatFilter { types: 3, ..all() }), 2);
    assert_eq!(rows(&StatFilter { proxy: Some(ProxyName::Id(3)), types: 4, server_id: 2, ..all() }), 1);
    assert_eq!(rows(&StatFilter { without_maintenance: true, ..all() }), 5);
    assert_eq!(rows(&StatFilter { only_up: true, ..all() }), 4);
    for id in [-7, 0, 1, 99, i64::MAX] {
        assert_eq!(rows(&StatFilter { proxy: Some(ProxyName::Id(id)), ..all() }), 0, "{id}");
    }
    assert!(StatFilter { proxy: Some(ProxyName::Name("missing".into())), ..all() }.is_vain(&overview()));
}

#[test]
fn typed_and_json_say_the_same_as_csv() {
    let overview = overview();
    let typed = stat(&overview, &StatFilter::default(), StatForm::Typed);
    assert!(typed.lines().any(|line| line == "F.2.0.0.pxname.1:KNS:str:web"), "{typed}");
    assert!(typed.lines().any(|line| line == "S.3.1.4.scur.1:MGP:u32:2"), "{typed}");
    assert!(typed.lines().any(|line| line == "B.3.0.17.status.1:SGP:str:UP"), "{typed}");
    let json: serde_json::Value =
        serde_json::from_str(&stat(&overview, &StatFilter::default(), StatForm::Json)).unwrap();
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), 6);
    let fields: usize = rows.iter().map(|row| row.as_array().unwrap().len()).sum();
    assert_eq!(fields, typed.lines().count());
    let first = &rows[0][0];
    assert_eq!(first["objType"], "Frontend");
    assert_eq!(first["tags"]["origin"], "Key");
    assert_eq!(first["value"]["value"], "web");
}

#[test]
fn tags_are_known_words() {
    for (name, tags) in COLUMNS {
        assert!(name == "-" || tags.len() == 3, "{name}");
    }
}

#[test]
fn info_has_the_fields_that_programs_require() {
    let text = info(&overview(), StatForm::Text);
    // Required by hatop.
    for line in [
        "Name: HAProxy",
        "Version: 2.6.12-weir-1.2.3",
        "Build info: Weir 1.2.3",
        "Release_date: -",
        "Nbproc: 1",
        "Process_num: 1",
        "Pid: 42",
        "Uptime: 0d 0h01m37s",
        "Uptime_sec: 97",
        "Maxconn: 1000",
        "CurrConns: 2",
        "CumReq: 12",
        "Maxpipes: 0",
        "PipesUsed: 0",
        "Tasks: 0",
        "Run_queue: 0",
        "node: weir-1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let typed = info(&overview(), StatForm::Typed);
    assert!(typed.lines().any(|line| line == "6.Pid.1:SGP:u32:42"), "{typed}");
    let json: serde_json::Value = serde_json::from_str(&info(&overview(), StatForm::Json)).unwrap();
    assert_eq!(json.as_array().unwrap().len(), typed.lines().count());
}

#[test]
fn the_state_of_servers_has_a_value_for_each_word_of_its_header() {
    let text = servers_state(&overview(), None).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("1"));
    let names = lines.next().unwrap().trim_start_matches("# ").split(' ').count();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(' ').collect()).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.len() == names), "{text}");
    assert_eq!(rows[0][..8], ["3", "app", "1", "a", "10.0.0.1", "2", "0", "5"]);
    assert_eq!(rows[2][5..7], ["0", "1"]);
    assert_eq!((rows[3][4], rows[3][17], rows[3][18]), ("-", "app.internal", "81"));
    assert_eq!(servers_state(&overview(), Some("missing")), None);
}

#[test]
fn the_connections_of_servers_are_told() {
    let text = servers_conn(&overview(), Some("app")).unwrap();
    assert_eq!(text.lines().nth(1), Some("app/a 3/1 10.0.0.1 80 - 0 2 5 5 0 1 -1 1 1"));
    assert_eq!(servers_conn(&overview(), Some("missing")), None);
}

#[test]
fn errors_are_counted_and_the_last_ones_told() {
    let row = ErrorRow {
        at: UnixMicros(99_000_000),
        number: "0-7".into(),
        listener: "web".into(),
        upstream: Some("app".into()),
        server: None,
        source: "192.0.2.7:4711".into(),
        request_id: b"an-id".to_vec(),
        request: b"GET /\x1b".to_vec(),
        took: Duration::from_millis(1500),
        failure: Failure::weir(Phase::Queue, Cause::TimedOut),
    };
    let text = errors(&overview(), &[row]);
    let expected = "\n\n[01/Jan/1970:00:01:39.000] frontend web: queue-timeout\n  backend app, server <NONE>, event #0-7, src 192.0.2.7:4711\n  \
                phase queue, party weir, after 1500 ms\n  request \"GET /\\x1b\", id an-id\n  ";
    assert!(text.contains(expected), "{text}");
    assert!(text.starts_with("Total events captured on [01/Jan/1970:00:01:40.000] : 6\n"), "{text}");
    assert!(text.contains("frontend web: 6 x request-malformed, by the client, in phase request"), "{text}");
    assert_eq!(backends(&overview()), "# name\napp\n");
}
