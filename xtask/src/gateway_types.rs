//! `cargo xtask gateway-types`: the types of the Gateway API for `weir-gateway`, from its resource definitions.
//!
//! Routes of HTTP and gRPC and Gateways come from the experimental channel, whose definitions have all fields of the standard one: a cluster
//! with the latter never sends the others. Experimental fields that Weir cannot apply have to be known to be refused.
//!
//! The definitions are a Go module, which the Go program fetches and verifies; only structure is taken from them, no text. The result is
//! committed: nothing else needs Go or a network for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

const MODULE: &str = "sigs.k8s.io/gateway-api";
const VERSION: &str = "v1.6.3";
const USE_SHARED_TEXT: &str = "use super::shared_text::SharedText;\n";
const USE_SHARED_VALUE: &str = "use super::shared_value::SharedValue;\n";
const LIMIT: Duration = Duration::from_secs(5 * 60);
const FOLDER: &str = "crates/weir-gateway/src/api";

/// The kinds, their definitions, the file of each.
const KINDS: [(&str, &str, &str); 9] = [
    ("GatewayClass", "gatewayclasses", "gateway_class"),
    ("Gateway", "gateways", "gateway"),
    ("ListenerSet", "listenersets", "listener_set"),
    ("HttpRoute", "httproutes", "http_route"),
    ("GrpcRoute", "grpcroutes", "grpc_route"),
    ("TlsRoute", "tlsroutes", "tls_route"),
    ("TcpRoute", "tcproutes", "tcp_route"),
    ("ReferenceGrant", "referencegrants", "reference_grant"),
    ("BackendTlsPolicy", "backendtlspolicies", "backend_tls_policy"),
];

/// The kinds whose experimental fields are read.
const EXPERIMENTAL: [&str; 3] = ["Gateway", "HttpRoute", "GrpcRoute"];

/// Experimental fields without a type: what has them is refused by another field beside them.
const PASSED_OVER: [&str; 2] = ["externalAuth", "useDefaultGateways"];

/// What thousands of routes have alike, and is kept once.
const ALIKE: [&str; 2] = ["RouteStatus", "Box<[ParentReference]>"];

