//! An API server of Kubernetes that does what tests tell it: lists, watches, writes with versions, outages, and a memory that ends.
//!
//! Plain HTTP on a loopback port, a thread for each connection.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

/// How long is waited for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plural, namespace and name.
type ObjectPlace = (String, String, String);

#[derive(Default)]
struct Cluster {
    version: u64,
    objects: BTreeMap<ObjectPlace, Value>,
    /// Version, kind of event, plural, namespace and object.
    events: Vec<(u64, &'static str, String, Value)>,
    /// Watches from before this version get 410.
    forgotten: u64,
    absent: BTreeSet<String>,
    /// Versions of kinds that it does not know, `/v1/referencegrants`.
    unknown: BTreeSet<String>,
    /// Kinds whose lists are not answered yet.
    held: BTreeSet<String>,
    is_down: bool,
    /// How many status writes are refused as conflicts.
    conflicts: usize,
    /// How many deletions are.
    refused_deletions: usize,
    /// Method and path of each write, with the status that was answered.
    writes: Vec<(String, u16)>,
    lists: usize,
    /// The kinds whose lists were asked for.
    listed: BTreeSet<String>,
    connections: Vec<TcpStream>,
}

/// The running server.
#[derive(Clone)]
pub(crate) struct ApiServer {
    address: SocketAddr,
    cluster: Arc<(Mutex<Cluster>, Condvar)>,
}

impl ApiServer {
    /// Without objects.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let server = Self { address, cluster: Arc::default() };
        let accepting = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut cluster = accepting.lock();
                if cluster.is_down {
                    continue;
                }
                cluster.connections.extend(stream.try_clone());
                drop(cluster);
                let serving = accepting.clone();
                std::thread::spawn(move || serving.serve(&stream));
            }
        });
        server
    }

    /// A file by which clients find it, in a folder.
    pub(crate) fn kubeconfig(&self, folder: &std::path::Path) -> PathBuf {
        let path = folder.join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "test", "user": {} }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        });
        std::fs::write(&path, config.to_string()).expect("the folder can be written");
        path
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.0.lock().expect("no thread panics with it")
    }

    fn edit<R>(&self, edit: impl FnOnce(&mut Cluster) -> R) -> R {
        let result = edit(&mut self.lock());
        self.cluster.1.notify_all();
        result
    }

    /// Waits until `check` says so.
    fn wait(&self, what: &str, check: impl Fn(&Cluster) -> bool) {
        let waited = self.cluster.1.wait_timeout_while(self.lock(), PATIENCE, |cluster| !check(cluster));
        assert!(!waited.expect("no thread panics with it").1.timed_out(), "{what}");
    }

    /// Creates or changes an object.
    pub(crate) fn apply(&self, plural: &str, object: Value) {
        self.edit(|cluster| cluster.put(plural, object));
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let place = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.edit(|cluster| cluster.remove(&place).expect("there is one"));
    }

    /// An object as it is now.
    pub(crate) fn object(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.lock().objects.get(&(plural.to_owned(), namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Waits until an object is as it should be.
    pub(crate) fn wait_for(&self, plural: &str, namespace: &str, name: &str, check: impl Fn(&Value) -> bool) {
        let place = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.wait(&format!("{plural} {namespace}/{name}"), |cluster| {
            cluster.objects.get(&place).is_some_and(&check)
        });
    }

    /// Waits until there is no such object.
    pub(crate) fn wait_for_absence(&self, plural: &str, namespace: &str, name: &str) {
        let place = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        self.wait(&format!("no {plural} {namespace}/{name}"), |cluster| {
            !cluster.objects.contains_key(&place)
        });
    }

    /// Does not know a kind, or does.
    pub(crate) fn set_absent(&self, plural: &str, is_absent: bool) {
        self.edit(|cluster| match is_absent {
            true => cluster.absent.insert(plural.to_owned()),
            false => cluster.absent.remove(plural),
        });
    }

    /// Does not know a version of a kind: `/v1/referencegrants`.
    pub(crate) fn forget_version(&self, path: &str) {
        self.edit(|cluster| cluster.unknown.insert(path.to_owned()));
    }

    /// Does not answer lists of a kind, or does.
    pub(crate) fn set_held(&self, plural: &str, is_held: bool) {
        self.edit(|cluster| match is_held {
            true => cluster.held.insert(plural.to_owned()),
            false => cluster.held.remove(plural),
        });
    }

    /// Ends all connections and takes no new ones, or does again.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.edit(|cluster| {
            cluster.is_down = is_down;
            for connection in cluster.connections.drain(..) {
                let _closed = connection.shutdown(Shutdown::Both);
            }
        });
    }

    /// Forgets what has happened so far: watches have to list anew.
    pub(crate) fn forget_events(&self) {
        self.edit(|cluster| {
            cluster.version += 1;
            cluster.forgotten = cluster.version;
            cluster.events.clear();
        });
    }

    /// Refuses so many writes of statuses as conflicts.
    pub(crate) fn refuse_writes(&self, count: usize) {
        self.edit(|cluster| cluster.conflicts = count);
    }

    /// Refuses so many deletions as conflicts.
    pub(crate) fn refuse_deletions(&self, count: usize) {
        self.edit(|cluster| cluster.refused_deletions = count);
    }

    /// The writes so far of paths that contain this, with the answers.
    pub(crate) fn writes(&self, part: &str) -> Vec<(String, u16)> {
        self.lock().writes.iter().filter(|(path, _)| path.contains(part)).cloned().collect()
    }

    /// The kinds that were listed.
    pub(crate) fn listed(&self) -> BTreeSet<String> {
        self.lock().listed.clone()
    }

    /// Waits until so many lists were asked for.
    pub(crate) fn wait_for_lists(&self, count: usize) {
        self.wait("lists", |cluster| cluster.lists >= count);
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader) {
            let (method, target) = (&request.method, &request.target);
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let is_unknown = self.lock().unknown.iter().any(|unknown| path.ends_with(&**unknown));
            let Some((place, is_status)) = place_of(path).filter(|_| !is_unknown) else {
                respond(stream, 404, &status(404));
                continue;
            };
            if query.split('&').any(|one| matches!(one, "watch=true" | "watch=1")) {
                self.watch(stream, &place, query);
                return;
            }
            let (code, answer) = match &**method {
                "GET" if place.2.is_empty() => self.list(&place, &Selected::new(query)),
                "GET" => self.object(&place.0, &place.1, &place.2).map_or((404, status(404)), |it| (200, it)),
                _ => self.edit(|cluster| {
                    let (code, answer) = cluster.write(&request, &place, is_status);
                    cluster.writes.push((format!("{method} {path}"), code));
                    (code, answer)
                }),
            };
            respond(stream, code, &answer);
        }
    }

    fn list(&self, place: &ObjectPlace, selected: &Selected) -> (u16, Value) {
        self.edit(|cluster| {
            cluster.lists += 1;
            cluster.listed.insert(place.0.clone());
        });
        self.wait("a held list is answered", |cluster| !cluster.held.contains(&place.0));
        let cluster = self.lock();
        if cluster.absent.contains(&place.0) {
            return (404, status(404));
        }
        let items: Vec<&Value> = cluster.of(place).filter(|object| selected.takes(object)).collect();
        let version = cluster.version.to_string();
        (
            200,
            json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": version }, "items": items }),
        )
    }

    fn watch(&self, mut stream: &TcpStream, place: &ObjectPlace, query: &str) {
        let selected = Selected::new(query);
        let since = query.split('&').find_map(|one| one.strip_prefix("resourceVersion="));
        let mut since: u64 = since.and_then(|text| text.parse().ok()).unwrap_or(0);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        if stream.write_all(head.as_bytes()).is_err() {
            return;
        }
        let mut cluster = self.lock();
        loop {
            if cluster.is_down {
                return;
            }
            let mut lines = String::new();
            let is_outdated = since < cluster.forgotten;
            if is_outdated {
                lines = format!("{}\n", json!({ "type": "ERROR", "object": status(410) }));
            }
            let seen = since;
            for (version, event, plural, object) in
                cluster.events.iter().filter(|(version, ..)| *version > seen)
            {
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                let is_in_place = *plural == place.0 && (place.1.is_empty() || place.1 == namespace);
                if is_in_place && selected.takes(object) {
                    lines.push_str(&format!("{}\n", json!({ "type": event, "object": object })));
                }
                since = *version;
            }
            if !lines.is_empty() {
                let sent = stream.write_all(format!("{:x}\r\n{lines}\r\n", lines.len()).as_bytes());
                if is_outdated {
                    let _closed = stream.write_all(b"0\r\n\r\n");
                    let _closed = stream.shutdown(Shutdown::Both);
                }
                if is_outdated || sent.is_err() {
                    return;
                }
                continue;
            }
            cluster = self.cluster.1.wait(cluster).expect("no thread panics with it");
        }
    }
}

