//! The targets: the programs between client and origin, each configured from one neutral description.
//!
//! One file per product turns the description into that product's configuration and command line; every tuned line carries
//! its reason. Two classes: tuned by the product's own documentation, and as shipped. A feature that a product lacks is reported instead.

mod weir;
mod nginx;
mod haproxy;
mod envoy;
mod traefik;
mod apache;
mod caddy;
mod relay;
pub mod description;
pub mod certificate;
pub mod url;
pub mod search;
mod version;
#[cfg(test)]
mod tests;

pub use certificate::TargetCertificate;
pub use description::{
    ConnectionRoom, Description, HEALTH_PATH, PathBranch, ReloadableParts, Rendered, Traffic,
};
pub use relay::SLOWER;
pub use search::ProgramSearch;
pub use url::TargetUrl;
pub use weir::admin_socket;

use crate::topology::product::{Product, ProductLacks};

/// The words of `product` for `description`.
///
/// # Errors
/// The part of it that the product lacks.
pub fn render(product: Product, description: &Description<'_>) -> Result<Rendered, ProductLacks> {
    if description.traffic.is_http3 {
        can_http3(product, description)?;
    }
    let is_plain = *description.extra == ReloadableParts::default();
    match product {
        Product::Direct | Product::Url => Err(ProductLacks("it is not started by the lab")),
        Product::Envoy | Product::Caddy | Product::Relay if !is_plain => {
            Err(ProductLacks("gets no weights and paths from the lab"))
        }
        Product::Weir => Ok(weir::render(description)),
        Product::Nginx => nginx::render(description),
        Product::Haproxy => Ok(haproxy::render(description)),
        Product::Envoy => Ok(envoy::render(description)),
        Product::Traefik => traefik::render(description),
        Product::Apache => apache::render(description),
        Product::Caddy => caddy::render(description),
        Product::Relay => relay::render(description),
    }
}

/// Whether `product` as it is installed speaks HTTP/3 with clients.
fn can_http3(product: Product, description: &Description<'_>) -> Result<(), ProductLacks> {
    match product {
        Product::Apache => Err(ProductLacks("has no HTTP/3")),
        Product::Relay => Err(ProductLacks("ends no TLS, and so no HTTP/3")),
        _ if !description.has_http3 => Err(ProductLacks("was built without HTTP/3")),
        _ => Ok(()),
    }
}
