//! Outcomes and reason codes: one enum each for records, logs, metric labels and the CLI.

use serde::{Deserialize, Serialize};

macro_rules! coded {
    ($(#[$doc:meta])* $ty:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $ty {
            $($(#[$vdoc])* $variant),+
        }

        impl $ty {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The code on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl ::std::fmt::Display for $ty {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use coded;

coded!(
    /// Why a candidate was taken or refused.
    Reason {
        /// Nothing speaks against it.
        Admitted = "admitted",
        /// Degraded, and the class bears it.
        AdmittedDespiteDegradation = "admitted_despite_degradation",
        /// The path is quarantined or a candidate for it.
        RejectedPoolState = "rejected_pool_state",
        /// The propagation risk is above its limit.
        RejectedPrsTooHigh = "rejected_prs_too_high",
        /// The p99 latency is above the class's limit.
        RejectedLatencySlaViolation = "rejected_latency_sla_violation",
        /// The jitter is above what the class bears.
        RejectedJitterIntolerance = "rejected_jitter_intolerance",
        /// The class is too critical for a path in this state.
        RejectedCriticalityTooHighForState = "rejected_criticality_too_high_for_state",
        /// No session or no KV bytes free.
        RejectedCapacity = "rejected_capacity",
        /// Admitted, but not on the healthiest candidate.
        ReroutedToAlternate = "rerouted_to_alternate",
        /// No candidate was admissible.
        NoAdmissiblePool = "no_admissible_pool",
        /// Nothing was admissible; the least bad was taken.
        AdmittedLeastBad = "admitted_least_bad",
        /// Too few fresh samples.
        RejectedUnproven = "rejected_unproven",
        /// The telemetry went silent.
        RejectedStale = "rejected_stale",
        /// The host is draining.
        RejectedDraining = "rejected_draining",
        /// Another model or compatibility tag.
        RejectedIncompatible = "rejected_incompatible",
        /// The decode host refused the lease or did not answer.
        RejectedLeaseRefused = "rejected_lease_refused",
        /// The predicted time is above the transfer budget.
        RejectedTransferBudget = "rejected_transfer_budget",
        /// An operator excluded it.
        RejectedOverride = "rejected_override",
        /// The achieved bandwidth collapsed.
        RejectedBandwidth = "rejected_bandwidth",
    }
);

coded!(
    /// How a routing request ended.
    Outcome {
        /// The chosen path is healthy and the healthiest.
        Admitted = "admitted",
        /// The chosen path is degraded.
        AdmittedDespiteDegradation = "admitted_despite_degradation",
        /// The chosen path is not the healthiest.
        ReroutedToAlternate = "rerouted_to_alternate",
        /// The least bad path was taken.
        AdmittedLeastBad = "admitted_least_bad",
        /// Nothing was admissible.
        NoAdmissiblePool = "no_admissible_pool",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_equal_their_serialised_form() {
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_string(reason).unwrap(), format!("\"{reason}\""));
        }
        for outcome in Outcome::ALL {
            assert_eq!(serde_json::to_string(outcome).unwrap(), format!("\"{outcome}\""));
        }
    }
}
