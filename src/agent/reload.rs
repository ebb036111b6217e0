//! A configuration file that is read anew while the agent runs: what of it holds from then on, what
//! only the next start takes, and how every actor is told.

use std::collections::BTreeMap;
use std::path::Path;

use super::api::{Access, ApiError};
use super::{Agent, identity, settings};
use crate::config::{Config, ConfigError, TransferConfig};
use crate::net::{RenewError, TlsError};
use crate::{health, ledger, policy};

/// What came of reading the file anew. Keys are written as in the file, `section.key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Keys whose new value holds now.
    pub changed: Vec<String>,
    /// Keys whose new value the next start takes; the old one holds.
    pub at_next_start: Vec<String>,
}

/// Why a file was not taken. Everything is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The file cannot be read, or something is wrong with it; or what of it can be taken now does
    /// not go together with what cannot.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The certificate of the node cannot be used.
    #[error("tls: {0}")]
    Tls(#[from] TlsError),
    /// The running node cannot go on as the one that the certificate names.
    #[error("tls: {0}")]
    Renew(#[from] RenewError),
    /// The API's token or certificate cannot be used.
    #[error("api: {0}")]
    Api(#[from] ApiError),
}

impl Agent {
    /// Reads the configuration and every file that it names anew, all or nothing. What came of it
    /// is logged and counted (`seam_config_reloads_total`).
    ///
    /// # Errors
    /// [`ReloadError`]; everything is as it was.
    pub async fn reload(&self, file: &Path) -> Result<Reloaded, ReloadError> {
        let result = self.take(file).await;
        match &result {
            Ok(reloaded) => {
                for key in &reloaded.at_next_start {
                    tracing::warn!(%key, "changed in the configuration file: holds from the next start on");
                }
                let config = self.config.borrow().hash();
                tracing::info!(changed = ?reloaded.changed, %config, "the configuration was read anew");
                self.links.metrics.reloaded("ok");
            }
            Err(error) => {
                tracing::error!(%error, "the configuration was read anew and is not taken: the old one holds");
                self.links.metrics.reloaded("refused");
            }
        }
        result
    }

    async fn take(&self, file: &Path) -> Result<Reloaded, ReloadError> {
        let old = self.config.borrow().clone();
        let new = Config::load(file)?;
        let config = running(&old, &new);
        config.validate()?;
        let access = Access::load(&config.api)?;
        // A throw-away identity is made at the start and kept.
        if !config.tls.dev {
            let identity = identity(&config)?;
            if let Some(mesh) = self.links.mesh.get() {
                mesh.set_identity(&identity)?;
            }
            if let Some(rails) = self.links.rails.get() {
                rails.set_identity(&identity)?;
            }
        }
        self.api.set_access(access);
        self.links.tell_health(health::Input::Configure(settings::health(&config)));
        self.links.tell_policy(policy::Input::Configure(Box::new(settings::policy(&config))));
        if let Some(terms) = settings::ledger(&config) {
            self.links.tell_ledger(ledger::Input::Configure(Box::new(terms)));
        }
        self.links.metrics.configured(config.policy.profile.as_str(), &config.hash());
        let reloaded = Reloaded { changed: differences(&old, &config), at_next_start: differences(&config, &new) };
        self.config.send_replace(config.into());
        self.reloads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(reloaded)
    }
}

/// What holds in an agent that was started with `old` once it has read `new`.
fn running(old: &Config, new: &Config) -> Config {
    let mut config = old.clone();
    config.policy = new.policy.clone();
    config.probe = new.probe.clone();
    config.transfer = TransferConfig { mover: old.transfer.mover, ..new.transfer.clone() };
    config.api.token_file.clone_from(&new.api.token_file);
    config.api.tls.clone_from(&new.api.tls);
    if !old.tls.dev && !new.tls.dev {
        config.tls = new.tls.clone();
    }
    if let (Some(decode), Some(new)) = (&mut config.decode, &new.decode) {
        decode.max_sessions = new.max_sessions;
        decode.soft_fraction = new.soft_fraction;
        decode.kv_bytes = new.kv_bytes;
    }
    config
}

/// The keys in which two configurations differ.
fn differences(one: &Config, other: &Config) -> Vec<String> {
    let (one, other) = (leaves(one), leaves(other));
    let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    keys.into_iter().filter(|key| one.get(*key) != other.get(*key)).cloned().collect()
}

/// Every value of a configuration by its key; entries of a list by their place.
fn leaves(config: &Config) -> BTreeMap<String, toml::Value> {
    fn walk(key: String, value: toml::Value, found: &mut BTreeMap<String, toml::Value>) {
        let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
        match value {
            toml::Value::Table(table) => table.into_iter().for_each(|(name, value)| walk(below(&name), value, found)),
            toml::Value::Array(list) if list.iter().any(toml::Value::is_table) => {
                list.into_iter().enumerate().for_each(|(place, value)| walk(format!("{key}[{place}]"), value, found));
            }
            value => drop(found.insert(key, value)),
        }
    }
    let mut found = BTreeMap::new();
    // As `Config::to_toml`: it can be written.
    if let Ok(value) = toml::Value::try_from(config) {
        walk(String::new(), value, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"
        [node]
        name = "d0"
        roles = ["decode"]
        [tls]
        dev = true
        [decode]
        pool = "a"
        max_sessions = 4
        kv_bytes = "1MiB"
        [arena]
        path = "/dev/shm/x"
        size = "1MiB"
        [[rails]]
        name = "r0"
        bind = "127.0.0.1:0"
    "#;

    fn read(from: &str, to: &str) -> (Config, Config) {
        let (old, new) = (OLD.to_owned(), OLD.replace(from, to));
        assert_ne!(old, new);
        (Config::from_toml(&old, "old").unwrap(), Config::from_toml(&new, "new").unwrap())
    }

    #[test]
    fn what_can_change_does_and_is_named() {
        for (from, to, key) in [
            ("max_sessions = 4", "max_sessions = 5", "decode.max_sessions"),
            ("max_sessions = 4", "max_sessions = 4\nsoft_fraction = 0.5", "decode.soft_fraction"),
            ("[arena]", "[probe]\ninterval = \"500ms\"\n[arena]", "probe.interval"),
            ("[arena]", "[transfer]\nbudget = \"2s\"\n[arena]", "transfer.budget"),
            (
                "[arena]",
                "[policy.thresholds]\nlatency_degraded_ms = 4.0\n[arena]",
                "policy.thresholds.latency_degraded_ms",
            ),
            ("[arena]", "[api]\ntoken_file = \"/x\"\n[arena]", "api.token_file"),
        ] {
            let (old, new) = read(from, to);
            let running = running(&old, &new);
            assert_eq!(differences(&old, &running), [key]);
            assert_eq!(running, new);
        }
    }

    #[test]
    fn what_cannot_change_stays_and_is_named() {
        for (from, to, key) in [
            ("name = \"d0\"", "name = \"d1\"", "node.name"),
            ("pool = \"a\"", "pool = \"b\"", "decode.pool"),
            ("size = \"1MiB\"", "size = \"2MiB\"", "arena.size"),
            ("bind = \"127.0.0.1:0\"", "bind = \"127.0.0.2:0\"", "rails[0].bind"),
            ("[arena]", "[api]\nbind = \"127.0.0.1:1\"\n[arena]", "api.bind"),
            ("[arena]", "[transfer]\nmover = \"engine\"\n[arena]", "transfer.mover"),
            ("[arena]", "[mesh]\nseeds = [\"127.0.0.1:1\"]\n[arena]", "mesh.seeds"),
        ] {
            let (old, new) = read(from, to);
            let running = running(&old, &new);
            assert_eq!(running, old);
            assert_eq!(differences(&running, &new), [key]);
        }
    }

    #[test]
    fn a_value_that_fits_only_together_with_one_that_cannot_change_is_refused() {
        let (old, _) = read("name", "name ");
        let grown =
            OLD.replace("kv_bytes = \"1MiB\"", "kv_bytes = \"2MiB\"").replace("size = \"1MiB\"", "size = \"2MiB\"");
        let new = Config::from_toml(&grown, "new").unwrap();
        let error = running(&old, &new).validate().unwrap_err().to_string();
        assert!(error.contains("kv_bytes"), "{error}");
    }
}
