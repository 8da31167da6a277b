//! The lab's own relay as a target: the one whose cost is known, by which the lab is proven.

use super::{Description, Rendered};
use crate::topology::product::ProductLacks;
use crate::topology::target::TargetVariant;

/// CPU time for each request: so much that the relay is the limit and not the client.
const WORK: &str = "20us";

/// The same for a busy one: so much that what a client makes of it, by how often it sleeps and is woken, hardly matters.
const BUSY_WORK: &str = "60us";

/// How much more of it the slower one takes, percent.
pub const SLOWER: u32 = 20;

pub(super) fn render(description: &Description<'_>) -> Result<Rendered, ProductLacks> {
    let &[server] = description.servers else { return Err(ProductLacks("knows one server")) };
    if description.certificate.is_some() {
        return Err(ProductLacks("ends no TLS"));
    }
    if description.has_persistence_cookie() {
        return Err(ProductLacks("looks at no byte, and so at no cookie"));
    }
    let slower = if description.variant == TargetVariant::Slower { SLOWER } else { 0 };
    let work = if description.variant == TargetVariant::Busy { BUSY_WORK } else { WORK };
    let line = format!("relay --listen {} --to {server} --work {work} --slower {slower}", description.listen);
    let args = line.split(' ').map(str::to_owned).collect();
    let text = "# Its whole configuration is on its command line.\n".to_owned();
    Ok(Rendered { file: "relay.txt", text, args, ..Rendered::default() })
}
