//! From the text of a simulation file to a [`Model`], or to all of its mistakes at once.

use std::collections::HashSet;

use toml::de::DeTable;
use weir_stats::distribution::Distribution;

use super::upstream::read_upstream;
use super::value::{FromValue as _, ServerRange, TimeValue};
use super::{
    Arrivals, BALANCERS_MAX, ClassLoad, ClientClass, Model, SECOND, SERVERS_MAX, ServerAction, ServerEvent,
    ServerGroup, SlowRequests, UpstreamModel, Variant, error,
};
use crate::model::distribution_table::objection_to_service;
use crate::model::error::ModelError;
use crate::model::table_reader::{ModelErrors, Occurrence, TableReader};

/// The most clients of one class.
const CLIENTS_MAX: u64 = 1_000_000;

/// Reads `text`, the content of the file at `path`.
///
/// # Errors
/// All mistakes, rendered for people: file, line, column, cause and hint.
pub(crate) fn read(path: &str, text: &str) -> Result<Model, String> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut mistakes: Vec<ModelError> = errors
        .iter()
        .map(|error| ModelError {
            span: error.span().unwrap_or(0..0),
            what: error.message().lines().next().unwrap_or("this is no TOML").to_owned(),
            hint: None,
        })
        .collect();
    if !mistakes.is_empty() {
        return Err(error::render(path, text, &mut mistakes));
    }
    let found = ModelErrors::default();
    let model = read_model(TableReader::new("the file", document.get_ref(), 0..0, &found));
    let mut found = found.into_inner();
    if found.is_empty() { Ok(model) } else { Err(error::render(path, text, &mut found)) }
}

fn read_model(file: TableReader<'_>) -> Model {
    let question = file.required("question", String::new());
    let length = file.required("length", TimeValue(SECOND)).0;
    let warm_up = file.or("warm_up", TimeValue(0)).0;
    if warm_up >= length {
        let hint = Some("the warm-up is a part of the length".to_owned());
        file.mistake(file.span_of("warm_up"), "nothing is left after the warm-up".to_owned(), hint);
    }
    let balancers = file.within("balancers", (1, BALANCERS_MAX), 1) as u32;
    let groups = file.sections("servers", "server group", Occurrence::AtLeastOne);
    let servers: Vec<ServerGroup> = groups.into_iter().map(read_servers).collect();
    let count: u64 = servers.iter().map(|group| u64::from(group.count)).sum();
    if count > SERVERS_MAX {
        let what = format!("these are {count} servers; {SERVERS_MAX} are the most");
        file.mistake(file.span_of("servers"), what, None);
    }
    let clients = file.sections("clients", "class of clients", Occurrence::AtLeastOne);
    let clients: Vec<ClientClass> = named(clients, "clients", read_clients);
    let events = file.sections("event", "event", Occurrence::Any);
    let mut events: Vec<ServerEvent> = events.into_iter().map(|event| read_event(event, count)).collect();
    events.sort_by_key(|event| event.at);
    let base = file.section("upstream", "`upstream`").map_or_else(UpstreamModel::default, |section| {
        let upstream = read_upstream(&section, &UpstreamModel::default());
        section.finish();
        upstream
    });
    let variants = file.sections("variant", "variant", Occurrence::AtLeastOne);
    let variants = named(variants, "variant", |section| read_variant(section, &base));
    file.finish();
    Model { question, length, warm_up, balancers, servers, clients, events, variants }
}

