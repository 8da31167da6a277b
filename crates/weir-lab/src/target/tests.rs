//! Descriptions in each product's words, checked by the product itself where it is installed.

use std::process::Command;

use super::installed::find_products;
use super::{Class, Description, PRODUCTS, Product, Target, render};

#[test]
fn targets_have_names() {
    for name in ["direct", "weir", "nginx", "haproxy", "nginx/no-reuse", "weir/no-reuse"] {
        assert_eq!(name.parse::<Target>().unwrap().to_string(), name);
    }
    for wrong in ["apache", "nginx/slow", "direct/no-reuse", ""] {
        assert!(wrong.parse::<Target>().is_err(), "{wrong}");
    }
}

#[test]
fn every_product_gets_the_same_addresses() {
    let dir = tempfile::tempdir().unwrap();
    for class in [Class::Tuned, Class::AsShipped] {
        for server_reuse in [true, false] {
            let description = Description {
                listen: "127.0.0.1:8001".parse().unwrap(),
                origin: "127.0.0.1:8002".parse().unwrap(),
                class,
                server_reuse,
                clients: 9_000,
                dir: dir.path(),
            };
            for product in PRODUCTS {
                let Some(rendered) = render(product, &description) else { continue };
                for addr in ["127.0.0.1:8001", "127.0.0.1:8002"] {
                    assert_eq!(rendered.text.matches(addr).count(), 1, "{}", rendered.text);
                }
                check_with_the_product(product, &description);
            }
        }
    }
}

/// nginx and HAProxy can check a configuration without using it.
fn check_with_the_product(product: Product, description: &Description<'_>) {
    let (Some(rendered), Some(installed)) =
        (render(product, description), find_products(&[]).unwrap().remove(product.name()))
    else {
        return;
    };
    std::fs::write(description.dir.join(rendered.file), &rendered.text).unwrap();
    let check: &[&str] = match product {
        Product::Nginx => &["-t"],
        Product::Haproxy => &["-c"],
        Product::Direct | Product::Weir => return,
    };
    let output = Command::new(installed.program).args(check).args(rendered.args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}\n{}", product.name(), rendered.text);
    assert!(!said.contains("WARNING") && !said.contains("[warn]"), "{}: {said}", product.name());
}
