use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    number: u64,
    text: String,
    list: Vec<u32>,
    bytes: Blob,
    maybe: Option<Box<Sample>>,
}

impl Wire for Sample {
    const NAME: &'static str = "sample";
    const LIMIT: usize = 512;
}

fn sample() -> Sample {
    Sample { number: 300, text: "seam".into(), list: vec![1, 70_000], bytes: Blob(vec![7, 8]), maybe: None }
}

#[test]
fn the_form_of_a_message_is_fixed() {
    let golden = [1, 251, 44, 1, 4, b's', b'e', b'a', b'm', 2, 1, 252, 112, 17, 1, 0, 2, 7, 8, 0];
    assert_eq!(encode(&sample()).unwrap(), golden);
    assert_eq!(decode::<Sample>(&golden).unwrap(), sample());
}

#[test]
fn another_version_trailing_bytes_and_too_many_bytes_are_refused_by_name() {
    let mut bytes = encode(&sample()).unwrap();
    bytes.push(0);
    assert_eq!(decode::<Sample>(&bytes), Err(CodecError::Trailing { what: "sample", extra: 1 }));
    bytes[0] = 2;
    assert_eq!(decode::<Sample>(&bytes), Err(CodecError::Version { what: "sample", found: 2 }));
    assert_eq!(decode::<Sample>(&[]), Err(CodecError::Empty { what: "sample" }));
    let too_long = Err(CodecError::TooLong { what: "sample", found: 513, limit: 512 });
    assert_eq!(decode::<Sample>(&[1; 513]), too_long);
    let large = Sample { bytes: Blob(vec![0; 600]), ..sample() };
    assert!(matches!(encode(&large), Err(CodecError::TooLong { what: "sample", limit: 512, .. })));
}

#[test]
fn a_length_that_lies_is_refused() {
    // number 0, then a text of 2^62 bytes; then the same for the list and the blob.
    let huge = [253, 0, 0, 0, 0, 0, 0, 0, 64];
    for head in [&[1, 0][..], &[1, 0, 0], &[1, 0, 0, 0]] {
        let bytes = [head, &huge, &[0; 24]].concat();
        assert!(matches!(decode::<Sample>(&bytes), Err(CodecError::Malformed { .. })), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        if let Ok(value) = decode::<Sample>(&bytes) {
            prop_assert_eq!(decode::<Sample>(&encode(&value).unwrap()).unwrap(), value);
        }
    }

    #[test]
    fn a_damaged_message_gives_a_value_or_an_error(
        number: u64, text in "[a-z]{0,40}", list: Vec<u32>, cut: prop::sample::Index, bit: prop::sample::Index,
    ) {
        let list = list.into_iter().take(40).collect();
        let value = Sample { number, text, list, bytes: Blob(vec![1; 9]), maybe: Some(Box::new(sample())) };
        let bytes = encode(&value).unwrap();
        prop_assert_eq!(&decode::<Sample>(&bytes).unwrap(), &value);
        prop_assert!(decode::<Sample>(&bytes[..cut.index(bytes.len())]).is_err());
        let mut flipped = bytes.clone();
        let bit = bit.index(bytes.len() * 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
        let other = decode::<Sample>(&flipped);
        prop_assert!(other.is_err() || other.unwrap() != value);
    }
}