/// Names of types, by the field that has them or by the path to it, which is the name without an entry here.
const NAMES: &[(&str, &str)] = &[
    ("conditions", "Condition"),
    ("parentRefs", "ParentReference"),
    ("parentRef", "ParentReference"),
    ("ancestorRef", "ParentReference"),
    ("parents", "RouteParentStatus"),
    ("selector", "LabelSelector"),
    ("matchExpressions", "LabelRequirement"),
    ("certificateRefs", "SecretReference"),
    ("clientCertificateRef", "SecretReference"),
    ("kinds", "RouteGroupKind"),
    ("requestHeaderModifier", "HeaderModifier"),
    ("responseHeaderModifier", "HeaderModifier"),
    ("set", "HeaderPair"),
    ("add", "HeaderPair"),
    ("backendRef", "BackendReference"),
    ("requestMirror", "RequestMirror"),
    ("fraction", "MirrorFraction"),
    ("requestRedirect", "RequestRedirect"),
    ("cors", "CorsFilter"),
    ("urlRewrite", "UrlRewrite"),
    ("extensionRef", "LocalReference"),
    ("headers", "NamedValueMatch"),
    ("queryParams", "NamedValueMatch"),
    ("HttpRouteStatus", "RouteStatus"),
    ("HttpRouteRuleFilter", "HttpRouteFilter"),
    ("HttpRouteRuleBackendRefFilter", "HttpRouteFilter"),
    ("GrpcRouteRuleBackendRefFilter", "GrpcRouteFilter"),
    ("HttpRouteRuleBackendRefFilterRequestRedirectPath", "PathModifier"),
    ("GatewayAddress", "TypedValue"),
    ("GatewayClassParametersRef", "ObjectReference"),
    ("GatewayInfrastructureParametersRef", "LocalReference"),
    ("GatewayAllowedListenersNamespaces", "NamespaceRule"),
    ("GatewayTlsFrontendDefault", "FrontendTls"),
    ("GatewayTlsFrontendDefaultValidation", "FrontendValidation"),
    ("TlsRouteRule", "StreamRouteRule"),
    ("TlsRouteRuleBackendRef", "WeightedReference"),
    ("BackendTlsPolicyStatusAncestor", "PolicyAncestor"),
    ("BackendTlsPolicyValidationSubjectAltName", "SubjectAltName"),
];

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let folder = workspace.root().join(FOLDER);
    let definitions = fetched(workspace)?;
    let mut types = GatewayTypes::default();
    let mut heads = Vec::new();
    for (kind, plural, _) in KINDS {
        let channel = if EXPERIMENTAL.contains(&kind) { "experimental" } else { "standard" };
        let path = Path::new(&definitions)
            .join(format!("config/crd/{channel}/gateway.networking.k8s.io_{plural}.yaml"));
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let definition: Value = serde_saphyr::from_str(&text).context("a definition is YAML")?;
        heads.push(types.kind(kind, plural, &definition)?);
    }
    fs::create_dir_all(&folder)?;
    for ((kind, _, file), head) in KINDS.iter().zip(heads) {
        fs::write(folder.join(format!("{file}.rs")), types.file(kind, &head))?;
    }
    fs::write(folder.join("shared.rs"), types.shared())?;
    let files = KINDS.map(|(_, _, file)| format!("{FOLDER}/{file}.rs"));
    ProgramRun::new(workspace, "rustfmt")
        .args(["--edition", "2024", &format!("{FOLDER}/shared.rs")])
        .args(files.iter().map(String::as_str))
        .run()?;
    println!("{FOLDER}: the types of {MODULE} {VERSION}");
    Ok(())
}

/// The folder of the module.
fn fetched(workspace: &Workspace) -> anyhow::Result<String> {
    let scratch = workspace.root().join("target/gateway-types");
    fs::create_dir_all(&scratch)?;
    fs::write(scratch.join("go.mod"), "module types\n\ngo 1.24\n")?;
    let output = ProgramRun::new(workspace, "go")
        .args(["-C", &scratch.display().to_string()])
        .args(["mod", "download", "-json", &format!("{MODULE}@{VERSION}")])
        .env("GOFLAGS", "-mod=mod")
        .limit(LIMIT)
        .read()
        .context("Go fetches the definitions: apt-get install golang")?;
    let answer: Value = serde_json::from_str(&output).context("Go answers with JSON")?;
    Ok(answer["Dir"].as_str().context("Go says where the module is")?.to_owned())
}

/// The types met so far, the same structure once.
#[derive(Default)]
struct GatewayTypes {
    /// The name of a structure, by its fields.
    by_fields: BTreeMap<String, String>,
    /// The fields of a name.
    by_name: BTreeMap<String, String>,
    /// Which kinds use a type.
    users: BTreeMap<String, BTreeSet<String>>,
    kind: String,
}

