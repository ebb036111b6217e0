//! Enough of XML to find out whether a picture is well formed, and to look into it.

use std::collections::BTreeMap;

/// One element.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) text: String,
    pub(crate) inside: Vec<Element>,
}

impl Element {
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.attributes[name].parse().unwrap()
    }

    pub(crate) fn class(&self) -> &str {
        self.attributes.get("class").map_or("", String::as_str)
    }

    /// All elements in it, itself first.
    pub(crate) fn all(&self) -> Vec<&Element> {
        let inside = self.inside.iter().flat_map(Element::all);
        std::iter::once(self).chain(inside).collect()
    }

    pub(crate) fn title(&self) -> &str {
        self.inside.iter().find(|child| child.name == "title").map_or("", |title| &title.text)
    }
}

/// Reads a document; panics where it is not well formed.
pub(crate) fn read(document: &str) -> Element {
    let root = Element { name: "root".into(), attributes: BTreeMap::new(), text: String::new(), inside: Vec::new() };
    let mut open = vec![root];
    for piece in document.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("no end of {piece:?}"));
        assert!(!text.contains('>'), "{piece:?}");
        for entity in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
            assert!(known.iter().any(|known| entity.starts_with(known)), "{piece:?}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            let done = open.pop().unwrap();
            assert_eq!(done.name, name);
            open.last_mut().unwrap().inside.push(done);
        } else {
            let (empty, tag) = tag.strip_suffix('/').map_or((false, tag), |tag| (true, tag));
            let mut element = begun(tag);
            element.text = text.to_owned();
            match empty {
                true => open.last_mut().unwrap().inside.push(element),
                false => open.push(element),
            }
        }
    }
    let [root] = &open[..] else { panic!("still open: {:?}", open.last().unwrap().name) };
    let [document] = &root.inside[..] else { panic!("{} elements at the root", root.inside.len()) };
    document.clone()
}

fn begun(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes = BTreeMap::new();
    while !rest.trim().is_empty() {
        let (key, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("{tag:?}"));
        let (value, after) = value.split_once('"').unwrap_or_else(|| panic!("{tag:?}"));
        assert!(attributes.insert(key.trim().to_owned(), value.to_owned()).is_none(), "twice {key} in {tag:?}");
        rest = after;
    }
    Element { name: name.to_owned(), attributes, text: String::new(), inside: Vec::new() }
}
