//! Names of addresses: functions, those that were inlined included, by the debug information of the program or by its symbols.
//!
//! Without both, an address is shown as its place in its file, which can be looked up later where the symbols are.

use std::collections::HashMap;

use addr2line::Loader;
use weir_observe::flame::frame_name;

use super::images::Image;

/// Looks names up. What it has read goes when it is dropped.
pub(crate) struct Symbols {
    images: Vec<(Image, Option<Loader>)>,
    known: HashMap<u64, Box<[String]>>,
}

impl Symbols {
    pub(super) fn new(images: Vec<Image>) -> Self {
        let with_loader = |image: Image| {
            let loader = image.path.as_ref().and_then(|path| Loader::new(path).ok());
            (image, loader)
        };
        Self { images: images.into_iter().map(with_loader).collect(), known: HashMap::new() }
    }

    /// The functions at an address, the innermost first; never none.
    pub(super) fn functions(&mut self, address: u64) -> &[String] {
        let images = &self.images;
        self.known.entry(address).or_insert_with(|| look_up(images, address).into())
    }
}

fn look_up(images: &[(Image, Option<Loader>)], address: u64) -> Vec<String> {
    let Some((image, loader)) = images.iter().find(|(image, _)| image.range.contains(&address)) else {
        return vec!["[unknown]".to_owned()];
    };
    let at = address.wrapping_sub(image.bias);
    let mut names = Vec::new();
    if let Some(loader) = loader {
        names = inlined(loader, at);
        if names.is_empty() {
            let symbol = loader.find_symbol(at);
            names.extend(symbol.map(|symbol| frame_name(&addr2line::demangle_auto(symbol.into(), None))));
        }
    }
    if names.is_empty() {
        names.push(if image.path.is_some() {
            format!("[{}+{at:#x}]", image.name)
        } else {
            image.name.clone()
        });
    }
    names
}

/// What the debug information says, if there is any.
fn inlined(loader: &Loader, at: u64) -> Vec<String> {
    let mut names = Vec::new();
    let Ok(mut frames) = loader.find_frames(at) else { return names };
    while let Ok(Some(frame)) = frames.next() {
        let Some(function) = frame.function else { continue };
        names.extend(function.demangle().ok().map(|name| frame_name(&name)));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> u64 {
        // Past the first instruction, as a return address would be.
        here as fn() -> u64 as usize as u64 + 1
    }

    #[test]
    fn a_function_is_known_by_its_name() {
        let mut symbols = Symbols::new(Image::all().unwrap());
        let names = symbols.functions(here());
        assert!(names.iter().any(|name| name.ends_with("symbols::tests::here")), "{names:?}");
        assert_eq!(symbols.functions(1), ["[unknown]"]);
    }

    #[test]
    fn without_symbols_the_place_in_the_file_stands_for_the_name() {
        let mut images = Image::all().unwrap();
        for image in &mut images {
            image.path = image.path.take().map(|_| "/dev/null".into());
        }
        let own = images.iter().find(|image| image.range.contains(&here())).unwrap().clone();
        let name = Symbols::new(images).functions(here())[0].clone();
        assert_eq!(name, format!("[{}+{:#x}]", own.name, here() - own.bias));
    }
}
