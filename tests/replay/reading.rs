//! The forms that a trace may have, and what is said of one that has none of them.

use super::*;

#[test]
fn line_ends_byte_order_mark_gzip_quotes_and_further_columns_change_nothing() {
    let plain = run(TRACE, &reference()).unwrap();
    let windows = format!("\u{feff}{}\r\n\r\n", TRACE.replace('\n', "\r\n"));
    let quoted: String =
        TRACE.lines().map(|line| format!("\"{}\"\n", line.split(',').collect::<Vec<_>>().join("\" , \""))).collect();
    let like_json: String = TRACE.lines().map(|line| format!("[note],{line}\n")).collect();
    let further: String = TRACE.lines().map(|line| format!("note,{line},\n")).collect();
    let python = TRACE.replace("true", "True").replace("false", "False");
    for (what, bytes) in [
        ("CRLF and BOM", windows.clone().into_bytes()),
        ("gzip", gzip(TRACE)),
        ("gzip of CRLF and BOM", gzip(&windows)),
        ("two gzip members", [gzip(&TRACE[..700]), gzip(&TRACE[700..])].concat()),
        ("quotes", quoted.into_bytes()),
        ("further columns", further.into_bytes()),
        ("a first column that looks like JSON", like_json.into_bytes()),
        ("Python's flags", python.into_bytes()),
    ] {
        assert!(run(bytes, &reference()).unwrap() == plain, "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_the_columns_changes_nothing(order in Just((0..16_usize).collect::<Vec<_>>()).prop_shuffle()) {
        let shuffled: String = TRACE
            .lines()
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                order.iter().map(|&at| fields[at]).collect::<Vec<_>>().join(",") + "\n"
            })
            .collect();
        prop_assert!(run(shuffled, &reference()).unwrap() == run(TRACE, &reference()).unwrap());
    }
}

#[test]
fn several_files_are_one_history() {
    let lines: Vec<&str> = TRACE.lines().collect();
    let (first, second) = (lines[..9].join("\n"), [&lines[..1], &lines[9..]].concat().join("\n"));
    let mut choices = Choices::default();
    let mut parts = Replay::new(reference()).unwrap();
    parts.feed("1.csv", Cursor::new(first.clone()), &mut choices).unwrap();
    parts.feed("2.csv", Cursor::new(gzip(&second)), &mut choices).unwrap();
    assert!((parts.finish(), choices) == run(TRACE, &reference()).unwrap());

    let mut again = Replay::new(reference()).unwrap();
    again.feed("1.csv", Cursor::new(first.clone()), &mut ()).unwrap();
    let error = again.feed("2.csv", Cursor::new(first), &mut ()).unwrap_err().to_string();
    assert!(error.starts_with("2.csv, line 2, request_id: found \"r001\" again, after other requests"), "{error}");
}

#[test]
fn a_trace_that_was_split_without_its_header_or_within_a_request_is_told_so() {
    let lines: Vec<&str> = TRACE.lines().collect();
    let first_id = lines[1].split(',').nth(1).unwrap();
    assert_eq!(lines[2].split(',').nth(1), Some(first_id), "the first request has more than one row");
    let second = |second: String| {
        let mut parts = Replay::new(reference()).unwrap();
        parts.feed("1.csv", Cursor::new(lines[..2].join("\n")), &mut ()).unwrap();
        parts.feed("2.csv", Cursor::new(second), &mut ()).unwrap_err().to_string()
    };
    assert_eq!(
        second(lines[2..].join("\n")),
        "2.csv, line 1, the first line: found a row and no header, allowed a header in each file, also where one \
         trace is split into several"
    );
    let torn = second([&lines[..1], &lines[2..]].concat().join("\n"));
    let expected = format!(
        "2.csv, line 2, request_id: found {first_id:?} again, whose rows began in the file before, allowed all rows of \
         a request in one file"
    );
    assert_eq!(torn, expected);
}