/// Reads sections that must have names of their own.
fn named<T>(
    sections: Vec<TableReader<'_>>,
    what: &str,
    mut read: impl FnMut(TableReader<'_>) -> T,
) -> Vec<T> {
    let mut names = HashSet::new();
    let mut items = Vec::new();
    for section in sections {
        if let Some(name) = section.optional::<String>("name")
            && !names.insert(name.clone())
        {
            let hint = Some("each needs a name of its own, for the report".to_owned());
            section.mistake(section.span_of("name"), format!("there is another {what} `{name}`"), hint);
        }
        items.push(read(section));
    }
    items
}

fn read_servers(section: TableReader<'_>) -> ServerGroup {
    let slots = section.or_off("slots", Some(1_u64));
    let speed = section.or("speed", 1.0);
    if speed == 0.0 {
        let hint = Some("a server that does nothing is an `event` with `action = \"hang\"`".to_owned());
        section.mistake(section.span_of("speed"), "a speed is above 0".to_owned(), hint);
    }
    if slots == Some(0) {
        let hint = Some("write 1 or more, or \"off\" for a server without limit".to_owned());
        section.mistake(section.span_of("slots"), "a server without slots never answers".to_owned(), hint);
    }
    let group = ServerGroup {
        count: section.within("count", (1, SERVERS_MAX), 1) as u32,
        slots: slots.map(|slots| u32::try_from(slots).unwrap_or(u32::MAX)),
        speed,
        weight: section.within("weight", (0, 256), 1) as u32,
    };
    section.finish();
    group
}

fn read_clients(section: TableReader<'_>) -> ClientClass {
    let class = ClientClass {
        name: section.required("name", String::new()),
        count: section.within("count", (1, CLIENTS_MAX), 1) as u32,
        load: read_load(&section),
        service: read_service(&section, "service"),
        slow: section.section("slow", "`slow`").map(|section| {
            let one_in = section.within("one_in", (1, u64::from(u32::MAX)), 100) as u32;
            let slow = SlowRequests { one_in, service: read_service(&section, "service") };
            section.finish();
            slow
        }),
        priority: section.or("priority", weir_traffic::queue::PriorityClass::Normal),
        idempotent: section.or("idempotent", true),
        patience: section.or_off("patience", None).map(|time: TimeValue| time.0),
        in_time: section.or_off("in_time", None).map(|time: TimeValue| time.0),
    };
    section.finish();
    class
}

fn read_service(section: &TableReader<'_>, key: &'static str) -> Distribution {
    let service = section.required(key, Distribution::Constant(SECOND));
    if let Some(objection) = objection_to_service(&service) {
        section.mistake(section.span_of(key), objection.to_owned(), Some(Distribution::example(key)));
    }
    service
}

fn read_load(section: &TableReader<'_>) -> ClassLoad {
    let open = section.has("rate");
    let misplaced: &[&'static str] =
        if open { &["think", "pause_after_failure"] } else { &["arrivals", "steps"] };
    for key in misplaced {
        if section.has(key) {
            let (what, hint) = if open {
                ("clients that have a `rate` do not wait for answers", "leave out one of both")
            } else {
                ("clients without a `rate` send their next request after the answer", "give a `rate`")
            };
            section.mistake(
                section.span_of(key),
                format!("`{key}` has no place here: {what}"),
                Some(hint.to_owned()),
            );
        }
    }
    if !open {
        let think = section.or("think", Distribution::Constant(0));
        let pause = section.or("pause_after_failure", TimeValue(SECOND)).0;
        if pause == 0 {
            let hint = Some("write for example \"100ms\"".to_owned());
            let what = "without a pause, a client whose requests fail at once never lets time pass";
            section.mistake(section.span_of("pause_after_failure"), what.to_owned(), hint);
        }
        return ClassLoad::Closed { think, pause };
    }
    let mut rates = vec![(0, section.or("rate", 1.0))];
    for step in section.sections("steps", "step", Occurrence::Any) {
        let at = step.required("at", TimeValue(0)).0;
        let rate = step.required("rate", 1.0);
        if rates.last().is_some_and(|(before, _)| at <= *before) {
            let hint = Some("write the steps in the order of their times, the first after 0".to_owned());
            step.mistake(step.span_of("at"), "this step is not after the one before".to_owned(), hint);
        }
        step.finish();
        rates.push((at, rate));
    }
    if rates.iter().all(|(_, rate)| *rate == 0.0) {
        section.mistake(section.span_of("rate"), "with a rate of 0 no request ever comes".to_owned(), None);
    }
    ClassLoad::Open { arrivals: section.or("arrivals", Arrivals::Poisson), rates }
}

fn read_event(section: TableReader<'_>, servers: u64) -> ServerEvent {
    let at = section.required("at", TimeValue(0)).0;
    let ServerRange { first, last } = section.required("servers", ServerRange { first: 0, last: 0 });
    if u64::from(last) >= servers && servers > 0 {
        let hint = Some(format!("there are {servers} servers, counted from 0"));
        section.mistake(section.span_of("servers"), format!("there is no server {last}"), hint);
    }
    let factor = section.optional::<f64>("factor");
    let mut action = section.required("action", ServerAction::Recover);
    if matches!(action, ServerAction::Slow(_)) != factor.is_some() {
        let what = if factor.is_some() { "only `slow` has a `factor`" } else { "`slow` needs a `factor`" };
        let hint =
            "write `action = \"slow\"` and how many times as long everything takes, such as `factor = 10`";
        section.mistake(section.span_of("factor"), what.to_owned(), Some(hint.to_owned()));
    }
    if let (ServerAction::Slow(slow), Some(factor)) = (&mut action, factor) {
        *slow = factor;
        if factor == 0.0 {
            let hint = Some("write for example `factor = 10`".to_owned());
            section.mistake(section.span_of("factor"), "a factor is above 0".to_owned(), hint);
        }
    }
    section.finish();
    ServerEvent { at, first, last, action }
}

fn read_variant(section: TableReader<'_>, base: &UpstreamModel) -> Variant {
    let name = section.required("name", String::new());
    let upstream = read_upstream(&section, base);
    section.finish();
    Variant { name, upstream }
}
