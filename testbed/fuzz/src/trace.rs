//! Request traces, plain and compressed.

use std::io::Cursor;

use seam::trace::{MAX_TOKENS, TraceReader};

/// Requests come in order of arrival, and within the limits.
pub fn run(data: &[u8]) {
    let Ok(reader) = TraceReader::from_reader("fuzz", Cursor::new(data.to_vec())) else { return };
    let mut last_ms = 0.0;
    // A small compressed file may hold a long trace.
    for request in reader.take(100_000) {
        let Ok(request) = request else { return };
        assert!(request.arrival_ms.is_finite() && request.arrival_ms >= last_ms, "{request:?} after {last_ms}");
        assert!(request.input_tokens <= MAX_TOKENS && request.output_tokens <= MAX_TOKENS, "{request:?}");
        last_ms = request.arrival_ms;
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "{\"timestamp\": 500, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n{\"timestamp\": 3500, \"input_length\": 10, \"output_length\": 0, \"hash_ids\": []}\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.5000000,374,44\n2023-11-17 00:00:01.2500000,396,109\n",
        "arrival_s,input_tokens,output_tokens,client_id\n0.005,954,3,69\n0.031,77,471,61\n",
        "\u{feff}\"arrival_s\",\"input_tokens\",output_tokens\r\n\"0.5\", 3 ,\"4\"\r\n",
        "extra,GeneratedTokens,TIMESTAMP,ContextTokens\nx,2,2024-05-10 00:00:00.009930+00:00,1\n",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    // The third text, compressed with gzip's stored form.
    seeds.push(stored_gzip(texts[2].as_bytes()));
    seeds
}

/// A gzip file that holds `bytes` uncompressed; its checksum is left to be wrong.
pub(crate) fn stored_gzip(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("short");
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    file.extend(length.to_le_bytes());
    file.extend((!length).to_le_bytes());
    file.extend(bytes);
    file.extend([0; 4]);
    file.extend(u32::from(length).to_le_bytes());
    file
}
