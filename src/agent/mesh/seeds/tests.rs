use std::sync::Mutex;

use tokio::time::{Instant, sleep};

use super::*;

/// A seed's entry in the name service over time, and what was done about it.
#[derive(Clone)]
struct Zone {
    started: Instant,
    /// From when on the name leads where.
    entries: Arc<Vec<(Duration, Option<SocketAddr>)>>,
    /// Who listens where, and until when.
    listeners: Arc<Vec<(SocketAddr, &'static str, Duration)>>,
    lookups: Arc<Mutex<Vec<Duration>>>,
    seen: Arc<Mutex<Vec<(Duration, NodeName, SocketAddr)>>>,
}

impl Seek for Zone {
    fn resolve<'a>(&'a self, _: &'a HostPort) -> BoxFuture<'a, Vec<SocketAddr>> {
        let now = self.started.elapsed();
        self.lookups.lock().unwrap().push(now);
        let entry = self.entries.iter().rev().find(|(from, _)| *from <= now).and_then(|(_, addr)| *addr);
        Box::pin(async move { entry.into_iter().collect() })
    }

    fn connect(&self, addr: SocketAddr) -> BoxFuture<'_, Result<Option<NodeName>, NetError>> {
        Box::pin(async move {
            match self.listeners.iter().find(|(at, _, until)| *at == addr && self.started.elapsed() < *until) {
                Some((_, name, _)) => Ok(Some(NodeName::new(name).unwrap())),
                None => {
                    sleep(Duration::from_secs(5)).await;
                    Err(NetError::Unreachable { addr, detail: "no answer".to_owned() })
                }
            }
        })
    }

    fn connected(&self, node: &NodeName) -> bool {
        self.listeners.iter().any(|(_, name, until)| *name == node.as_str() && self.started.elapsed() < *until)
    }

    fn seen(&self, node: NodeName, addr: SocketAddr) -> BoxFuture<'_, bool> {
        self.seen.lock().unwrap().push((self.started.elapsed(), node, addr));
        Box::pin(async { true })
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_seed_whose_name_leads_nowhere_and_then_elsewhere_is_looked_up_until_it_answers() {
    let [first, second]: [SocketAddr; 2] = ["10.0.0.1:7981", "[2001:db8::2]:7981"].map(|text| text.parse().unwrap());
    let zone = Zone {
        started: Instant::now(),
        entries: Arc::new(vec![(60 * SECOND, Some(first)), (120 * SECOND, Some(second))]),
        listeners: Arc::new(vec![(first, "s", 119 * SECOND), (second, "s2", 1_000 * SECOND)]),
        lookups: Arc::default(),
        seen: Arc::default(),
    };
    let following = tokio::spawn(follow("seed.example".parse().unwrap(), zone.clone()));
    sleep(180 * SECOND).await;
    following.abort();

    let lookups = zone.lookups.lock().unwrap().clone();
    let in_vain = lookups.iter().filter(|at| **at < 60 * SECOND).count();
    assert!((12..=20).contains(&in_vain), "{in_vain} look-ups in the minute without an address");
    assert!(lookups.windows(2).take(in_vain).all(|pair| pair[1] - pair[0] <= RETRY.1));
    let seen = zone.seen.lock().unwrap().clone();
    let (at, node, addr) = seen.first().unwrap();
    assert!(*at >= 60 * SECOND && *at <= 60 * SECOND + RETRY.1, "{at:?}");
    assert_eq!((node.as_str(), *addr), ("s", first));
    // It went away while its name still led there; then the name led elsewhere.
    let (at, node, addr) = seen.iter().find(|(_, _, addr)| *addr != first).unwrap();
    assert!(*at >= 120 * SECOND && *at <= 120 * SECOND + LOOK + 2 * RETRY.1, "{at:?}");
    assert_eq!((node.as_str(), *addr), ("s2", second));
}
