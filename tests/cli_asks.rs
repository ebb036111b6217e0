//! `seamctl` in front of an agent whose answers are known.

#![cfg(feature = "agent")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::process::{Command, Stdio};

use axum::extract::{Path, RawQuery};
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use seam::model::Profile;
use seam::whatif::decide_line;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const LINE: &str = r#"{"workload": "interactive", "pools": [
    {"pool_id": "a", "samples": [[2.1, 0.0], [2.0, 0.0]]}, {"pool_id": "b", "samples": [[90.0, 0.0], [2.0, 0.0]]}]}"#;

fn record() -> Value {
    let mut value = serde_json::to_value(decide_line(LINE, Profile::Reference, 7).unwrap()).unwrap();
    value["ts"] = json!(1_722_470_400_123_u64);
    value
}

fn of_class(class: &str) -> Value {
    let mut value = record();
    value["workload"]["name"] = json!(class);
    value
}

fn path(destination: &str, state: &str) -> Value {
    json!({
        "path": {"source": "prefill-0", "destination": destination, "rail": "rail0", "backend": "quic"},
        "pool": "pool-a", "evidence": "own", "age_ms": 850,
        "health": {"state": state, "gfs": 0.2345678, "p99_latency_ms": 7.123, "jitter_ms": 1.5,
            "mean_drop_rate": 0.012, "sample_count": 10},
    })
}