#[test]
fn what_is_wrong_with_a_trace_is_said_with_file_line_and_column() {
    let after = |rows: &[&[(&str, &str)]]| {
        trace(&[&[row(&[])], rows.iter().map(|changes| row(changes)).collect::<Vec<_>>().as_slice()].concat())
    };
    let one = |column: &str, value: &str| after(&[&[("request_id", "r2"), (column, value)]]);
    let same = |column: &str, value: &str| after(&[&[("pool_id", "b"), (column, value)]]);
    let without = |column: &str| trace(&[row(&[])]).replacen(column, "other", 1);
    for (text, expected) in [
        (String::new(), "t.csv, line 1, the file: found no line, allowed a header and at least one request"),
        (format!("{HEADER}\r\n\r\n"), "t.csv, line 3, the file: found a header alone, allowed at least one request"),
        (
            "{\"timestamp\": 1}\n".into(),
            "t.csv, line 1, the first line: found JSON, allowed a CSV request trace, whose",
        ),
        (
            "{\"timestamp\": 1, \"latency_ms\": 2}\n".into(),
            "t.csv, line 1, the first line: found JSON, allowed a CSV request trace, whose",
        ),
        (
            "[\"a\", \"timestamp\", 3]\n".into(),
            "t.csv, line 1, the first line: found JSON, allowed a CSV request trace",
        ),
        (
            one("pool_id", "\"a\"\u{1b}[31m"),
            "t.csv, line 3, the line: found \"\\u{1b}[31m,2.0,0.5,0.0,1,8,0.75,0.7,30,0.3,false,true,0\", allowed a comma",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n".into(),
            "t.csv, line 1, the first line: found a trace of request lengths, which says nothing of pools, allowed a CSV",
        ),
        ("\u{1}\u{0}seam".into(), "t.csv, line 1, the first line: found binary data, allowed a CSV request trace"),
        ("a,b\n1,2\n".into(), "t.csv, line 1, the first line: found \"a,b\", allowed a CSV request trace"),
        (
            without("latency_ms"),
            "t.csv, line 1, the header: found no column latency_ms, allowed each of the columns once, in any order",
        ),
        (
            // All of them, however many.
            HEADER.replace('_', "."),
            "t.csv, line 1, the header: found no column request_id, workload_type, pool_id, latency_ms, jitter_ms, \
             drop_rate, max_capacity, soft_capacity_fraction, sla_ms, jitter_tolerance, is_release_path, \
             is_prefill_decode_strict, alternate_count, allowed each of the columns once, in any order",
        ),
        (
            HEADER.replace("timestamp", "Timestamp").replace("pool_id", "Pool ID").replace(",sla_ms", ""),
            "t.csv, line 1, the header: found no column timestamp, pool_id, sla_ms, but another spelling: \
             \"Timestamp\", \"Pool ID\", allowed each of the columns once, in any order",
        ),
        (
            HEADER.to_uppercase().replace('_', "-"),
            "t.csv, line 1, the header: found no column timestamp, request_id, workload_type, pool_id, latency_ms, \
             jitter_ms, drop_rate, occupancy, max_capacity, soft_capacity_fraction, criticality, sla_ms, \
             jitter_tolerance, is_release_path, is_prefill_decode_strict, alternate_count, but another spelling: \
             \"TIMESTAMP\", \"REQUEST-ID\", \"WORKLOAD-TYPE\", \"POOL-ID\", …, allowed each of the columns once",
        ),
        (
            trace(&[row(&[])]).replace('\n', "\r"),
            "t.csv, line 1, the line: found a CR inside it, allowed lines that end in LF or CRLF, not in CR alone",
        ),
        (
            format!("{HEADER}\n{}\r{}\r", row(&[]), row(&[("request_id", "r2")])),
            "t.csv, line 2, the line: found a CR inside it, allowed lines that end in LF or CRLF, not in CR alone",
        ),
        (
            format!("{HEADER},sla_ms\n"),
            "t.csv, line 1, the header: found sla_ms twice, allowed each of the columns once, in any order",
        ),
        (format!("{HEADER}\n1,2,3\n"), "t.csv, line 2, the line: found 3 fields, allowed 16, as in the header"),
        (one("pool_id", "\"a"), "t.csv, line 3, the line: found a quote that does not end, allowed quotes in pairs"),
        (one("timestamp", "soon"), "t.csv, line 3, timestamp: found \"soon\", allowed a date like 2026-05-02T09:00:03"),
        (
            one("timestamp", "2026-05-02T09:00:03"),
            "t.csv, line 3, timestamp: found \"2026-05-02T09:00:03\", allowed a date with Z or an offset like +02:00 at its \
             end: without one it is ambiguous",
        ),
        (
            one("timestamp", "1777712403000000"),
            "t.csv, line 3, timestamp: found \"1777712403000000\", allowed a number of seconds since 1970 below \
             100000000000, or of milliseconds from there on and below 100000000000000",
        ),
        (
            one("request_id", ""),
            "t.csv, line 3, request_id: found nothing, allowed 1 to 128 printable ASCII characters",
        ),
        (one("workload_type", "a b"), "t.csv, line 3, workload_type: found \"a b\", allowed 1 to 64 letters"),
        (one("pool_id", "a/b"), "t.csv, line 3, pool_id: found \"a/b\", allowed 1 to 64 letters"),
        (
            one("latency_ms", "NaN"),
            "t.csv, line 3, latency_ms: found \"NaN\", allowed a finite number of milliseconds, 0 to 86400000",
        ),
        (one("latency_ms", "-0.1"), "t.csv, line 3, latency_ms: found \"-0.1\", allowed a finite number"),
        (one("latency_ms", ""), "t.csv, line 3, latency_ms: found nothing, allowed a finite number"),
        (one("jitter_ms", "inf"), "t.csv, line 3, jitter_ms: found \"inf\", allowed a finite number of milliseconds"),
        (one("jitter_ms", "1e9"), "t.csv, line 3, jitter_ms: found \"1e9\", allowed a finite number of milliseconds"),
        (one("drop_rate", "1.5"), "t.csv, line 3, drop_rate: found \"1.5\", allowed a finite number, 0 to 1"),
        (
            one("max_capacity", "0"),
            "t.csv, line 3, max_capacity: found \"0\", allowed a whole number of sessions, 1 to",
        ),
        (
            one("occupancy", "9"),
            "t.csv, line 3, occupancy: found \"9\", allowed a whole number of sessions, 0 to max_capacity, which is 8",
        ),
        (one("occupancy", "-1"), "t.csv, line 3, occupancy: found \"-1\", allowed a whole number of sessions"),
        (one("occupancy", "1.5"), "t.csv, line 3, occupancy: found \"1.5\", allowed a whole number of sessions"),
        (
            one("soft_capacity_fraction", "0"),
            "t.csv, line 3, soft_capacity_fraction: found \"0\", allowed a number above 0, at most 1",
        ),
        (one("criticality", "1.01"), "t.csv, line 3, criticality: found \"1.01\", allowed a finite number, 0 to 1"),
        (one("sla_ms", "0"), "t.csv, line 3, sla_ms: found \"0\", allowed a finite number of milliseconds above 0"),
        (one("jitter_tolerance", "-inf"), "t.csv, line 3, jitter_tolerance: found \"-inf\", allowed a finite number"),
        (one("is_release_path", "yes"), "t.csv, line 3, is_release_path: found \"yes\", allowed true or false"),
        (one("alternate_count", "0.5"), "t.csv, line 3, alternate_count: found \"0.5\", allowed a whole number, 0 to"),
        (
            after(&[&[("request_id", "r2")], &[("pool_id", "b")]]),
            "t.csv, line 4, request_id: found \"r1\" again, after other requests, allowed the rows of one request next to",
        ),
        (
            after(&[&[]]),
            "t.csv, line 3, pool_id: found a a second time for r1, allowed each candidate of a request once",
        ),
        (
            same("workload_type", "batch"),
            "t.csv, line 3, workload_type: found \"batch\", allowed \"interactive\" as in the first row of r1",
        ),
        (
            same("criticality", "0.71"),
            "t.csv, line 3, criticality: found \"0.71\", allowed \"0.7\" as in the first row of r1",
        ),
        (same("sla_ms", "31"), "t.csv, line 3, sla_ms: found \"31\", allowed \"30\" as in the first row of r1"),
        (same("jitter_tolerance", "0.2"), "t.csv, line 3, jitter_tolerance: found \"0.2\", allowed \"0.3\" as in"),
        (same("is_release_path", "true"), "t.csv, line 3, is_release_path: found \"true\", allowed \"false\" as in"),
        (
            same("is_prefill_decode_strict", "0"),
            "t.csv, line 3, is_prefill_decode_strict: found \"0\", allowed \"true\"",
        ),
        (same("timestamp", "late"), "t.csv, line 3, timestamp: found \"late\", allowed a date"),
    ] {
        let error = run(&text, &reference()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}\nfound    {error}\nexpected {expected}");
        assert!(error.len() < 600, "{error}");
    }
}

