//! A database of addresses as the source of a map (MaxMind DB format): countries, cities, networks of providers.
//!
//! A record is not read as a whole: the one field that a map names is looked up and written. In a build without the feature `geoip` there is no
//! such database, and the program refuses the key.

#[cfg(feature = "geoip")]
pub(crate) use with_geoip::{AddressDatabase, DatabaseReader};
#[cfg(not(feature = "geoip"))]
pub(crate) use without_geoip::{AddressDatabase, DatabaseReader};

/// Parts of the name of a field: `subdivisions.0.iso_code` has three.
const PARTS_MAX: usize = 8;

/// Values longer than this are none: no name of a place or a provider is.
#[cfg(feature = "geoip")]
const VALUE_BYTES_MAX: usize = 1024;

/// The name of a field of a record: the way to it through tables and lists, `subdivisions.0.iso_code`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatabaseField(Box<str>);

impl DatabaseField {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn new(text: &str) -> Result<Self, &'static str> {
        let mut parts = text.split('.');
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        match (parts.all(is_part), text.split('.').count()) {
            (false, _) => Err("each part has letters, digits, `_` and `-`"),
            (true, PARTS_MAX..) => Err("a field has at most 7 parts"),
            (true, _) => Ok(Self(text.into())),
        }
    }

    /// As it is written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(feature = "geoip")]
mod with_geoip {
    use std::fmt;
    use std::net::IpAddr;
    use std::sync::Arc;

    use maxminddb::{PathElement, Reader, WithinOptions};
    use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

    use super::{DatabaseField, PARTS_MAX, VALUE_BYTES_MAX};

    /// Records that are looked at to find out whether a field has a value in any.
    const RECORDS_LOOKED_AT: usize = 10_000;

    /// Of these, those whose fields are told where it has none.
    const RECORDS_SHOWN: usize = 100;

    /// The file of a database, in memory.
    pub(crate) struct DatabaseReader(Reader<Vec<u8>>);

    impl DatabaseReader {
        /// Takes the bytes of a file.
        ///
        /// # Errors
        /// Why they are no database.
        pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, String> {
            Reader::from_source(bytes).map(Self).map_err(|error| error.to_string())
        }
    }

    /// A field of a database.
    #[derive(Clone)]
    pub(crate) struct AddressDatabase {
        reader: Arc<DatabaseReader>,
        field: DatabaseField,
    }

    impl AddressDatabase {
        pub(crate) fn new(reader: Arc<DatabaseReader>, field: DatabaseField) -> Self {
            Self { reader, field }
        }

        /// Whether one of the first records has a value there; if not, what records have.
        pub(crate) fn find_any(&self) -> Result<(), Vec<String>> {
            let mut parts = [const { PathElement::Index(0) }; PARTS_MAX];
            let path = path(&self.field, &mut parts);
            let mut known: Vec<String> = Vec::new();
            let Ok(networks) = self.reader.0.networks(WithinOptions::default()) else { return Err(known) };
            for (place, found) in networks.take(RECORDS_LOOKED_AT).flatten().enumerate() {
                match found.decode_path::<Scalar<'_>>(path) {
                    Ok(Some(Scalar::Other)) | Ok(None) | Err(_) => {}
                    Ok(Some(_)) => return Ok(()),
                }
                if place < RECORDS_SHOWN
                    && let Ok(Some(record)) = found.decode()
                {
                    fields(&record, "", &mut known);
                }
            }
            Err(known)
        }

        /// Appends the value of the field for an address, as text; whether there is one.
        pub(crate) fn write(&self, address: IpAddr, out: &mut Vec<u8>) -> bool {
            let mut parts = [const { PathElement::Index(0) }; PARTS_MAX];
            let path = path(&self.field, &mut parts);
            let found = self.reader.0.lookup(address).and_then(|found| found.decode_path::<Scalar<'_>>(path));
            found.is_ok_and(|value| value.is_some_and(|value| value.write(out)))
        }
    }

