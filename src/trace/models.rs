//! How many KV bytes a token costs, by model.

use std::fmt;
use std::str::FromStr;

/// A model and its KV cache in bf16, from its published configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvModel {
    /// The model's name, lower case.
    pub name: &'static str,
    /// KV bytes of one token over all layers. Where layers keep only a window of the past, the
    /// most that a token can cost.
    pub bytes_per_token: u64,
}

const LLAMA_8B: KvModel = KvModel { name: "llama-3.1-8b", bytes_per_token: 131_072 };

/// Grouped-query attention: 2 · layers · KV heads · head size · 2 bytes.
/// Multi-head latent attention: layers · (latent rank + rotary size) · 2 bytes.
const MODELS: [KvModel; 10] = [
    LLAMA_8B,
    KvModel { name: "llama-3.1-70b", bytes_per_token: 327_680 },
    KvModel { name: "llama-3.1-405b", bytes_per_token: 516_096 },
    KvModel { name: "qwen3-8b", bytes_per_token: 147_456 },
    KvModel { name: "qwen3-32b", bytes_per_token: 262_144 },
    KvModel { name: "qwen3-235b-a22b", bytes_per_token: 192_512 },
    KvModel { name: "deepseek-v3", bytes_per_token: 70_272 },
    KvModel { name: "deepseek-r1", bytes_per_token: 70_272 },
    KvModel { name: "gpt-oss-20b", bytes_per_token: 49_152 },
    KvModel { name: "gpt-oss-120b", bytes_per_token: 73_728 },
];

impl KvModel {
    /// Every model known.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &MODELS
    }

    /// KV bytes of a prompt.
    #[must_use]
    pub fn kv_bytes(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.bytes_per_token)
    }
}

impl Default for KvModel {
    /// Llama 3.1 8B.
    fn default() -> Self {
        LLAMA_8B
    }
}

/// A model that is not in the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model: found {found:?}{hint}, allowed: {allowed}")]
pub struct UnknownModel {
    /// What was asked for, cut to a printable length.
    pub found: String,
    /// The name in the table that is nearest, if one is near.
    pub nearest: Option<&'static str>,
    hint: String,
    /// Every name.
    pub allowed: String,
}

impl FromStr for KvModel {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        let found: String = text.chars().take(80).collect();
        let wanted = found.to_lowercase();
        if let Some(model) = MODELS.iter().find(|model| model.name == wanted) {
            return Ok(*model);
        }
        let names = MODELS.map(|model| model.name);
        let distance = |name: &str| strsim::damerau_levenshtein(name, &wanted);
        let nearest = names.iter().copied().min_by_key(|name| distance(name));
        let nearest = nearest.filter(|name| distance(name) <= name.len() / 3);
        let hint = nearest.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default();
        Err(UnknownModel { found, nearest, hint, allowed: names.join(", ") })
    }
}

impl fmt::Display for KvModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_agrees_with_the_attention_formulas() {
        let of = |name: &str| name.parse::<KvModel>().unwrap().bytes_per_token;
        let grouped = |layers: u64, kv_heads: u64, head: u64| 2 * layers * kv_heads * head * 2;
        assert_eq!(of("Llama-3.1-8B"), grouped(32, 8, 128));
        assert_eq!(of("llama-3.1-70b"), grouped(80, 8, 128));
        assert_eq!(of("LLAMA-3.1-405b"), grouped(126, 8, 128));
        assert_eq!(of("Qwen3-8B"), grouped(36, 8, 128));
        assert_eq!(of("Qwen3-32B"), grouped(64, 8, 128));
        assert_eq!(of("Qwen3-235B-A22B"), grouped(94, 4, 128));
        assert_eq!(of("DeepSeek-V3"), 61 * (512 + 64) * 2);
        assert_eq!(of("DeepSeek-R1"), of("deepseek-v3"));
        assert_eq!(of("gpt-oss-20b"), grouped(24, 8, 64));
        assert_eq!(of("gpt-oss-120b"), grouped(36, 8, 64));
    }

    #[test]
    fn an_unknown_model_is_answered_with_the_nearest_name_only_where_one_is_near() {
        let nearest = |text: &str| text.parse::<KvModel>().unwrap_err().nearest;
        assert_eq!(nearest("llama-3-8b"), Some("llama-3.1-8b"));
        assert_eq!(nearest("llama3.1-70b"), Some("llama-3.1-70b"));
        assert_eq!(nearest("qwen-32b"), Some("qwen3-32b"));
        let far = "mistral-7b".parse::<KvModel>().unwrap_err().to_string();
        assert!(far.starts_with("model: found \"mistral-7b\", allowed: llama-3.1-8b, "), "{far}");
        assert!(far.ends_with("gpt-oss-120b"), "{far}");
        assert_eq!(["", "falcon-40b", "phi-3-8b"].map(nearest), [None; 3]);
    }

    #[test]
    fn kv_bytes_saturate() {
        assert_eq!(MODELS[0].kv_bytes(2), 262_144);
        assert_eq!(MODELS[0].kv_bytes(u64::MAX), u64::MAX);
    }
}
