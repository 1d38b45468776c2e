//! Warnings about a revocation list that can be used.

use std::fmt;

use crate::object_names::short_name;
use crate::signed_list::SignedList;

/// The reason why a revocation list does not do all that its authority may expect of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWarning {
    /// The list has only the changes since another list, which is not there.
    DeltaAlone {
        /// The list's authority.
        issuer: String,
    },
    /// The list names certificates of other authorities.
    OfOthers {
        /// The list's authority.
        issuer: String,
        /// How many.
        count: usize,
    },
    /// The list is signed by an algorithm that is not accepted.
    Algorithm {
        /// The list's authority.
        issuer: String,
        /// OpenSSL's name of the algorithm, or its dotted OID.
        algorithm: String,
    },
}

/// The warnings about these lists, in their order.
pub(crate) fn warnings(lists: &[SignedList]) -> Vec<ListWarning> {
    lists.iter().flat_map(|list| of_list(list, lists)).collect()
}

fn of_list(list: &SignedList, all: &[SignedList]) -> Vec<ListWarning> {
    let content = &list.content;
    let issuer = || content.issuer_text.clone();
    let is_complete = |other: &SignedList| {
        let other = &other.content;
        !other.is_delta && other.issuer == content.issuer && other.scope == content.scope
    };
    let mut warnings = Vec::new();
    if content.is_delta && !all.iter().any(is_complete) {
        warnings.push(ListWarning::DeltaAlone { issuer: issuer() });
    }
    if content.foreign > 0 {
        warnings.push(ListWarning::OfOthers { issuer: issuer(), count: content.foreign });
    }
    if let Some(oid) = list.unknown_algorithm() {
        let algorithm = short_name(&oid).map_or(oid, str::to_owned);
        warnings.push(ListWarning::Algorithm { issuer: issuer(), algorithm });
    }
    warnings
}

impl fmt::Display for ListWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListWarning::DeltaAlone { issuer } => write!(
                f,
                "the revocation list of {issuer} has only what changed since another list (a delta list): what that one revokes is not revoked here; put the complete list into the same file"
            ),
            ListWarning::OfOthers { issuer, count } => write!(
                f,
                "the revocation list of {issuer} names {count} certificates of other authorities (an indirect list), which are not revoked by it; add a list of each of those authorities"
            ),
            ListWarning::Algorithm { issuer, algorithm } => write!(
                f,
                "the revocation list of {issuer} is signed by {algorithm}, and adit accepts SHA-256 or better: no certificate of that CA is accepted; make the list anew: openssl ca -gencrl -md sha256"
            ),
        }
    }
}
