//! The HTTP server in front of the use cases: what it refuses, how, and that its document is true.
//! The agent behind it is gone, so a call that passes every check is answered 503.

#![cfg(feature = "agent")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seam::agent::api::{ApiServer, Limits, route_list, serve};
use seam::agent::service::Service;
use seam::api::Problem;
use seam::client::{Client, ClientError};
use seam::config::ApiConfig;
use seam::metrics::Metrics;
use seam::transport::mock::{FaultMode, Faults};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn start(config: ApiConfig, limits: Limits) -> (ApiServer, Arc<Metrics>) {
    let config = ApiConfig { bind: "127.0.0.1:0".parse().unwrap(), ..config };
    let metrics = Arc::new(Metrics::new("reference", 16));
    let server = serve(&config, Service::closed(), Arc::clone(&metrics), limits).await.unwrap();
    (server, metrics)
}

async fn plain() -> ApiServer {
    start(ApiConfig::default(), Limits::default()).await.0
}

/// Sends bytes and reads until the server closes or `until` has come.
async fn raw(address: SocketAddr, request: &str, until: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while !String::from_utf8_lossy(&answer).contains(until) {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
        }
    }
    String::from_utf8(answer).unwrap()
}

async fn exchange(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, Value) {
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let request = format!("{method} {path} HTTP/1.1\r\nhost: seam\r\nconnection: close\r\n{headers}{length}\r\n{body}");
    let answer = raw(address, &request, "\u{0}").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), serde_json::from_str(body).unwrap_or(Value::Null))
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn bad_bodies_are_refused_with_the_field_and_the_place() {
    let server = plain().await;
    let cases = [
        (json!({"workload": "batch"}).to_string(), "kv_bytes", "missing field `kv_bytes`, line 1 column"),
        (r#"{"workload": "batch", "kv_byte": 1}"#.to_owned(), "kv_byte", "did you mean `kv_bytes`?"),
        (
            "{\"workload\": \"batch\",\n \"kv_bytes\": -1}".to_owned(),
            "kv_bytes",
            "invalid value: integer `-1`, expected u64, line 2 column",
        ),
        (r#"{"workload": "a b", "kv_bytes": 1}"#.to_owned(), "workload", "workload \"a b\" is not allowed"),
        (r#"{"workload": "batch", "kv_bytes": 1, "exclude": ["d0", 7]}"#.to_owned(), "exclude[1]", "expected"),
        ("{\"workload\": ".to_owned(), "workload", "EOF while parsing"),
    ];
    for (body, field, detail) in cases {
        let (status, head, problem) = exchange(server.address(), "POST", "/v1/route", JSON, &body).await;
        assert_eq!(status, 400, "{body}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        let problem: Problem = serde_json::from_value(problem).unwrap();
        assert!(problem.detail.contains(detail), "{detail} in {problem:?}");
        assert_eq!(problem.field.as_deref(), Some(field), "{problem:?}");
        assert_eq!(problem.kind, "/problems/bad-input");
    }
    let too_many = json!({"workload": "batch", "kv_bytes": 1, "exclude": vec!["d0"; 1001]}).to_string();
    let (status, _, problem) = exchange(server.address(), "POST", "/v1/route", JSON, &too_many).await;
    assert_eq!((status, &problem["field"]), (400, &json!("exclude")));
    server.shutdown().await;
}

#[tokio::test]
async fn every_call_answers_problem_details_when_the_agent_is_gone() {
    let server = plain().await;
    for (method, path, body) in [
        ("POST", "/v1/route", r#"{"workload": "batch", "kv_bytes": 1}"#),
        ("POST", "/v1/transfers", r#"{"lease": "d0.1.2", "blocks": [{"offset": 0, "bytes": 1}]}"#),
        ("POST", "/v1/samples", "[]"),
        ("PUT", "/v1/capacity", r#"{"active_sessions": 1}"#),
        ("POST", "/v1/leases/d0.1.2/renew", r#"{"ttl_ms": 5}"#),
        ("POST", "/v1/leases/d0.1.2/renew", ""),
        ("DELETE", "/v1/leases/d0.1.2", ""),
        ("DELETE", "/v1/requests/r%2F1", ""),
        ("GET", "/v1/decisions?class=batch&outcome=admitted&since=1&limit=5", ""),
        ("GET", "/v1/decisions/p0.1.2", ""),
        ("POST", "/v1/drain", ""),
        ("DELETE", "/v1/drain", ""),
        ("GET", "/v1/status", ""),
        ("GET", "/readyz", ""),
    ] {
        let headers = if body.is_empty() { "" } else { JSON };
        let (status, head, problem) = exchange(server.address(), method, path, headers, body).await;
        assert_eq!(status, 503, "{method} {path}: {problem}");
        assert!(head.contains("retry-after: 1"), "{head}");
        assert_eq!(problem["status"], 503);
    }
    assert_eq!(exchange(server.address(), "GET", "/healthz", "", "").await.0, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn wrong_paths_methods_types_and_queries_are_named() {
    let server = plain().await;
    let address = server.address();
    let (status, _, problem) = exchange(address, "GET", "/v2/route", "", "").await;
    assert_eq!((status, &problem["type"]), (404, &json!("/problems/not-found")));
    let (status, head, problem) = exchange(address, "GET", "/v1/route", "", "").await;
    assert_eq!((status, &problem["type"]), (405, &json!("/problems/wrong-method")));
    assert!(head.contains("allow: post"), "{head}");
    let (status, _, problem) = exchange(address, "POST", "/v1/route", "content-type: text/plain\r\n", "{}").await;
    assert_eq!((status, &problem["type"]), (415, &json!("/problems/wrong-type")));
    let (status, _, problem) = exchange(address, "POST", "/v1/leases/d0.1.2/renew", "", "x").await;
    assert_eq!(status, 415, "{problem}");
    let (status, _, problem) = exchange(address, "GET", "/v1/decisions?klass=batch", "", "").await;
    assert_eq!((status, &problem["field"]), (400, &json!("klass")));
    assert!(problem["detail"].as_str().unwrap().contains("did you mean `class`?"), "{problem}");
    let (status, _, problem) = exchange(address, "GET", "/v1/decisions?limit=0", "", "").await;
    assert_eq!((status, &problem["field"]), (400, &json!("limit")));
    let (status, _, problem) = exchange(address, "GET", "/v1/decisions?since=soon", "", "").await;
    assert_eq!((status, &problem["field"]), (400, &json!("since")));
    let (status, _, problem) = exchange(address, "DELETE", "/v1/leases/nonsense", "", "").await;
    assert_eq!((status, &problem["field"]), (400, &json!("lease")));
    let origin = "origin: http://evil.example\r\n";
    assert_eq!(exchange(address, "POST", "/v1/drain", origin, "").await.0, 403);
    server.shutdown().await;
}

#[tokio::test]
async fn a_body_past_its_limit_is_refused_without_being_read() {
    let limits = Limits { large_body_bytes: 2000, body_bytes: 1000, samples: 3, ..Limits::default() };
    let (server, _) = start(ApiConfig::default(), limits).await;
    // The body is announced and never sent: an answer can only come without reading it.
    let head = "POST /v1/route HTTP/1.1\r\nhost: seam\r\ncontent-type: application/json\r\n";
    let answer = raw(server.address(), &format!("{head}content-length: 100000000\r\n\r\n"), "\u{0}").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("found 100000000 bytes, allowed at most 1000 bytes"), "{answer}");
    // A body that does not announce itself is cut off where it passes the limit.
    let chunk = format!("800\r\n{}\r\n", "x".repeat(0x800));
    let answer = raw(server.address(), &format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}"), "\u{0}").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");

    let sample = json!({"destination": "d0", "duration_ms": 1.0, "bytes": 1, "outcome": "ok"});
    let (status, _, problem) =
        exchange(server.address(), "POST", "/v1/samples", JSON, &json!(vec![sample; 4]).to_string()).await;
    assert_eq!((status, &problem["field"]), (400, &json!("samples")));
    server.shutdown().await;
}

#[tokio::test]
async fn a_client_that_sends_its_body_too_slowly_is_cut_off() {
    let limits = Limits { body_timeout: Duration::from_millis(50), ..Limits::default() };
    let (server, _) = start(ApiConfig::default(), limits).await;
    let head = "POST /v1/route HTTP/1.1\r\nhost: seam\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{";
    let answer = raw(server.address(), head, "\u{0}").await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    server.shutdown().await;
}

#[tokio::test]
async fn a_client_that_never_finishes_its_head_is_cut_off() {
    let limits = Limits { head_timeout: Duration::from_millis(50), ..Limits::default() };
    let (server, _) = start(ApiConfig::default(), limits).await;
    let answer = raw(server.address(), "GET /healthz HTTP/1.1\r\nx-slow: ", "\u{0}").await;
    assert!(!answer.contains("200 OK"), "{answer}");
    server.shutdown().await;
}

#[tokio::test]
async fn requests_at_once_and_connections_are_bounded_and_counted() {
    let limits = Limits { requests: 1, connections: 2, ..Limits::default() };
    let (server, metrics) = start(ApiConfig::default(), limits).await;
    // A request whose body is awaited holds the only place.
    let mut holder = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /v1/route HTTP/1.1\r\nhost: seam\r\ncontent-type: application/json\r\n\
                content-length: 10\r\nexpect: 100-continue\r\n\r\n";
    holder.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    holder.read_exact(&mut go_on).await.unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"));
    let (status, head, problem) = exchange(server.address(), "GET", "/v1/status", "", "").await;
    assert_eq!((status, &problem["type"]), (503, &json!("/problems/overloaded")));
    assert!(head.contains("retry-after: 1"));
    assert_eq!(exchange(server.address(), "GET", "/healthz", "", "").await.0, 200);

    let _second = TcpStream::connect(server.address()).await.unwrap();
    let third = raw(server.address(), "GET /healthz HTTP/1.1\r\nhost: seam\r\n\r\n", "\u{0}").await;
    assert_eq!(third, "", "a connection past the limit is closed");
    let text = metrics.render();
    assert!(text.contains("seam_queue_dropped_total{queue=\"api_requests\"} 1"), "{text}");
    assert!(text.contains("seam_queue_dropped_total{queue=\"api_connections\"} 1"), "{text}");
    drop(holder);
    server.shutdown().await;
}

#[tokio::test]
async fn a_token_is_needed_where_one_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "correct-horse-battery\n").unwrap();
    let config = ApiConfig { token_file: Some(token_file), ..ApiConfig::default() };
    let (server, _) = start(config, Limits::default()).await;
    let url = format!("http://{}", server.address());
    for token in [None, Some("correct-horse-batterz")] {
        let error = Client::new(&url, token).unwrap().get::<Value>("/v1/status").await.unwrap_err();
        assert_eq!(error.status(), Some(401), "{error}");
    }
    assert_eq!(Client::new(&url, None).unwrap().text("/healthz").await.unwrap(), "ok\n");
    let right = Client::new(&url, Some("correct-horse-battery")).unwrap();
    assert_eq!(right.get::<Value>("/v1/status").await.unwrap_err().status(), Some(503));
    assert!(right.get::<Value>("/v1/openapi.json").await.is_ok());
    server.shutdown().await;

    let short = folder.path().join("short");
    std::fs::write(&short, "abc").unwrap();
    let config = ApiConfig { token_file: Some(short), bind: "127.0.0.1:0".parse().unwrap(), ..ApiConfig::default() };
    let metrics = Arc::new(Metrics::new("reference", 1));
    let error = serve(&config, Service::closed(), metrics, Limits::default()).await.err().unwrap().to_string();
    assert!(error.contains("api.token_file") && error.contains("at least 16"), "{error}");
}

#[tokio::test]
async fn the_client_reaches_a_unix_socket_and_says_what_it_could_not_reach() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("api.sock");
    let config = ApiConfig { socket: Some(socket.clone()), ..ApiConfig::default() };
    let (server, _) = start(config.clone(), Limits::default()).await;
    let url = format!("unix://{}", socket.display());
    let client = Client::new(&url, None).unwrap();
    // The second call goes over the connection of the first.
    for _ in 0..2 {
        assert_eq!(client.text("/healthz").await.unwrap(), "ok\n");
    }
    server.shutdown().await;
    assert!(!socket.exists());
    let error = client.text("/healthz").await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("GET unix://"), "{error}");

    // What a killed agent left behind is replaced.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let (server, _) = start(config, Limits::default()).await;
    assert_eq!(client.text("/healthz").await.unwrap(), "ok\n");
    server.shutdown().await;
}

#[tokio::test]
async fn https_is_spoken_where_a_certificate_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = Some(seam::config::ApiTls { cert, key });
    let (server, _) = start(ApiConfig { tls, ..ApiConfig::default() }, Limits::default()).await;

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let mut stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.shutdown().await;
}

fn document() -> Value {
    serde_json::from_str(&std::fs::read_to_string("docs/openapi.json").unwrap()).unwrap()
}

#[test]
fn the_document_lists_exactly_the_routes_of_the_server() {
    let document = document();
    let mut documented = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            documented.insert((method.clone(), path.clone()));
        }
    }
    let served: BTreeSet<_> =
        route_list().into_iter().map(|(method, path)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(documented, served);
}

#[test]
fn every_reference_of_the_document_resolves() {
    fn walk(value: &Value, document: &Value, seen: &mut usize) {
        match value {
            Value::Object(map) => {
                if let Some(reference) = map.get("$ref") {
                    let pointer = reference.as_str().unwrap().trim_start_matches('#');
                    assert!(document.pointer(pointer).is_some(), "{pointer}");
                    *seen += 1;
                }
                map.values().for_each(|value| walk(value, document, seen));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, document, seen)),
            _ => {}
        }
    }
    let (document, mut seen) = (document(), 0);
    walk(&document, &document, &mut seen);
    assert!(seen > 50);
}

#[tokio::test]
async fn the_bodies_in_the_document_have_the_fields_of_the_server() {
    let document = document();
    let server = plain().await;
    let address = server.address();
    for (method, path) in [
        ("post", "/v1/route"),
        ("post", "/v1/transfers"),
        ("post", "/v1/samples"),
        ("put", "/v1/capacity"),
        ("post", "/v1/leases/{id}/renew"),
    ] {
        let schema = &document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"];
        let list = schema["type"] == "array";
        let reference = if list { &schema["items"]["$ref"] } else { &schema["$ref"] };
        let schema = document.pointer(reference.as_str().unwrap().trim_start_matches('#')).unwrap();
        let mut documented: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        documented.sort();

        let body = if list { r#"[{"zzz": 1}]"# } else { r#"{"zzz": 1}"# };
        let url = path.replace("{id}", "d0.1.2");
        let (_, _, problem) = exchange(address, &method.to_uppercase(), &url, JSON, body).await;
        let detail = problem["detail"].as_str().unwrap();
        let known = detail.split_once("(known: ").unwrap().1.split_once(')').unwrap().0;
        let mut served: Vec<_> = known.split(", ").map(str::to_owned).collect();
        served.sort();
        assert_eq!(documented, served, "{path}");
    }
    let mut faults: Vec<_> =
        document["components"]["schemas"]["Faults"]["properties"].as_object().unwrap().keys().collect();
    faults.retain(|name| *name != "rail");
    let full = Faults { bandwidth_gbps: Some(1.0), ..Faults::new(FaultMode::Collapse) };
    let Value::Object(fields) = serde_json::to_value(full).unwrap() else { panic!() };
    assert_eq!(faults, fields.keys().collect::<Vec<_>>());
    server.shutdown().await;
}

#[test]
fn answers_of_the_types_fit_the_document() {
    let mut document = document();
    let lease = json!({"id": "d0.1.2", "kv_bytes": 1, "extents": [{"offset": 0, "bytes": 65536}], "ttl_ms": 5});
    let path = json!({"source": "p0", "destination": "d0", "rail": "r0", "backend": "quic"});
    let health = json!({"state": "healthy", "gfs": 0.1, "p99_latency_ms": 1.0, "jitter_ms": 0.1,
        "mean_drop_rate": 0.0, "sample_count": 3});
    fn again<T: serde::de::DeserializeOwned + serde::Serialize>(value: Value) -> Value {
        serde_json::to_value(serde_json::from_value::<T>(value).unwrap()).unwrap()
    }
    use seam::api;
    let answers = [
        ("Done", again::<api::Done>(json!({"changed": true, "detail": "x"}))),
        ("Problem", again::<Problem>(json!({"type": "x", "title": "x", "status": 400, "detail": "x", "field": "x"}))),
        ("SampleVerdict", again::<api::SampleVerdict>(json!({"accepted": false, "reason": "late"}))),
        (
            "Arrival",
            again::<api::Arrival>(json!({"lease": "d0.1.2", "request_id": "r", "source": "p0", "bytes": 1,
            "extents": [{"offset": 0, "bytes": 65536}], "hash": "00"})),
        ),
        (
            "TransferReport",
            again::<api::TransferReport>(json!({"id": "d0.1.2", "request_id": "r",
            "result": "delivered", "attempts": [{"decision": "p0.1.1", "path": path, "lease": "d0.1.2",
            "result": "failed", "error": "x", "elapsed_ms": 1.0}], "lease": lease, "bytes": 1, "hash": "00",
            "elapsed_ms": 1.0})),
        ),
        (
            "Status",
            again::<api::Status>(json!({"node": "p0", "cluster": "c", "generation": 1, "roles": ["decode"],
            "pool": "a", "version": "0", "profile": "reference", "mover": "seam", "config_hash": "0",
            "uptime_ms": 1, "draining": false, "ready": true, "mesh_addr": "x", "arena": ["/x", 1],
            "members_alive": 1, "paths": [["healthy", 1]], "decisions": 1, "leases_granted": 1, "leases_held": 1})),
        ),
        (
            "MemberLine",
            again::<api::MemberLine>(json!({"node": "p0", "generation": 1, "state": "alive",
            "mesh_addr": "x", "roles": ["decode"], "pool": null, "sessions": [1, 2], "kv_bytes_free": 1,
            "draining": false})),
        ),
        (
            "PathLine",
            again::<api::PathLine>(json!({"path": path, "pool": "a", "health": health, "evidence": "own",
            "age_ms": 1})),
        ),
        (
            "LeaseLine",
            again::<api::LeaseLine>(json!({"id": "d0.1.2", "state": "granted", "holder": "p0",
            "request_id": "r", "kv_bytes": 1, "extents": [], "expires_in_ms": null})),
        ),
    ];
    for (name, answer) in answers {
        document["$ref"] = json!(format!("#/components/schemas/{name}"));
        let validator = jsonschema::validator_for(&document).unwrap();
        let errors: Vec<_> = validator.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let documented: BTreeSet<_> =
            document["components"]["schemas"][name]["properties"].as_object().unwrap().keys().collect();
        assert_eq!(documented, answer.as_object().unwrap().keys().collect(), "{name}");
    }
}