#[test]
fn rows_of_one_request_may_write_the_same_differently_and_be_taken_a_little_later() {
    let second = row(&[
        ("pool_id", "b"),
        ("criticality", "0.70"),
        ("is_release_path", "FALSE"),
        ("timestamp", "2026-05-02T09:00:01Z"),
    ]);
    let (summary, _) = run(trace(&[row(&[]), second]), &reference()).unwrap();
    assert_eq!((summary.replay_requests, summary.replay_rows, summary.pools), (1, 2, 2));
    // Neither row counts the other as an alternate.
    assert_eq!(summary.unlisted_alternates, 1);
}

#[test]
fn text_that_is_none_an_endless_line_and_broken_compression_are_errors() {
    let mut bytes = trace(&[row(&[])]).into_bytes();
    bytes.extend(b"\xff\n");
    let error = run(&bytes, &reference()).unwrap_err().to_string();
    assert_eq!(error, "t.csv, line 3, the line: found other bytes, allowed UTF-8 text");

    let endless = Cursor::new(trace(&[row(&[])])).chain(std::io::repeat(b'x'));
    let error = replay("t.csv", endless, reference(), &mut ()).unwrap_err().to_string();
    assert_eq!(error, "t.csv, line 3, the line: found a longer line, allowed lines of at most 1048576 bytes");

    let mut half = gzip(TRACE);
    half.truncate(half.len() / 2);
    let error = run(half, &reference()).unwrap_err().to_string();
    assert_eq!(error, "t.csv: found broken gzip (incomplete deflate stream), allowed a whole gzip file, or plain text");
    let mut damaged = gzip(TRACE);
    // The first block is of a kind that there is not.
    damaged[10] = 0x07;
    let error = run(damaged, &reference()).unwrap_err().to_string();
    assert!(error.starts_with("t.csv: found broken gzip (") && error.ends_with("or plain text"), "{error}");
    // Nor is a line that has neither an end nor fits.
    let endless = "x\r".repeat(MAX_LINE_BYTES as usize);
    let error = run(endless, &reference()).unwrap_err().to_string();
    assert!(error.starts_with("t.csv, line 1, the line: found a CR inside it"), "{error}");
}

