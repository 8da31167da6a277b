//! What nodes have in common without telling each other: the server of a client. Signed cookies over two nodes are in `upstream/affinity.rs`.

use std::collections::BTreeSet;

use crate::harness::{Client, Origin, Weir, config_with};

/// A node with these servers; nothing else is the same but the keys.
fn node(servers: &[&Origin], keys: &str) -> Weir {
    let entry = |origin: &&Origin| {
        format!("{{ name = \"{}\", address = \"{}\" }}", origin.address().port(), origin.address())
    };
    let servers: Vec<String> = servers.iter().map(entry).collect();
    Weir::start(&config_with(&servers, keys))
}

fn servers_of(node: &Weir, keys: std::ops::Range<u32>) -> Vec<String> {
    keys.map(|key| Client::get(node.web(), &format!("/?id={key}")).text()).collect()
}

#[test]
fn a_hash_chooses_the_same_server_on_every_node() {
    let origins: Vec<Origin> = ["a", "b", "c", "d"].into_iter().map(Origin::serving).collect();
    let keys = "upstream.app.balance = \"consistent-hash\"\nupstream.app.hash_key = \"query:id\"\n\
                upstream.app.hash_load_factor = \"off\"\n";
    let [a, b, c, d] = &origins[..] else { unreachable!("there are four") };
    let one = node(&[a, b, c, d], &format!("process.workers = 1\n{keys}"));
    let other = node(&[a, b, c, d], &format!("process.workers = 2\n{keys}"));
    let chosen = servers_of(&one, 0..40);
    assert_eq!(chosen, servers_of(&other, 0..40));
    assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 4, "{chosen:?}");
    // A server that one node does not have yet takes its own keys, and no other key moves.
    let fewer = servers_of(&node(&[a, b, c], keys), 0..40);
    for (all, fewer) in chosen.iter().zip(&fewer) {
        assert!(all == fewer || all == "d", "{all} moved to {fewer}");
    }
}