impl GatewayTypes {
    /// The type of a kind itself; those inside it are kept for later.
    fn kind(&mut self, kind: &str, plural: &str, definition: &Value) -> anyhow::Result<String> {
        let spec = &definition["spec"];
        let versions = spec["versions"].as_array().context("a definition has versions")?;
        let stored = versions.iter().find(|version| version["storage"] == true);
        let stored = stored.context("one version is stored")?;
        let served: Vec<String> = versions
            .iter()
            .filter(|version| version["served"] == true)
            .filter_map(|version| Some(format!("{:?}", version["name"].as_str()?)))
            .collect();
        kind.clone_into(&mut self.kind);
        let schema = &stored["schema"]["openAPIV3Schema"];
        let mut fields = "    /// Name and place.\n    pub metadata: ObjectMeta,\n".to_owned();
        for field in ["spec", "status"] {
            let property = &schema["properties"][field];
            if property.is_null() {
                continue;
            }
            let of = self.type_of(property, &format!("{kind}{}", pascal(field)), field)?;
            if field == "spec" {
                writeln!(fields, "    /// What is wanted.\n    pub spec: {of},")?;
            } else {
                fields.push_str("    /// What controllers say about it.\n");
                fields.push_str("    #[serde(skip_serializing_if = \"Option::is_none\")]\n");
                let pointer = if is_alike(&of) { "SharedValue" } else { "Box" };
                writeln!(fields, "    pub status: Option<{pointer}<{of}>>,")?;
            }
        }
        let name = spec["names"]["kind"].as_str().context("a kind has a name")?;
        let version = stored["name"].as_str().context("a version has a name")?;
        Ok(format!(
            "/// A `{name}`.\n{DERIVE}pub struct {kind} {{\n{fields}}}\n\nimpl {kind} {{\n\
             \x20   /// The kind, as objects state it.\n    pub const KIND: &str = {name:?};\n\
             \x20   /// The path of its collection.\n    pub const PLURAL: &str = {plural:?};\n\
             \x20   /// The version of these types.\n    pub const VERSION: &str = {version:?};\n\
             \x20   /// The versions that a cluster with these definitions serves.\n    pub const SERVED: &[&str] = &[{}];\n}}\n",
            served.join(", "),
        ))
    }

    /// The file of a kind, with the types that it alone has.
    fn file(&self, kind: &str, head: &str) -> String {
        let mut text = head.to_owned();
        for (name, fields) in &self.by_name {
            let users = &self.users[name];
            if users.len() == 1 && users.contains(kind) {
                push_struct(&mut text, name, fields);
            }
        }
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        let used: Vec<&str> = self
            .by_name
            .keys()
            .map(String::as_str)
            .filter(|name| self.is_shared(name) && words.contains(name))
            .collect();
        let map = if words.contains("BTreeMap") { "use std::collections::BTreeMap;\n\n" } else { "" };
        let shared = if used.is_empty() {
            String::new()
        } else {
            format!("use super::shared::{{{}}};\n", used.join(", "))
        };
        let texts = if words.contains("SharedText") { USE_SHARED_TEXT } else { "" };
        let values = if words.contains("SharedValue") { USE_SHARED_VALUE } else { "" };
        format!(
            "//! The types of one kind of the Gateway API {VERSION}. Generated by `cargo xtask gateway-types`: do not edit.\n\n\
             {map}use serde::{{Deserialize, Serialize}};\n\nuse super::meta::ObjectMeta;\n{shared}{texts}{values}\n{text}"
        )
    }

    fn is_shared(&self, name: &str) -> bool {
        self.users[name].len() > 1
    }

    /// The file of the types that several kinds have.
    fn shared(&self) -> String {
        let mut text = String::new();
        for (name, fields) in self.by_name.iter().filter(|(name, _)| self.is_shared(name)) {
            push_struct(&mut text, name, fields);
        }
        let map = if text.contains("BTreeMap") { "use std::collections::BTreeMap;\n\n" } else { "" };
        format!(
            "//! Types that several kinds of the Gateway API {VERSION} share. Generated by `cargo xtask gateway-types`: do not edit.\n\n\
             {map}use serde::{{Deserialize, Serialize}};\n\n{USE_SHARED_TEXT}{text}"
        )
    }

    fn type_of(&mut self, schema: &Value, path: &str, field: &str) -> anyhow::Result<String> {
        Ok(match schema["type"].as_str() {
            Some("string") => "SharedText".to_owned(),
            Some("boolean") => "bool".to_owned(),
            Some("integer") if schema["format"] == "int64" => "i64".to_owned(),
            Some("integer") => "i32".to_owned(),
            Some("array") => format!("Box<[{}]>", self.type_of(&schema["items"], singular(path), field)?),
            Some("object") if schema["properties"].is_object() => self.structure(schema, path, field)?,
            Some("object") => "BTreeMap<SharedText, SharedText>".to_owned(),
            other => bail!("{path}: no type for {other:?}"),
        })
    }

