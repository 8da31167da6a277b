//! Reading of objects of which a part has not the type that it should have, such as a number beyond all bounds: what can be read of them is
//! read, so that their authors can be told, and no other object suffers.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The parts of an object whose fields are read one by one where they cannot be read as a whole.
const SPLIT_PARTS: [&str; 2] = ["metadata", "spec"];

/// An object, and why a part of it cannot be read; that part has its default.
///
/// # Errors
/// When nothing of it can be read: it is no object.
pub fn read_parts<T: DeserializeOwned>(object: Value) -> Result<(T, Option<Box<str>>), serde_json::Error> {
    let whole = T::deserialize(&object);
    let (Err(_), Value::Object(parts)) = (&whole, object) else { return Ok((whole?, None)) };
    let (mut readable, mut problem) = (Map::new(), None);
    for (name, part) in parts {
        let alone = |part: Value| Value::Object(Map::from_iter([(name.clone(), part)]));
        let fields = match part {
            Value::Object(fields) if SPLIT_PARTS.contains(&&*name) => fields,
            part => {
                match T::deserialize(&alone(part.clone())) {
                    Ok(_) => drop(readable.insert(name, part)),
                    // A status is written anew.
                    Err(_) if name == "status" => {}
                    Err(error) => drop(problem.get_or_insert_with(|| format!("{name}: {error}").into())),
                }
                continue;
            }
        };
        let mut readable_fields = Map::new();
        for (field, value) in fields {
            let one = Value::Object(Map::from_iter([(field.clone(), value.clone())]));
            match T::deserialize(&alone(one)) {
                Ok(_) => drop(readable_fields.insert(field, value)),
                Err(error) => drop(problem.get_or_insert_with(|| format!("{name}.{field}: {error}").into())),
            }
        }
        readable.insert(name, Value::Object(readable_fields));
    }
    Ok((T::deserialize(&Value::Object(readable))?, problem))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::HttpRoute;

    #[test]
    fn what_can_be_read_of_an_object_is_read() {
        let read = |object: Value| read_parts::<HttpRoute>(object).expect("it is an object");
        let metadata = json!({ "namespace": "app", "name": "one" });
        let parents = json!([{ "name": "edge" }]);
        let rules = json!([{ "retry": { "attempts": 5_000_000_000_i64 } }]);
        let (route, problem) = read(json!({
            "metadata": metadata, "spec": { "parentRefs": parents, "hostnames": ["a.test"], "rules": rules },
        }));
        let problem = problem.expect("the rules cannot be read");
        assert!(problem.starts_with("spec.rules: ") && problem.contains("5000000000"), "{problem}");
        assert_eq!((&*route.metadata.name, &*route.spec.hostnames[0]), ("one", "a.test"));
        assert_eq!((&*route.spec.parent_refs[0].name, route.spec.rules.len()), ("edge", 0));
        // A status that is none is as if there were none.
        let (route, problem) = read(json!({ "metadata": metadata, "spec": {}, "status": { "parents": 1 } }));
        assert_eq!((route.status, problem), (None, None));
        let (route, problem) = read(json!({ "metadata": metadata, "spec": 1 }));
        assert_eq!((&*route.metadata.name, problem.as_deref().map(|it| &it[..5])), ("one", Some("spec:")));
        assert!(read_parts::<HttpRoute>(json!("text")).is_err());
    }
}
