//! Values as JSON, whatever the keys of their maps are.

use serde::Serialize;
use serde::ser::{self, Error as _, Serializer};
use serde_json::{Error, Map, Value};

/// A value as JSON. A map whose keys are neither texts nor numbers becomes a list of pairs, and a number
/// that JSON does not have becomes null.
///
/// # Errors
/// Those of the value itself.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Value, Error> {
    value.serialize(Json)
}

struct Json;

/// A list under way, inside a variant or not.
struct List {
    variant: Option<&'static str>,
    items: Vec<Value>,
}

/// A map or a struct under way, inside a variant or not.
struct Fields {
    variant: Option<&'static str>,
    key: Value,
    pairs: Vec<(Value, Value)>,
}

impl List {
    fn new(variant: Option<&'static str>) -> Self {
        Self { variant, items: Vec::new() }
    }

    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.items.push(to_json(value)?);
        Ok(())
    }

    fn done(self) -> Value {
        tagged(self.variant, Value::Array(self.items))
    }
}

impl Fields {
    fn new(variant: Option<&'static str>) -> Self {
        Self { variant, key: Value::Null, pairs: Vec::new() }
    }

    fn add<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.pairs.push((name.into(), to_json(value)?));
        Ok(())
    }

    fn done(self) -> Value {
        let plain = self.pairs.iter().all(|(key, _)| key.is_string() || key.is_number());
        let value = if plain {
            let named = |(key, value): (Value, Value)| match key {
                Value::String(key) => (key, value),
                key => (key.to_string(), value),
            };
            Value::Object(self.pairs.into_iter().map(named).collect())
        } else {
            Value::Array(self.pairs.into_iter().map(|(key, value)| Value::Array(vec![key, value])).collect())
        };
        tagged(self.variant, value)
    }
}

fn tagged(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        None => value,
        Some(variant) => Value::Object(Map::from_iter([(variant.to_owned(), value)])),
    }
}

macro_rules! plain {
    ($($method:ident $ty:ty),+) => {
        $(fn $method(self, value: $ty) -> Result<Value, Error> {
            Ok(value.into())
        })+
    };
}

impl Serializer for Json {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = List;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    plain!(
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_f32 f32,
        serialize_f64 f64, serialize_str &str, serialize_bytes &[u8]
    );

    fn serialize_char(self, value: char) -> Result<Value, Error> {
        Ok(value.to_string().into())
    }

    fn serialize_i128(self, value: i128) -> Result<Value, Error> {
        i64::try_from(value).map(Value::from).map_err(Error::custom)
    }

    fn serialize_u128(self, value: u128) -> Result<Value, Error> {
        u64::try_from(value).map(Value::from).map_err(Error::custom)
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        to_json(value)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value, Error> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Value, Error> {
        to_json(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(tagged(Some(variant), to_json(value)?))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List, Error> {
        Ok(List::new(None))
    }

    fn serialize_tuple(self, _: usize) -> Result<List, Error> {
        Ok(List::new(None))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List, Error> {
        Ok(List::new(None))
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<List, Error> {
        Ok(List::new(Some(variant)))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields, Error> {
        Ok(Fields::new(None))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields, Error> {
        Ok(Fields::new(None))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields, Error> {
        Ok(Fields::new(Some(variant)))
    }
}

macro_rules! list {
    ($($of:ident $method:ident),+) => {
        $(impl ser::$of for List {
            type Ok = Value;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.add(value)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(self.done())
            }
        })+
    };
}

list!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

macro_rules! fields {
    ($($of:ident),+) => {
        $(impl ser::$of for Fields {
            type Ok = Value;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
                self.add(name, value)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(self.done())
            }
        })+
    };
}

fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Fields {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = to_json(key)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = std::mem::take(&mut self.key);
        self.pairs.push((key, to_json(value)?));
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Gap, Part};
    use std::collections::BTreeMap;

    #[test]
    fn what_serde_json_can_write_comes_out_the_same() {
        #[derive(Serialize)]
        enum Mixed {
            Unit,
            New(u8),
            Tuple(i64, Option<f64>),
            Named { map: BTreeMap<u64, char>, list: Vec<()> },
        }
        let now = crate::core::Now::default();
        let gap = Gap { part: Part::Mesh, lost: 3, since: now, until: now };
        assert_eq!(to_json(&gap).unwrap(), serde_json::to_value(&gap).unwrap());
        let map = BTreeMap::from([(7, 'x')]);
        let all = [Mixed::Unit, Mixed::New(1), Mixed::Tuple(-2, Some(f64::NAN)), Mixed::Named { map, list: vec![()] }];
        assert_eq!(to_json(&all).unwrap(), serde_json::to_value(&all).unwrap());
    }

    #[test]
    fn a_map_of_other_keys_becomes_a_list_of_pairs() {
        let map = BTreeMap::from([((1, "a"), true)]);
        assert!(serde_json::to_value(&map).is_err());
        assert_eq!(to_json(&map).unwrap(), serde_json::json!([[[1, "a"], true]]));
    }
}
