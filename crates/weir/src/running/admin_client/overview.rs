//! The overview of a running Weir, assembled from its pages.

use anyhow::anyhow;
use serde_json::Value;

use super::AdminClient;
use crate::error::CommandError;

/// The overview of all servers, or of those of the first `pages_max` pages. What is not of one server is as on the last page.
///
/// # Errors
/// When Weir cannot be reached, or the response is no overview.
pub(crate) fn overview(client: &AdminClient, pages_max: usize) -> Result<Value, CommandError> {
    let mut whole = first_page(client)?;
    let mut number = 1;
    while number < pages_max && number < pages(&whole) {
        number += 1;
        // A reload may have taken servers away in between.
        let Ok(next) = page(client, number)? else { break };
        whole = joined(whole, next);
    }
    Ok(whole)
}

/// How many pages there are.
fn pages(overview: &Value) -> usize {
    overview["page"]["pages"].as_u64().map_or(1, |pages| usize::try_from(pages).unwrap_or(usize::MAX))
}

/// The first page.
fn first_page(client: &AdminClient) -> Result<Value, CommandError> {
    page(client, 1)?.map_err(|status| {
        let error = anyhow!("{} has no /api/overview ({status})", client.endpoint);
        let help = "an older Weir, or something else than Weir, seems to listen there".to_owned();
        CommandError::Failed { error, help: Some(help) }
    })
}

/// A page, or the status that stands for it.
fn page(client: &AdminClient, number: usize) -> Result<Result<Value, u16>, CommandError> {
    let answer = client.get(&format!("/api/overview?page={number}"))?;
    let body: Option<Value> = serde_json::from_slice(&answer.body).ok().filter(Value::is_object);
    Ok(body.filter(|_| answer.status == 200).ok_or(answer.status))
}

/// `next` with the upstreams and servers of the pages before it. An upstream on both has its figures whole on each.
fn joined(mut before: Value, mut next: Value) -> Value {
    let mut upstreams = take_list(&mut before["upstreams"]);
    for mut upstream in take_list(&mut next["upstreams"]) {
        match upstreams.last_mut().filter(|last| last["name"] == upstream["name"]) {
            Some(last) => {
                let mut servers = take_list(&mut last["servers"]);
                servers.extend(take_list(&mut upstream["servers"]));
                upstream["servers"] = Value::Array(servers);
                *last = upstream;
            }
            None => upstreams.push(upstream),
        }
    }
    next["upstreams"] = Value::Array(upstreams);
    next
}

fn take_list(value: &mut Value) -> Vec<Value> {
    match value.take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::joined;

    #[test]
    fn an_upstream_on_two_pages_is_one() {
        let before = json!({ "upstreams": [
            { "name": "a", "servers": [1] }, { "name": "b", "in_flight": 1, "servers": [2, 3] },
        ], "page": { "number": 1 } });
        let next = json!({ "upstreams": [
            { "name": "b", "in_flight": 2, "servers": [4] }, { "name": "c", "servers": [5] },
        ], "page": { "number": 2 } });
        let whole = json!({ "upstreams": [
            { "name": "a", "servers": [1] }, { "name": "b", "in_flight": 2, "servers": [2, 3, 4] }, { "name": "c", "servers": [5] },
        ], "page": { "number": 2 } });
        assert_eq!(joined(before, next), whole);
    }
}