    impl fmt::Debug for AddressDatabase {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("AddressDatabase").field("field", &self.field).finish_non_exhaustive()
        }
    }

    fn path<'a, 'p>(
        field: &'a DatabaseField,
        parts: &'p mut [PathElement<'a>; PARTS_MAX],
    ) -> &'p [PathElement<'a>] {
        let mut count = 0;
        for (part, name) in parts.iter_mut().zip(field.as_str().split('.')) {
            *part = match name.parse() {
                Ok(index) => PathElement::Index(index),
                Err(_) => PathElement::Key(name),
            };
            count += 1;
        }
        &parts[..count]
    }

    /// A value that is a text, a number or a truth value.
    enum Scalar<'a> {
        Text(&'a str),
        Unsigned(u128),
        Signed(i64),
        Float(f64),
        Single(f32),
        Bool(bool),
        /// A table or a list: no text.
        Other,
    }

    impl Scalar<'_> {
        fn write(self, out: &mut Vec<u8>) -> bool {
            use std::io::Write as _;
            match self {
                Scalar::Text(text) if text.len() <= VALUE_BYTES_MAX => {
                    out.extend_from_slice(text.as_bytes());
                    true
                }
                Scalar::Unsigned(number) => write!(out, "{number}").is_ok(),
                Scalar::Signed(number) => write!(out, "{number}").is_ok(),
                Scalar::Float(number) => write!(out, "{number}").is_ok(),
                Scalar::Single(number) => write!(out, "{number}").is_ok(),
                Scalar::Bool(is_so) => write!(out, "{is_so}").is_ok(),
                Scalar::Text(_) | Scalar::Other => false,
            }
        }
    }

    impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(ScalarVisitor)
        }
    }

    struct ScalarVisitor;

    impl<'de> Visitor<'de> for ScalarVisitor {
        type Value = Scalar<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value of a record")
        }

        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Scalar::Text(text))
        }

        fn visit_bool<E: Error>(self, is_so: bool) -> Result<Self::Value, E> {
            Ok(Scalar::Bool(is_so))
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
            Ok(Scalar::Signed(number))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
            Ok(Scalar::Unsigned(number.into()))
        }

        fn visit_u128<E: Error>(self, number: u128) -> Result<Self::Value, E> {
            Ok(Scalar::Unsigned(number))
        }

        fn visit_f32<E: Error>(self, number: f32) -> Result<Self::Value, E> {
            Ok(Scalar::Single(number))
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
            Ok(Scalar::Float(number))
        }

        fn visit_borrowed_bytes<E: Error>(self, _: &'de [u8]) -> Result<Self::Value, E> {
            Ok(Scalar::Other)
        }

        fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            Ok(Scalar::Other)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            Ok(Scalar::Other)
        }
    }

    /// The fields of a record that have a text, a number or a truth value.
    fn fields(record: &serde_json::Value, name: &str, found: &mut Vec<String>) {
        let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        match record {
            serde_json::Value::Object(table) => {
                table.iter().for_each(|(key, value)| fields(value, &below(key), found));
            }
            serde_json::Value::Array(list) => {
                list.iter().take(1).for_each(|value| fields(value, &below("0"), found));
            }
            _ if found.iter().any(|known| known == name) => {}
            _ => found.push(name.to_owned()),
        }
    }
}

#[cfg(not(feature = "geoip"))]
mod without_geoip {
    use std::convert::Infallible;
    use std::net::IpAddr;
    use std::sync::Arc;

    use super::DatabaseField;

    /// There is none in this build.
    #[derive(Debug)]
    pub(crate) struct DatabaseReader(Infallible);

    impl DatabaseReader {
        pub(crate) fn new(_: Vec<u8>) -> Result<Self, String> {
            Err("this weir was built without the feature `geoip`".to_owned())
        }
    }

    /// There is none in this build.
    #[derive(Debug, Clone)]
    pub(crate) struct AddressDatabase(Infallible);

    impl AddressDatabase {
        #[expect(clippy::needless_pass_by_value, reason = "as in a build with the feature")]
        pub(crate) fn new(reader: Arc<DatabaseReader>, _: DatabaseField) -> Self {
            match reader.0 {}
        }

        pub(crate) fn find_any(&self) -> Result<(), Vec<String>> {
            match self.0 {}
        }

