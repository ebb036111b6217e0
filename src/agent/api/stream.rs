//! Server-sent events. A reader that falls behind is told how much it missed; streams are few, and
//! end when the server does.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::Shared;
use super::problem::Refusal;

/// A comment is sent after so long without an event, so that a dead reader is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn events(State(api): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let receiver = api.service.events();
    stream(&api, receiver, |event| event.to_string())
}

pub(super) async fn arrivals(State(api): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let receiver = api.service.arrivals();
    stream(&api, receiver, |arrival| serde_json::to_string(arrival.as_ref()).unwrap_or_default())
}

fn stream<T: Clone + Send + 'static>(
    api: &Arc<Shared>,
    receiver: broadcast::Receiver<T>,
    text: impl Fn(&T) -> String + Send + 'static,
) -> Result<Response, Refusal> {
    let Ok(place) = Arc::clone(&api.streams).try_acquire_owned() else {
        api.metrics.dropped("api_streams");
        return Err(Refusal::overloaded("event streams", api.limits.streams));
    };
    let metrics = Arc::clone(&api.metrics);
    let events = BroadcastStream::new(receiver)
        .map(move |received| {
            // The place is free again when the stream is dropped.
            let _held = &place;
            Ok::<_, Infallible>(match received {
                Ok(event) => Event::default().data(text(&event)),
                Err(BroadcastStreamRecvError::Lagged(missed)) => {
                    metrics.dropped("event_stream");
                    Event::default().event("lagged").data(format!("{{\"kind\":\"lagged\",\"missed\":{missed}}}"))
                }
            })
        })
        .take_until(api.closing.clone().cancelled_owned());
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;

    use super::*;
    use crate::agent::api::Limits;
    use crate::agent::service::Service;
    use crate::metrics::Metrics;

    fn api(streams: usize) -> Arc<Shared> {
        let limits = Limits { streams, ..Limits::default() };
        Arc::new(Shared::new(
            Service::closed(),
            Arc::new(Metrics::new("reference", 1)),
            limits,
            crate::agent::api::Access::default(),
        ))
    }

    async fn text(body: Body) -> String {
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_reader_that_falls_behind_is_told_how_much_it_missed() {
        let api = api(1);
        let (sender, receiver) = broadcast::channel(2);
        for number in 0..5 {
            sender.send(number).unwrap();
        }
        drop(sender);
        let response = stream(&api, receiver, u32::to_string).unwrap();
        let text = text(response.into_body()).await;
        assert_eq!(text, "event: lagged\ndata: {\"kind\":\"lagged\",\"missed\":3}\n\ndata: 3\n\ndata: 4\n\n");
        assert!(api.metrics.render().contains("seam_queue_dropped_total{queue=\"event_stream\"} 1"));
    }

    #[tokio::test]
    async fn streams_past_the_limit_are_refused_until_one_ends() {
        let api = api(1);
        let (sender, _) = broadcast::channel::<u32>(2);
        let first = stream(&api, sender.subscribe(), u32::to_string).unwrap();
        assert!(stream(&api, sender.subscribe(), u32::to_string).is_err());
        drop(first);
        assert!(stream(&api, sender.subscribe(), u32::to_string).is_ok());
    }

    #[tokio::test]
    async fn a_stream_ends_when_the_server_shuts_down() {
        let api = api(1);
        let (sender, receiver) = broadcast::channel::<u32>(2);
        let response = stream(&api, receiver, u32::to_string).unwrap();
        api.closing.cancel();
        assert_eq!(text(response.into_body()).await, "");
        drop(sender);
    }
}