impl Cluster {
    fn of(&self, place: &ObjectPlace) -> impl Iterator<Item = &Value> {
        let matches = |known: &ObjectPlace| known.0 == place.0 && (place.1.is_empty() || place.1 == known.1);
        self.objects.iter().filter(move |(known, _)| matches(known)).map(|(_, object)| object)
    }

    fn put(&mut self, plural: &str, mut object: Value) {
        self.version += 1;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(self.version.to_string());
        let place = (plural.to_owned(), text(&metadata["namespace"]), text(&metadata["name"]));
        let event = if self.objects.contains_key(&place) { "MODIFIED" } else { "ADDED" };
        self.events.push((self.version, event, plural.to_owned(), object.clone()));
        self.objects.insert(place, object);
    }

    fn remove(&mut self, place: &ObjectPlace) -> Option<Value> {
        let mut object = self.objects.remove(place)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.events.push((self.version, "DELETED", place.0.clone(), object.clone()));
        Some(object)
    }

    fn write(&mut self, request: &ApiRequest, place: &ObjectPlace, is_status: bool) -> (u16, Value) {
        let Ok(mut body) = serde_json::from_slice::<Value>(&request.body) else { return (400, status(400)) };
        let is_applied = request.content_type.contains("apply-patch");
        if request.method == "POST" || (is_applied && !self.objects.contains_key(place)) {
            body["metadata"]["namespace"] = json!(place.1);
            let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let place = (place.0.clone(), place.1.clone(), name);
            if self.objects.contains_key(&place) {
                return (409, status(409));
            }
            body["metadata"]["uid"] = json!(format!("uid-{}", self.version + 1));
            self.put(&place.0, body);
            return (201, self.objects[&place].clone());
        }
        let Some(known) = self.objects.get(place) else { return (404, status(404)) };
        let is_deletion = request.method == "DELETE";
        let wanted = if is_deletion { &body["preconditions"] } else { &body["metadata"] };
        let differs = |field: &str| !wanted[field].is_null() && wanted[field] != known["metadata"][field];
        let is_other = differs("resourceVersion") || (is_deletion && differs("uid"));
        if is_other || (is_status && self.conflicts > 0) {
            self.conflicts = self.conflicts.saturating_sub(usize::from(!is_other));
            if !is_other {
                // What makes a conflict is another write.
                let known = known.clone();
                self.put(&place.0, known);
            }
            return (409, status(409));
        }
        if is_deletion && self.refused_deletions > 0 {
            self.refused_deletions -= 1;
            return (409, status(409));
        }
        if is_deletion {
            return (200, self.remove(place).expect("it is there"));
        }
        let mut next = known.clone();
        match &*request.method {
            "PATCH" if is_status => {
                let mut status = body["status"].take();
                // It is a merge patch.
                if let Value::Object(fields) = &mut status {
                    fields.retain(|_, value| !value.is_null());
                }
                next["status"] = status;
            }
            "PATCH" => merge(&mut next, body),
            _ => next = body,
        }
        // As of the real one: what changes nothing is no event. Statuses are exempt, for tests that count their writes.
        if is_status || next != *known {
            self.put(&place.0, next);
        }
        (200, self.objects[place].clone())
    }
}

