//! Why the mesh does not believe something.

use serde::{Deserialize, Serialize};

crate::model::coded!(
    /// Why a packet, a record or a claim about a member was refused. Nothing changed.
    Refusal {
        /// The bytes are no such message, or a number in it is impossible.
        Malformed = "malformed",
        /// The packet names a sender that its certificate does not.
        WrongSource = "wrong_source",
        /// A life that begins more than a day from now.
        FutureGeneration = "future_generation",
        /// A record of an earlier life, or one already replaced.
        Stale = "stale",
        /// A sequence number absurdly far ahead of the last one.
        SequenceJump = "sequence_jump",
        /// The signature is not the origin's.
        BadSignature = "bad_signature",
        /// The certificate is not one of this cluster for this node, or its time is over.
        BadCertificate = "bad_certificate",
        /// A record of a node that does not take part, or not in that life.
        UnknownOrigin = "unknown_origin",
        /// A record whose origin's own record, and so its key, is not known yet.
        UnknownKey = "unknown_key",
        /// A record in this node's own name that it never wrote.
        OwnName = "own_name",
        /// An observation of a path of which the observer is neither end.
        ForeignPath = "foreign_path",
        /// A record that does not fit its limit.
        TooLarge = "too_large",
        /// More origins than are kept.
        TooManyOrigins = "too_many_origins",
        /// More chunks of one origin than are kept.
        TooManyChunks = "too_many_chunks",
        /// More members than are kept.
        TooManyMembers = "too_many_members",
        /// An answer to a question that was not asked, or no longer waits.
        Unasked = "unasked",
        /// A claim that a member is down which nobody had suspected before, or that this node is, too
        /// soon after the last.
        UnprovenDown = "unproven_down",
        /// The membership protocol found an inconsistency and went on.
        Protocol = "protocol",
    }
);