/// Starts the agent and says where it is.
async fn agent() -> String {
    let status = json!({"node": "prefill-0", "cluster": "seam", "generation": 17, "roles": ["prefill", "decode"],
        "pool": "pool-a", "version": "0.1.0", "profile": "reference", "mover": "seam",
        "config_hash": "0123456789abcdef", "uptime_ms": 3_725_000, "draining": false, "ready": true,
        "mesh_addr": "127.0.0.1:7981", "arena": ["/dev/shm/seam", 268_435_456], "members_alive": 3,
        "paths": [["healthy", 2], ["degraded_usable", 1]], "decisions": 12, "leases_granted": 0, "leases_held": 2});
    let members = json!([
        {"node": "decode-0", "generation": 3, "state": "alive", "mesh_addr": "127.0.0.1:7991", "roles": ["decode"],
         "pool": "pool-a", "sessions": [3, 8], "kv_bytes_free": 134_217_728, "draining": true},
        {"node": "x".repeat(64), "generation": 3, "state": "down", "mesh_addr": "[2001:db8::1]:7991", "roles": [],
         "pool": null, "sessions": null, "kv_bytes_free": null, "draining": false}]);
    let leases = json!([{"id": "decode-0.3.9", "state": "held", "holder": "prefill-0", "request_id": "r-1",
        "kv_bytes": 1_048_576, "extents": [], "expires_in_ms": 4200}]);
    let done = || Json(json!({"changed": true, "detail": "it is so"}));
    let router = Router::new()
        .route("/v1/status", get(move || async { Json(status) }))
        .route("/v1/members", get(move || async { Json(members) }))
        .route(
            "/v1/paths",
            get(|| async { Json(json!([path("decode-0", "healthy"), path("decode-1", "degraded_usable")])) }),
        )
        .route("/v1/leases", get(move || async { Json(leases) }))
        .route(
            "/v1/leases/{id}",
            delete(move |Path(id): Path<String>| async move {
                assert_eq!(id, "decode-0.3.9");
                done()
            }),
        )
        .route("/v1/drain", post(move || async move { done() }).delete(move || async move { done() }))
        .route(
            "/v1/route",
            post(|Json(body): Json<Value>| async move {
                assert_eq!(body["kv_bytes"], json!(2_097_152));
                assert_eq!(body["exclude"], json!(["decode-1"]));
                Json(record())
            }),
        )
        .route(
            "/v1/decisions",
            get(|RawQuery(query): RawQuery| async move {
                assert_eq!(query.as_deref(), Some("limit=5&class=interactive&outcome=admitted"));
                Json(json!([record()]))
            }),
        )
        .route(
            "/v1/decisions/{id}",
            get(|Path(id): Path<String>| async move {
                if id == "what-if.0.7" {
                    return (StatusCode::OK, Json(record()));
                }
                let problem = json!({"type": "/problems/not-found", "title": "There is no such thing", "status": 404,
                "detail": format!("decision {id} is not known here")});
                (StatusCode::NOT_FOUND, Json(problem))
            }),
        )
        .route(
            "/v1/events",
            get(|| async {
                let event = |value: Value| Ok::<_, std::convert::Infallible>(Event::default().data(value.to_string()));
                Sse::new(futures_util::stream::iter([
                    event(json!({"kind": "member", "node": "d", "state": "alive"})),
                    event(json!({"kind": "decision", "record": of_class("batch")})),
                    event(json!({"kind": "lagged", "missed": 3})),
                    event(json!({"kind": "decision", "record": of_class("interactive")})),
                ]))
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Runs `seamctl` against it: status, standard output, standard error.
async fn ask(url: &str, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seamctl"));
    command.args(args).env("SEAM_AGENT", url).env_remove("SEAM_TOKEN_FILE").stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn tables_fit_a_hundred_columns_and_say_what_to_look_at_next() {
    let url = agent().await;
    let mut all = String::new();
    let cases: [&[&str]; 9] = [
        &["status"],
        &["members"],
        &["paths"],
        &["lease", "list"],
        &["lease", "release", "decode-0.3.9"],
        &["drain"],
        &["undrain"],
        &["decisions", "--limit", "5", "--class", "interactive", "--outcome", "admitted"],
        &["explain", "what-if.0.7"],
    ];
    for args in cases {
        let (status, out, err) = ask(&url, args).await;
        assert_eq!((status, err.as_str()), (0, ""), "{args:?}");
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
        assert!(out.contains("\nNext: ") || out.contains(". Next: "), "{out}");
        assert!(!out.contains('\u{1b}'), "colour without a terminal");
        all.push_str(&format!("$ seamctl {}\n{out}\n", args.join(" ")));
    }
    insta::assert_snapshot!("seamctl_tables", all);
}

#[tokio::test]
async fn json_is_the_answer_as_it_came() {
    let url = agent().await;
    for args in [&["status", "--json"][..], &["members", "--json"], &["paths", "--json"], &["lease", "list", "--json"]]
    {
        let (status, out, _) = ask(&url, args).await;
        assert_eq!(status, 0);
        assert!(serde_json::from_str::<Value>(&out).is_ok(), "{args:?}: {out}");
    }
    let (_, out, _) = ask(&url, &["explain", "what-if.0.7", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), record());
}

#[tokio::test]
async fn route_sends_what_was_asked_for() {
    let url = agent().await;
    let (status, out, err) = ask(&url, &["route", "interactive", "--bytes", "2MiB", "--exclude", "decode-1"]).await;
    assert_eq!(status, 0, "{err}");
    assert!(out.starts_with("decision what-if.0.7"), "{out}");
}

#[tokio::test]
async fn follow_prints_the_decisions_that_fit_and_says_what_it_missed() {
    let url = agent().await;
    let (status, out, err) = ask(&url, &["decisions", "--follow", "--class", "interactive"]).await;
    assert_eq!(status, 0, "{err}");
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(out.starts_with("00:00:00.123  what-if.0.7  interactive  "), "{out}");
    assert!(err.contains("3 events were missed"), "{err}");
    let (_, out, _) = ask(&url, &["decisions", "--follow", "--json"]).await;
    assert_eq!(out.lines().count(), 2);
    assert_eq!(serde_json::from_str::<Value>(out.lines().next().unwrap()).unwrap(), of_class("batch"));
}

#[tokio::test]
async fn a_decision_that_is_not_known_is_status_one_with_the_agents_words() {
    let url = agent().await;
    let (status, out, err) = ask(&url, &["explain", "p0.1.2"]).await;
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("There is no such thing (404): decision p0.1.2 is not known here"), "{err}");
}