#[test]
fn a_request_has_a_bounded_number_of_candidates() {
    let rows = |count: usize| {
        let rows: Vec<String> = (0..count).map(|pool| row(&[("pool_id", &format!("p{pool}"))])).collect();
        trace(&rows)
    };
    let (summary, _) = run(rows(MAX_CANDIDATES), &only(&[Policy::Seam])).unwrap();
    assert_eq!((summary.replay_requests, summary.replay_rows), (1, 4096));
    let error = run(rows(MAX_CANDIDATES + 1), &reference()).unwrap_err().to_string();
    assert_eq!(error, "t.csv, line 4098, request_id: found more than 4096 rows of r1, allowed at most 4096 candidates");
}

#[test]
fn a_trace_is_decided_while_it_is_read_and_a_listener_that_fails_ends_it() {
    struct Tired(u32);
    impl Sink for Tired {
        fn placed(&mut self, _: &Placed<'_>) -> std::io::Result<()> {
            self.0 += 1;
            if self.0 < 1_000 { Ok(()) } else { Err(std::io::Error::other("enough")) }
        }
    }
    // What follows the rows has no end: a reader that looked ahead without a limit would never return.
    let rows: Vec<String> = (0..2_000).map(|request| row(&[("request_id", &format!("r{request}"))])).collect();
    let endless = Cursor::new(trace(&rows)).chain(std::io::repeat(b'x'));
    let mut tired = Tired(0);
    let error = replay("t.csv", endless, reference(), &mut tired).unwrap_err();
    assert!(matches!(error, ReplayError::Sink(_)), "{error}");
    assert_eq!(tired.0, 1_000);
}
