//! First requests that offer weak key exchanges alone: the words of the log, which name the way out.

use adit_core::{Path, Severity};

use super::shared::Shared;
use crate::wire::{Proposal, TransformType};

/// MODP of 768, 1,024 and 1,536 bits (RFC 8247 section 2.4: they must not, or should not, be used).
const WEAK: [u16; 3] = [1, 2, 5];

/// The line of the log.
const WORDS: &str = "it offers MODP of 1536 bits or less alone, which is too weak. On Windows (error 13868), as administrator: \
         Set-VpnConnectionIPsecConfiguration -ConnectionName NAME -EncryptionMethod GCMAES256 -IntegrityCheckMethod SHA256 -DHGroup ECP256 \
         -CipherTransformConstants GCMAES256 -AuthenticationTransformConstants GCMAES256 -PfsGroup None, or set the DWORD \
         NegotiateDH2048_AES256 = 1 below HKLM\\SYSTEM\\CurrentControlSet\\Services\\RasMan\\Parameters; at a gateway, choose group 14, 19 or 20";

/// Whether each proposal has weak key exchanges alone.
fn is_weak(offered: &[Proposal]) -> bool {
    let transforms = offered.iter().flat_map(|offer| &offer.transforms);
    let mut groups = transforms.filter(|transform| transform.kind == TransformType::KEY_EXCHANGE).peekable();
    groups.peek().is_some() && groups.all(|transform| WEAK.contains(&transform.id))
}

/// Writes the reason for a refusal to the log, if it is that the initiator offers weak key exchanges alone.
pub(super) fn tell(shared: &mut Shared, path: Path, offered: &[Proposal]) {
    if is_weak(offered) {
        shared.report(Severity::Warning, Some(path), WORDS.to_owned());
    }
}