        pub(crate) fn write(&self, _: IpAddr, _: &mut Vec<u8>) -> bool {
            match self.0 {}
        }
    }
}

#[cfg(feature = "geoip")]
#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    /// A value of a record.
    enum Field {
        Text(&'static str),
        Short(u16),
        Long(u64),
        Number(u32),
        Double(f64),
        Bool(bool),
        List(Vec<Field>),
        Table(Vec<(&'static str, Field)>),
    }

    use Field::{Bool, Double, List, Long, Number, Short, Table, Text};

    impl Field {
        /// Appends it as the format has it (MaxMind DB 2.0, "Output Data Section").
        fn write(&self, out: &mut Vec<u8>) {
            let head = |out: &mut Vec<u8>, kind: u8, len: usize| {
                let (size, more) = if len < 29 { (len as u8, None) } else { (29, Some((len - 29) as u8)) };
                match kind {
                    0..=7 => out.push(kind << 5 | size),
                    _ => out.extend([size, kind - 7]),
                }
                out.extend(more);
            };
            match self {
                Text(text) => {
                    head(out, 2, text.len());
                    out.extend_from_slice(text.as_bytes());
                }
                Double(number) => {
                    head(out, 3, 8);
                    out.extend(number.to_be_bytes());
                }
                Short(number) => {
                    head(out, 5, 2);
                    out.extend(number.to_be_bytes());
                }
                Long(number) => {
                    head(out, 9, 8);
                    out.extend(number.to_be_bytes());
                }
                Number(number) => {
                    head(out, 6, 4);
                    out.extend(number.to_be_bytes());
                }
                Bool(is_so) => head(out, 14, (*is_so).into()),
                List(list) => {
                    head(out, 11, list.len());
                    list.iter().for_each(|field| field.write(out));
                }
                Table(table) => {
                    head(out, 7, table.len());
                    for (key, value) in table {
                        Text(key).write(out);
                        value.write(out);
                    }
                }
            }
        }
    }

    /// A database with these networks of version 6.
    fn database(networks: &[(&str, Field)]) -> Vec<u8> {
        let mut data = Vec::new();
        let mut nodes: Vec<[Option<(bool, usize)>; 2]> = vec![[None; 2]];
        for (network, record) in networks {
            let (address, len) = network.split_once('/').unwrap();
            let bits = address.parse::<std::net::Ipv6Addr>().unwrap().to_bits();
            let len: usize = len.parse().unwrap();
            let mut node = 0;
            for place in 0..len {
                let side = usize::from(bits >> (127 - place) & 1 == 1);
                if place + 1 == len {
                    nodes[node][side] = Some((true, data.len()));
                } else {
                    let next = match nodes[node][side] {
                        Some((false, next)) => next,
                        _ => {
                            nodes.push([None; 2]);
                            nodes.len() - 1
                        }
                    };
                    nodes[node][side] = Some((false, next));
                    node = next;
                }
            }
            record.write(&mut data);
        }
        let mut out = Vec::new();
        for side in nodes.iter().flatten() {
            let value = match side {
                None => nodes.len(),
                Some((false, next)) => *next,
                Some((true, at)) => nodes.len() + 16 + at,
            };
            out.extend_from_slice(&(value as u32).to_be_bytes()[1..]);
        }
        out.extend([0; 16]);
        out.extend(data);
        out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
        let metadata = [
            ("node_count", Number(nodes.len() as u32)),
            ("record_size", Short(24)),
            ("ip_version", Short(6)),
            ("database_type", Text("Test")),
            ("languages", List(vec![])),
            ("binary_format_major_version", Short(2)),
            ("binary_format_minor_version", Short(0)),
            ("build_epoch", Long(1)),
            ("description", Table(vec![])),
        ];
        Table(metadata.into()).write(&mut out);
        out
    }

    fn addresses() -> Vec<u8> {
        let country = |code| ("country", Table(vec![("iso_code", Text(code))]));
        database(&[
            (
                "::127.0.0.0/105",
                Table(vec![
                    country("DE"),
                    ("city", Table(vec![("names", Table(vec![("en", Text("Munich"))]))])),
                    ("subdivisions", List(vec![Table(vec![("iso_code", Text("BY"))])])),
                    ("location", Table(vec![("latitude", Double(48.125))])),
                    ("autonomous_system_number", Number(64_512)),
                    ("traits", Table(vec![("is_anycast", Bool(true))])),
                ]),
            ),
            ("::127.128.0.0/105", Table(vec![country("FR"), ("city", Table(vec![]))])),
            ("2001:db8::/32", Table(vec![country("JP")])),
        ])
    }

    fn value(bytes: Vec<u8>, field: &str, address: &str) -> Option<String> {
        let field = DatabaseField::new(field).unwrap();
        let database = AddressDatabase::new(Arc::new(DatabaseReader::new(bytes).unwrap()), field);
        let mut out = b"x".to_vec();
        let has_value = database.write(address.parse().unwrap(), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(has_value || text == "x");
        has_value.then(|| text[1..].to_owned())
    }

    #[test]
    fn fields_are_found_by_their_way() {
        for (field, address, expected) in [
            ("country.iso_code", "127.0.0.1", Some("DE")),
            ("country.iso_code", "127.200.0.1", Some("FR")),
            ("country.iso_code", "2001:db8::7", Some("JP")),
            ("country.iso_code", "10.0.0.1", None),
            ("country.iso_code", "2001:db9::7", None),
            ("city.names.en", "127.0.0.1", Some("Munich")),
            ("city.names.en", "127.200.0.1", None),
            ("subdivisions.0.iso_code", "127.0.0.1", Some("BY")),
            ("subdivisions.1.iso_code", "127.0.0.1", None),
            ("location.latitude", "127.0.0.1", Some("48.125")),
            ("autonomous_system_number", "127.0.0.1", Some("64512")),
            ("traits.is_anycast", "127.0.0.1", Some("true")),
            ("country", "127.0.0.1", None),
            ("subdivisions", "127.0.0.1", None),
            ("country.iso_code.x", "127.0.0.1", None),
        ] {
            assert_eq!(value(addresses(), field, address).as_deref(), expected, "{field} of {address}");
        }
    }

    #[test]
    fn what_no_record_has_is_told_with_what_they_have() {
        let reader = Arc::new(DatabaseReader::new(addresses()).unwrap());
        let find =
            |field| AddressDatabase::new(Arc::clone(&reader), DatabaseField::new(field).unwrap()).find_any();
        assert_eq!(find("city.names.en"), Ok(()));
        let known = find("country.code").unwrap_err();
        assert!(known.contains(&"country.iso_code".to_owned()), "{known:?}");
        assert!(known.contains(&"subdivisions.0.iso_code".to_owned()), "{known:?}");
        assert!(find("country").is_err());
    }

    #[test]
    fn names_of_fields_are_checked() {
        for text in ["country.iso_code", "a.0.b", "1.2.3.4.5.6.7"] {
            assert!(DatabaseField::new(text).is_ok(), "{text}");
        }
        for text in ["", ".", "a..b", "a b", "a.{b}", "1.2.3.4.5.6.7.8"] {
            assert!(DatabaseField::new(text).is_err(), "{text}");
        }
    }

    /// The file that the tests of the whole program use; `UPDATE=1` renews it.
    #[test]
    fn the_file_of_other_tests_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/addresses.mmdb");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(file, addresses()).unwrap();
        }
        assert!(std::fs::read(file).unwrap() == addresses(), "run the test with UPDATE=1");
    }

    proptest! {
        #[test]
        fn damaged_files_are_refused_or_have_no_value(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
            cut in 0_usize..200,
            address: IpAddr,
        ) {
            let mut bytes = addresses();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(bytes.len() - cut);
            if let Ok(reader) = DatabaseReader::new(bytes) {
                let field = DatabaseField::new("country.iso_code").unwrap();
                let database = AddressDatabase::new(Arc::new(reader), field);
                let mut out = Vec::new();
                database.write(address, &mut out);
                prop_assert!(out.len() <= VALUE_BYTES_MAX);
                let _ = database.find_any();
            }
        }
    }
}
