//! The authority of a directory: it gives serial numbers that the index has not, and notes there each certificate
//! that it issues.

use adit_pki::inspect::hex;
use adit_pki::issue::{self, Authority, IssueError, Issued, Serial};
use time::OffsetDateTime;

use crate::index::{Index, Issue, Owner};
use crate::{SetupError, random};

/// The words of an error: the step that failed.
const RENEW: &str = "renew the certificate of the authority";

/// A new authority.
pub(crate) fn create(now: OffsetDateTime) -> Result<Authority, SetupError> {
    let tag = hex(random::<4>()?.as_slice());
    Authority::create(&format!("adit CA {tag}"), &serial()?, now)
        .map_err(failed("make the certificate authority"))
}

/// The authority from its files.
pub(crate) fn load(certificate: &str, key: &str) -> Result<Authority, SetupError> {
    Authority::load(certificate, key).map_err(failed("read the certificate authority"))
}

/// Gives the authority a new certificate with a later end.
pub(crate) fn renew(authority: &mut Authority, now: OffsetDateTime) -> Result<(), SetupError> {
    authority.renew(&serial()?, now).map_err(|error| match error {
        IssueError::Foreign => SetupError::Certificate {
            what: RENEW,
            why: "`adit init` did not make pki/ca.crt; renew it, with the same name and key, by the program that made it"
                .into(),
        },
        IssueError::Failed(why) => SetupError::Certificate { what: RENEW, why },
    })
}

/// Issues a certificate with a new key and notes it in the index.
pub(crate) fn issue(
    authority: &Authority,
    owner: Owner<'_>,
    now: OffsetDateTime,
    index: &mut Index,
) -> Result<Issued, SetupError> {
    let mut number = serial()?;
    while index.has_serial(&number.to_hex()) {
        number = serial()?;
    }
    let wanted = issue::Wanted { purpose: owner.kind.into(), name: owner.name, ike_names: owner.names };
    let issued = authority.issue_as(&wanted, &number, now).map_err(failed("make a certificate"))?;
    index.add(Issue::new(number.to_hex(), owner, issued.not_before, issued.not_after));
    Ok(issued)
}

/// The list of all certificates that were revoked, as PEM; the index counts it.
pub(crate) fn revocation_list(
    authority: &Authority,
    index: &mut Index,
    now: OffsetDateTime,
) -> Result<String, SetupError> {
    index.lists += 1;
    authority
        .revocation_list(index.lists, index.revoked(now), now)
        .map_err(failed("make the list of revoked certificates"))
}

fn failed(what: &'static str) -> impl Fn(IssueError) -> SetupError {
    move |error| SetupError::Certificate { what, why: error.to_string() }
}

fn serial() -> Result<Serial, SetupError> {
    Ok(Serial::from_random(*random::<16>()?))
}