/// Changes what a patch names; lists are replaced.
fn merge(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                match value {
                    Value::Null => drop(object.remove(&key)),
                    value => merge(object.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        (object, patch) => *object = patch,
    }
}

/// What a list or a watch is restricted to: one label, and one name.
struct Selected {
    label: Option<(String, String)>,
    name: Option<String>,
}

impl Selected {
    fn new(query: &str) -> Self {
        let value = |key: &str| {
            let found = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
            let text = found.replace("%3D", "=").replace("%2F", "/");
            text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let name = value("fieldSelector").filter(|(field, _)| field == "metadata.name");
        Self { label: value("labelSelector"), name: name.map(|(_, name)| name) }
    }

    fn takes(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        self.label.as_ref().is_none_or(|(key, value)| metadata["labels"][key] == **value)
            && self.name.as_ref().is_none_or(|name| metadata["name"] == **name)
    }
}

/// Plural, namespace and name of a path, and whether it is the status.
fn place_of(path: &str) -> Option<(ObjectPlace, bool)> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let rest = match &parts[..] {
        ["api", _, rest @ ..] => rest,
        ["apis", _, _, rest @ ..] => rest,
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && rest[0] != "status" => (*namespace, rest),
        rest => ("", rest),
    };
    let plural = rest.first()?;
    let name = rest.get(1).copied().unwrap_or_default();
    Some((((*plural).to_owned(), namespace.to_owned(), name.to_owned()), rest.get(2) == Some(&"status")))
}

fn status(code: u16) -> Value {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        _ => "BadRequest",
    };
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": reason, "reason": reason, "code": code })
}

struct ApiRequest {
    method: String,
    target: String,
    content_type: String,
    body: Vec<u8>,
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<ApiRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut content_type) = (0, String::new());
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).ok().filter(|count| *count > 0)?;
        let field = field.trim_end().to_ascii_lowercase();
        if field.is_empty() {
            break;
        }
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if let Some(value) = field.strip_prefix("content-type:") {
            value.trim().clone_into(&mut content_type);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ApiRequest { method, target, content_type, body })
}

fn respond(mut stream: &TcpStream, code: u16, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let _gone = stream.write_all(format!("{head}{body}").as_bytes());
}
