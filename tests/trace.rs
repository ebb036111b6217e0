//! Traces are read by content, and what is wrong with one is said with its place.

#![cfg(feature = "agent")]
#![allow(missing_docs, clippy::unwrap_used)]

use std::io::{Cursor, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use seam::trace::{MAX_LINE_BYTES, TraceError, TraceFormat, TraceReader, TraceRequest};

const MOONCAKE: &str = r#"{"timestamp": 500, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 3500, "input_length": 10, "output_length": 0, "hash_ids": []}
"#;
const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                     2023-11-16 23:59:59.5000000,374,44\n\
                     2023-11-17 00:00:01.2500000,396,109\n";
const SERVEGEN: &str = "arrival_s,input_tokens,output_tokens,client_id\n0.005,954,3,69\n0.031,77,471,61\n";

fn read(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Vec<TraceRequest>, TraceError> {
    TraceReader::from_reader("t", Cursor::new(bytes))?.collect()
}

fn format(bytes: &'static str) -> TraceFormat {
    TraceReader::from_reader("t", Cursor::new(bytes)).unwrap().format()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn request(arrival_ms: f64, input_tokens: u64, output_tokens: u64, hashes: Option<&[u64]>) -> TraceRequest {
    TraceRequest { arrival_ms, input_tokens, output_tokens, prefix_hashes: hashes.map(<[u64]>::to_vec) }
}

#[test]
fn each_format_is_told_by_content_and_arrivals_count_from_the_first() {
    assert_eq!(format(MOONCAKE), TraceFormat::Mooncake);
    assert_eq!(read(MOONCAKE).unwrap(), [request(0.0, 6758, 500, Some(&[0, 1])), request(3_000.0, 10, 0, Some(&[]))]);
    assert_eq!(format(AZURE), TraceFormat::Azure);
    assert_eq!(read(AZURE).unwrap(), [request(0.0, 374, 44, None), request(1_750.0, 396, 109, None)]);
    assert_eq!(format(SERVEGEN), TraceFormat::ServeGen);
    assert_eq!(read(SERVEGEN).unwrap(), [request(0.0, 954, 3, None), request(26.0, 77, 471, None)]);
}

#[test]
fn gzip_crlf_byte_order_mark_blank_lines_and_quotes_change_nothing() {
    for text in [MOONCAKE, AZURE, SERVEGEN] {
        let plain = read(text).unwrap();
        assert_eq!(read(gzip(text)).unwrap(), plain);
        let windows = format!("\u{feff}{}\r\n\r\n", text.replace('\n', "\r\n"));
        assert_eq!(read(windows.clone()).unwrap(), plain);
        assert_eq!(read(gzip(&windows)).unwrap(), plain);
    }
    let quoted = "\"arrival_s\",\"input_tokens\",output_tokens\n\"0.5\", 3 ,\"4\"\n";
    assert_eq!(read(quoted).unwrap(), [request(0.0, 3, 4, None)]);
    let reordered = "extra,GeneratedTokens,TIMESTAMP,ContextTokens\nx,2,2024-05-10 00:00:00.009930+00:00,1\n";
    assert_eq!(read(reordered).unwrap(), [request(0.0, 1, 2, None)]);
}

#[test]
fn a_bad_line_is_named_with_its_field_what_was_found_and_what_is_allowed() {
    let azure = |row: &str| format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{row}\n");
    let servegen = |row: &str| format!("arrival_s,input_tokens,output_tokens\n0,1,1\n{row}\n");
    for (text, parts) in [
        (String::new(), ["line 1", "the file", "found no line"]),
        ("\n \r\n".into(), ["line 3", "the file", "found no line"]),
        ("a,b\n1,2\n".into(), ["line 1", "the first line", "found a,b"]),
        ("{\"timestamp\": 1}\n".into(), ["line 1", "input_length", "found nothing"]),
        ("{\"timestamp\": \"x\"}\n".into(), ["line 1", "timestamp", "found \"x\""]),
        ("{\"timestamp\": -1}".into(), ["line 1", "timestamp", "found -1"]),
        (format!("{MOONCAKE}{{\n"), ["line 3", "the line", "allowed one JSON object"]),
        (
            "{\"timestamp\":1,\"input_length\":1,\"output_length\":1,\"hash_ids\":[-1]}".into(),
            ["line 1", "hash_ids", "found [-1]"],
        ),
        (
            "{\"timestamp\":1,\"input_length\":0,\"output_length\":1}".into(),
            ["line 1", "input_length", "found 0, allowed a whole number of tokens from 1"],
        ),
        (azure("2023-13-16 18:15:46,1,1"), ["line 2", "TIMESTAMP", "found 2023-13-16"]),
        (azure("2023-11-16 18:15:46,1"), ["line 2", "GeneratedTokens", "found nothing"]),
        (azure("2023-11-16 18:15:46,1.5,1"), ["line 2", "ContextTokens", "found 1.5"]),
        (azure("").trim().into(), ["line 2", "the file", "found no request"]),
        (servegen("inf,1,1"), ["line 3", "arrival_s", "found inf"]),
        (servegen("1,1,99999999999"), ["line 3", "output_tokens", "allowed a whole number"]),
        (servegen("2,1,1\n1.5,1,1"), ["line 4", "arrival", "never decrease"]),
    ] {
        let error = read(text.clone()).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{text:?}: {error:?} lacks {part:?}");
        }
    }
}

#[test]
fn a_reader_ends_after_its_first_error() {
    let text = "arrival_s,input_tokens,output_tokens\n0,1,1\nx,1,1\n1,1,1\n";
    let mut reader = TraceReader::from_reader("t", Cursor::new(text)).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn an_endless_line_is_refused_at_its_limit() {
    let endless = std::io::repeat(b'{');
    let error = TraceReader::from_reader("t", endless).err().unwrap().to_string();
    assert!(error.contains(&MAX_LINE_BYTES.to_string()), "{error}");
}

#[test]
fn broken_compression_is_an_error_of_the_file() {
    let mut bytes = gzip(&AZURE.repeat(100));
    bytes.truncate(bytes.len() / 2);
    assert!(matches!(read(bytes), Err(TraceError::Gzip { .. })));
}

#[test]
fn a_long_trace_is_read_line_by_line() {
    // What follows the rows has no end: a reader that looked ahead without a limit would never return.
    let header = Cursor::new("arrival_s,input_tokens,output_tokens\n");
    let rows = Cursor::new("1,1,1\n".repeat(10_000)).chain(std::io::repeat(b'x'));
    let reader = TraceReader::from_reader("t", header.chain(rows)).unwrap();
    assert_eq!(reader.take(10_000).filter(Result::is_ok).count(), 10_000);
}

/// The recorded traces, where their folder is named in `SEAM_TRACE_DIR`.
#[test]
fn recorded_traces_are_read_to_their_last_request() {
    let Some(folder) = std::env::var_os("SEAM_TRACE_DIR").map(std::path::PathBuf::from) else {
        println!("skipped: SEAM_TRACE_DIR does not say where the recorded traces lie");
        return;
    };
    for (file, requests, format) in [
        ("mooncake_conversation.jsonl.gz", Some(12_031), TraceFormat::Mooncake),
        ("azure_conv_2023.csv.gz", Some(19_366), TraceFormat::Azure),
        ("servegen_m-large_1h_6rps.csv.gz", None, TraceFormat::ServeGen),
    ] {
        let reader = TraceReader::open(&folder.join(file)).unwrap();
        assert_eq!(reader.format(), format);
        let mut last_ms = 0.0;
        let mut count = 0;
        for request in reader {
            let request = request.unwrap();
            assert!(request.arrival_ms >= last_ms, "{file}: request {count} comes before the one before it");
            last_ms = request.arrival_ms;
            count += 1;
        }
        assert!(requests.is_none_or(|requests| requests == count), "{file}: {count}");
        assert!(count > 1000, "{file}: {count}");
    }
}
