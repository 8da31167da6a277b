//! Each folder of `cases`: objects, and what they come to.

use std::fs;
use std::path::Path;

use crate::objects::translated;
use crate::rendering::render;

/// What every case has: the class, a Gateway on port 80, a service.
const BASE: &str = "kind: GatewayClass
metadata: {name: weir, generation: 1}
spec: {controllerName: weir.dev/gateway}
---
kind: Service
metadata: {namespace: app, name: web}
spec: {ports: [{name: http, port: 80}, {name: h2c, port: 81, appProtocol: kubernetes.io/h2c}]}
---
kind: Service
metadata: {namespace: app, name: canary}
spec: {ports: [{port: 80}]}
---
";

#[test]
fn objects_come_to_what_is_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/translation/cases");
    let mut wrong = Vec::new();
    let mut seen = 0;
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for objects in files.iter().filter(|file| file.extension().is_some_and(|end| end == "yaml")) {
        let text = fs::read_to_string(objects).unwrap();
        let (_, translation) = translated(&format!("{BASE}{text}"));
        let rendered = render(&translation);
        let expected = objects.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&expected, &rendered).unwrap();
        }
        let known = fs::read_to_string(&expected).unwrap_or_default();
        if known != rendered {
            wrong.push(format!("{}:\n{rendered}", expected.display()));
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen} cases");
    assert!(wrong.is_empty(), "run with UPDATE=1 and look at the difference:\n{}", wrong.join("\n"));
}
