//! What the scenarios share.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, SanType};
use seam::mesh::{MeshSize, RecordSigner, node_uri};
use seam::model::{NodeName, PathId, PathState, WorkloadName};
use seam::sim::{Action, Arrivals, Gossip, Key, Settings, World};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const SECOND: u64 = 1_000;

pub(crate) fn class(name: &str) -> WorkloadName {
    name.parse().unwrap()
}

/// The settings that the scenarios start from.
pub(crate) fn settings(seed: u64, prefill: usize, decode: usize) -> Settings {
    Settings::new(seed, prefill, decode)
}

pub(crate) fn world(settings: Settings) -> World {
    World::new(settings).unwrap()
}

/// A world that has run for long enough to know itself and its paths.
pub(crate) fn warm(settings: Settings) -> World {
    let mut world = world(settings);
    world.run(12 * SECOND);
    world
}

/// The stream of a mixed cluster.
pub(crate) fn mixed(per_s: f64, median_bytes: u64, until_ms: u64) -> Arrivals {
    Arrivals {
        per_s,
        classes: vec![(class("batch"), 45.0), (class("interactive"), 40.0), (class("release"), 15.0)],
        median_bytes,
        sigma: 0.5,
        limits_bytes: (64 * 1024, 8 * median_bytes),
        until_ms,
    }
}

/// Nothing that must never happen has happened.
pub(crate) fn sound(world: &World, what: &str) {
    let audit = world.audit();
    assert_eq!(audit.over_commits, 0, "{what}: over-commits");
    assert_eq!(audit.double_grants, 0, "{what}: pages granted twice");
    assert_eq!(audit.late_writes, 0, "{what}: pages granted while somebody could write into them");
    assert_eq!(world.refused(), 0, "{what}: the simulator itself ran out of room");
    assert_eq!(audit.settings_refused, 0, "{what}");
}

/// The state of a path as its source's health core has it.
pub(crate) fn state(world: &World, node: usize, path: &PathId) -> PathState {
    world.health(node).unwrap().paths().find(|(id, _)| *id == path).unwrap().1.state
}

/// Sessions of a decode host that are not free, in any stage.
pub(crate) fn held(world: &World, node: usize) -> usize {
    world.ledger(node).map_or(0, |ledger| ledger.held().count())
}

/// Does something now and undoes it after so many milliseconds.
pub(crate) fn for_a_while(world: &mut World, ms: u64, what: Action, undone: Action) {
    world.act(what);
    world.at(world.now_ms() + ms, undone);
}

/// The real mesh for as many hosts, with certificates of one throw-away authority.
pub(crate) fn cores(size: MeshSize, prefill: usize, decode: usize) -> Gossip {
    let cluster = "test".to_owned();
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_der = params.self_signed(&key).unwrap().der().to_vec();
    let issuer = Issuer::new(params, key);
    let issue = |name: String| {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let uri = node_uri(&cluster, &NodeName::new(&name).unwrap());
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        let certificate = params.signed_by(&key, &issuer).unwrap().der().to_vec();
        Key { certificate, signer: Arc::new(RecordSigner::from_pkcs8(&key.serialize_der()).unwrap()) }
    };
    let names = (0..prefill).map(|i| format!("p{i}")).chain((0..decode).map(|i| format!("d{i}")));
    let keys = names.map(issue).collect();
    Gossip::Cores { size, cluster, ca_der, keys }
}
