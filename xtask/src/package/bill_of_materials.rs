//! The bill of materials: every crate that is in the program, in CycloneDX 1.5 (ECMA-424).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use serde_json::{Value, json};

use super::release::Release;
use crate::workspace::Workspace;

/// The program whose parts are listed.
const PROGRAM: &str = "weir";

pub(super) fn make(workspace: &Workspace, release: &Release, folder: &Path) -> anyhow::Result<PathBuf> {
    // The graph of this target alone, with all features: those of the static program; the Debian package has fewer.
    let metadata = MetadataCommand::new()
        .manifest_path(workspace.root().join("Cargo.toml"))
        .features(cargo_metadata::CargoOpt::AllFeatures)
        .other_options(["--filter-platform".to_owned(), release.target("gnu")])
        .exec()?;
    let bill = bill(&metadata, release, &release.time(workspace, "+%Y-%m-%dT%H:%M:%SZ")?)?;
    let file = folder.join(format!("weir-{}.cdx.json", release.version));
    fs::write(&file, format!("{bill:#}\n"))?;
    Ok(file)
}

fn bill(metadata: &Metadata, release: &Release, time: &str) -> anyhow::Result<Value> {
    let program = metadata
        .workspace_packages()
        .into_iter()
        .find(|package| package.name.as_str() == PROGRAM)
        .context("there is no such package")?;
    let dependencies = dependencies_of(metadata, &program.id)?;
    let components = dependencies.keys().filter(|&&id| *id != program.id).map(|id| component(&metadata[id]));
    let graph = dependencies.iter().map(|(id, needs)| {
        json!({
            "ref": reference(&metadata[id]),
            "dependsOn": needs.iter().map(|id| reference(&metadata[id])).collect::<Vec<_>>(),
        })
    });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application",
                "bom-ref": reference(program),
                "name": PROGRAM,
                "version": release.version,
                "licenses": licences(program),
            },
        },
        "components": components.collect::<Vec<_>>(),
        "dependencies": graph.collect::<Vec<_>>(),
    }))
}

/// Every package that is compiled into `root`, with those that it needs: without those for tests and builds.
fn dependencies_of<'a>(
    metadata: &'a Metadata,
    root: &'a PackageId,
) -> anyhow::Result<BTreeMap<&'a PackageId, BTreeSet<&'a PackageId>>> {
    let resolve = metadata.resolve.as_ref().context("cargo has resolved nothing")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut found = BTreeMap::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        if found.contains_key(id) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("{id} is not in the graph"))?;
        let is_compiled_in = |kinds: &[cargo_metadata::DepKindInfo]| {
            kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
        };
        let needs: BTreeSet<&PackageId> =
            node.deps.iter().filter(|need| is_compiled_in(&need.dep_kinds)).map(|need| &need.pkg).collect();
        open.extend(&needs);
        found.insert(id, needs);
    }
    Ok(found)
}

fn component(package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name.as_str(),
        "version": package.version.to_string(),
        "licenses": licences(package),
        "purl": reference(package),
    });
    if let Some(about) = &package.description {
        component["description"] = json!(about.trim());
    }
    component
}

/// A package URL: the name of a crate everywhere.
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn licences(package: &Package) -> Value {
    // Older manifests separate alternatives by a stroke, which SPDX does not know.
    match &package.license {
        Some(licence) => json!([{ "expression": licence.replace('/', " OR ") }]),
        None => json!([]),
    }
}
