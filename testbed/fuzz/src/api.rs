//! Bodies of the HTTP API.

use seam::api::{CapacityReport, RouteRequest, SampleReport, TransferRequest};
use seam::transport::mock::Faults;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first byte says which body the rest is.
pub fn run(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    match choice % 5 {
        0 => read::<RouteRequest>(body),
        1 => read::<TransferRequest>(body),
        2 => read::<Vec<SampleReport>>(body),
        3 => read::<CapacityReport>(body),
        _ => {
            if let Some(faults) = accepted::<Faults>(body) {
                let _ = faults.validate();
            }
        }
    }
}

fn read<T: Serialize + DeserializeOwned>(body: &[u8]) {
    let _ = accepted::<T>(body);
}

/// What is accepted can be written, and reads back as the same.
fn accepted<T: Serialize + DeserializeOwned>(body: &[u8]) -> Option<T> {
    let value: T = serde_json::from_slice(body).ok()?;
    let written = serde_json::to_string(&value).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("and written again"), written);
    Some(value)
}

pub fn seeds() -> Vec<Vec<u8>> {
    let bodies: [&[u8]; 6] = [
        br#"{"workload":"interactive","kv_bytes":1048576,"request_id":"r-1","model":"m","source":"p0","exclude":["d0"],"transfer_budget_ms":500,"dry_run":true}"#,
        br#"{"lease":"d0.7.3","blocks":[{"offset":0,"bytes":65536},{"offset":131072,"bytes":1}]}"#,
        br#"[{"destination":"d0","duration_ms":3.5,"bytes":1024,"outcome":"ok"},{"source":"p0","destination":"d1","rail":"rail0","duration_ms":9e3,"bytes":0,"inflight_bytes":7,"outcome":"timeout","request_id":"r"}]"#,
        br#"{"active_sessions":3,"max_sessions":8,"kv_bytes_free":1073741824,"token_time_ms":12.5,"adopted":["d0.7.3"],"as_of":1800000000000}"#,
        br#"{"mode":"jitter","base_ms":7.0,"bandwidth_gbps":1.0,"seed":4,"peers":["d0"]}"#,
        br#"{"workload":"batch","kv_bytes":1}"#,
    ];
    bodies.iter().zip([0, 1, 2, 3, 4, 0]).flat_map(|(body, choice)| crate::chosen(choice, &[body])).collect()
}