    fn structure(&mut self, schema: &Value, path: &str, field: &str) -> anyhow::Result<String> {
        let empty = Vec::new();
        let required = schema["required"].as_array().unwrap_or(&empty);
        let mut fields = String::new();
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (name, property) in properties.filter(|(name, _)| !PASSED_OVER.contains(&name.as_str())) {
            // The path of a type leaves out `spec`: `HttpRouteRule`.
            let stem = path.strip_suffix("Spec").unwrap_or(path);
            let of = self.type_of(property, &format!("{stem}{}", pascal(name)), name)?;
            let is_required = required.iter().any(|one| one == name);
            let is_struct = of.starts_with(char::is_uppercase)
                && !["Box<", "BTreeMap", "SharedText"].iter().any(|other| of.starts_with(other));
            let (of, skip) = match is_required {
                _ if of.starts_with("Box<[") && is_alike(&of) => {
                    (format!("SharedValue<{of}>"), Some("<[_]>::is_empty"))
                }
                _ if of.starts_with("Box<[") => (of, Some("<[_]>::is_empty")),
                _ if of.starts_with("BTreeMap") => (of, Some("BTreeMap::is_empty")),
                true => (of, None),
                false if is_struct => (format!("Option<Box<{of}>>"), Some("Option::is_none")),
                false => (format!("Option<{of}>"), Some("Option::is_none")),
            };
            let skip = skip.filter(|_| !is_required);
            if let Some(skip) = skip {
                writeln!(fields, "    #[serde(skip_serializing_if = {skip:?})]")?;
            }
            let snake = snake(name);
            if camel(&snake) != *name {
                writeln!(fields, "    #[serde(rename = {name:?})]")?;
            }
            let snake = if snake == "type" { "r#type" } else { &snake };
            writeln!(fields, "    /// `{name}`\n    pub {snake}: {of},")?;
        }
        Ok(self.named(fields, path, field))
    }

    /// The type with these fields.
    fn named(&mut self, fields: String, path: &str, field: &str) -> String {
        if let Some(known) = self.by_fields.get(&fields) {
            let known = known.clone();
            self.users.entry(known.clone()).or_default().insert(self.kind.clone());
            return known;
        }
        let common = NAMES
            .iter()
            .find(|(of, _)| *of == path)
            .or_else(|| NAMES.iter().find(|(of, _)| *of == field))
            .map(|(_, name)| *name);
        let name = common.filter(|name| !self.by_name.contains_key(*name)).unwrap_or(path).to_owned();
        self.by_fields.insert(fields.clone(), name.clone());
        self.by_name.insert(name.clone(), fields);
        self.users.entry(name.clone()).or_default().insert(self.kind.clone());
        name
    }
}

const DERIVE: &str = "#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]\n#[serde(default, rename_all = \"camelCase\")]\n";

fn push_struct(text: &mut String, name: &str, fields: &str) {
    text.push_str(&format!("\n/// A part of an object; its fields have the names of the API.\n{DERIVE}pub struct {name} {{\n{fields}}}\n"));
}

fn pascal(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

fn is_alike(of: &str) -> bool {
    ALIKE.contains(&of)
}

fn singular(path: &str) -> &str {
    let ends =
        if path.ends_with("ches") || path.ends_with("sses") { 2 } else { usize::from(path.ends_with('s')) };
    &path[..path.len() - ends]
}

/// `caCertificateRefs` as `ca_certificate_refs`; a run of capitals is one word.
fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (index, c) in chars.iter().enumerate() {
        let starts = c.is_uppercase()
            && index > 0
            && (chars[index - 1].is_lowercase()
                || chars.get(index + 1).is_some_and(|next| next.is_lowercase()));
        if starts {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// What serde makes of a name in snake case.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| text + &pascal(word))
}
