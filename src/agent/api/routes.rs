//! Every path and method of the API, in one place.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};

use super::guard::guard;
use super::problem::{no_such_method, no_such_path};
use super::{Shared, handlers, stream};

/// Methods and paths, as they stand in the OpenAPI document.
#[must_use]
pub fn route_list() -> Vec<(&'static str, &'static str)> {
    open().into_iter().chain(guarded()).map(|(method, path, _)| (method, path)).collect()
}

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let add = |router: Router<Arc<Shared>>, (_, path, handler): Route| router.route(path, handler);
    let guarded = guarded()
        .into_iter()
        .fold(Router::new(), add)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(Arc::clone(&shared), guard));
    let open = open().into_iter().fold(Router::new(), add).method_not_allowed_fallback(no_such_method);
    open.merge(guarded).fallback(no_such_path).with_state(shared)
}

type Route = (&'static str, &'static str, MethodRouter<Arc<Shared>>);

/// What needs no token.
fn open() -> Vec<Route> {
    vec![("get", "/healthz", get(handlers::healthz)), ("get", "/readyz", get(handlers::readyz))]
}

fn guarded() -> Vec<Route> {
    vec![
        ("get", "/metrics", get(handlers::metrics)),
        ("get", "/v1/openapi.json", get(handlers::openapi)),
        ("post", "/v1/route", post(handlers::route)),
        ("delete", "/v1/leases/{id}", delete(handlers::release_lease)),
        ("post", "/v1/leases/{id}/renew", post(handlers::renew_lease)),
        ("delete", "/v1/requests/{request_id}", delete(handlers::cancel_request)),
        ("post", "/v1/transfers", post(handlers::transfer)),
        ("get", "/v1/transfers/{id}", get(handlers::transfer_report)),
        ("get", "/v1/arrivals", get(stream::arrivals)),
        ("get", "/v1/events", get(stream::events)),
        ("post", "/v1/samples", post(handlers::samples)),
        ("put", "/v1/capacity", put(handlers::capacity)),
        ("post", "/v1/drain", post(handlers::drain)),
        ("delete", "/v1/drain", delete(handlers::undrain)),
        ("put", "/v1/faults", put(handlers::set_faults)),
        ("put", "/v1/overrides", put(handlers::set_override)),
        ("delete", "/v1/overrides", delete(handlers::withdraw_override)),
        ("get", "/v1/overrides", get(handlers::overrides)),
        ("get", "/v1/status", get(handlers::status)),
        ("get", "/v1/members", get(handlers::members)),
        ("get", "/v1/paths", get(handlers::paths)),
        ("get", "/v1/leases", get(handlers::leases)),
        ("get", "/v1/records", get(handlers::records)),
        ("get", "/v1/decisions", get(handlers::decisions)),
        ("get", "/v1/decisions/{id}", get(handlers::decision)),
    ]
}
