//! Warnings ahead of the day on which a certificate or a revocation list expires: in the log, at the start and once a
//! day, and in `adit status`.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use adit_core::Severity;
use adit_openvpn::credentials::Credentials;
use adit_openvpn_config::Role;
use adit_pki::inspect;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use adit_host::ending::Ending;
use adit_host::log::Logger;
use adit_host::status::report::Expiring;

/// How many days ahead to warn.
const DAYS_AHEAD: i64 = 60;
/// How often to warn.
pub(crate) const EVERY: Duration = Duration::from_secs(SECONDS_OF_DAY.unsigned_abs());
const SECONDS_OF_DAY: i64 = 86_400;

/// The certificates and lists of one tunnel that expire. Copies share it.
#[derive(Clone)]
pub(crate) struct Expiry(Arc<Shared>);

struct Shared {
    renewal: Renewal,
    certificates: Mutex<Vec<Dated>>,
    lists: Mutex<Vec<Dated>>,
}

/// How to renew.
struct Renewal {
    certificate: String,
    authority: String,
    list: String,
}

/// A certificate or a list, and when it expires in Unix time.
struct Dated {
    what: String,
    at: i64,
    renew: String,
}

impl Renewal {
    /// The way of renewal for the owner of the configuration in `file`.
    fn of(file: &Path, role: &Role) -> Self {
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let dir = absolute.parent().unwrap_or(Path::new("/"));
        if dir.join("pki/index.json").is_file() {
            let renew = format!("adit renew {}", dir.display());
            let authority = format!("{renew} --ca, which says what clients need then");
            return Renewal { certificate: renew.clone(), authority, list: renew };
        }
        let list = "get a new list from the authority (adit renew DIR, where `adit init` made it)".to_owned();
        let (certificate, authority) = match role {
            Role::Client(_) => (
                "get a new profile from the server's administrator (adit renew DIR NAME)",
                "get a new profile from the server's administrator",
            ),
            Role::Server(_) | Role::PointToPoint(_) => (
                "get a new certificate from its authority (adit renew DIR, where `adit init` made it)",
                "make a new certificate for the authority with the same name and key, which keeps all others valid, \
                 and bring it to the server and each client",
            ),
        };
        Renewal { certificate: certificate.into(), authority: authority.into(), list }
    }
}

impl Expiry {
    /// Nothing yet, for the tunnel of the configuration in `file`.
    pub(crate) fn new(file: &Path, role: &Role) -> Self {
        let (certificates, lists) = (Mutex::default(), Mutex::default());
        Expiry(Arc::new(Shared { renewal: Renewal::of(file, role), certificates, lists }))
    }

    /// Takes note of our own certificate, with those of its chain, and of the authorities.
    pub(crate) fn note_certificates(&self, credentials: &Credentials) {
        let renewal = &self.0.renewal;
        let mut dated = certificates(&credentials.certificate, "the certificate", &renewal.certificate);
        dated.extend(certificates(&credentials.ca, "the CA certificate", &renewal.authority));
        *lock(&self.0.certificates) = dated;
    }

    /// Takes note of the revocation lists in force, in place of those before.
    pub(crate) fn note_lists(&self, pem: &[u8]) {
        *lock(&self.0.lists) = lists(pem, &self.0.renewal.list);
    }

    /// The certificates and lists that have expired or will soon.
    pub(crate) fn near(&self, now: OffsetDateTime) -> Vec<Expiring> {
        let now = now.unix_timestamp();
        let (certificates, lists) = (lock(&self.0.certificates), lock(&self.0.lists));
        certificates.iter().chain(lists.iter()).filter_map(|dated| dated.near(now)).collect()
    }

    /// Warns in the log, now and then once in each `period`, until the tunnel ends.
    pub(crate) fn watch(&self, mut log: Logger, period: Duration, ending: Ending) -> io::Result<()> {
        let expiry = self.clone();
        thread::Builder::new().name("adit-expiry".to_owned()).spawn(move || {
            loop {
                for expiring in expiry.near(OffsetDateTime::now_utc()) {
                    log.log(Severity::Warning, expiring);
                }
                if ending.wait(period) {
                    return;
                }
            }
        })?;
        Ok(())
    }
}

impl Dated {
    fn near(&self, now: i64) -> Option<Expiring> {
        let left = self.at.saturating_sub(now);
        let at = OffsetDateTime::from_unix_timestamp(self.at).ok()?.format(&Rfc3339).ok()?;
        (left < DAYS_AHEAD * SECONDS_OF_DAY).then(|| Expiring {
            what: self.what.clone(),
            at,
            days_left: left.div_euclid(SECONDS_OF_DAY),
            renew: self.renew.clone(),
        })
    }
}

fn lock(dated: &Mutex<Vec<Dated>>) -> MutexGuard<'_, Vec<Dated>> {
    dated.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The certificates in PEM; what cannot be read was refused before.
fn certificates(pem: &[u8], what: &str, renew: &str) -> Vec<Dated> {
    dated(inspect::certificate_expiries(pem), what, renew)
}

/// The revocation lists in PEM; one without a next update does not expire.
fn lists(pem: &[u8], renew: &str) -> Vec<Dated> {
    dated(inspect::list_expiries(pem), "the revocation list (crl-verify)", renew)
}

fn dated(expiries: Vec<inspect::Expiry>, what: &str, renew: &str) -> Vec<Dated> {
    let dated =
        |inspect::Expiry { name, at }| Dated { what: format!("{what} of {name}"), at, renew: renew.into() };
    expiries.into_iter().map(dated).collect()
}

/// Reads certificates and revocation lists in PEM for their warnings. Gives how many there were.
///
/// # Panics
///
/// If a warning holds what a terminal would obey.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn expiring(pem: &[u8]) -> usize {
    let all: Vec<Dated> = certificates(pem, "", "").into_iter().chain(lists(pem, "")).collect();
    for dated in &all {
        let _ = dated.near(i64::MAX);
        assert!(!dated.what.contains(adit_core::is_unprintable), "{:?}", dated.what);
    }
    all.len()
}

#[cfg(test)]
mod tests {
    use adit_host::log::{LogPlace, LogSettings};
    use adit_testbed::Scratch;
    use rcgen::{
        CertificateParams, CertificateRevocationListParams, Issuer, KeyIdMethod, KeyPair, SerialNumber,
    };
    use zeroize::Zeroizing;

    use super::*;

    /// An authority that expires in so many days, and a list of it.
    fn authority(name: &str, days: i64, list_days: i64) -> (String, String) {
        let now = OffsetDateTime::now_utc();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.not_before = now - time::Duration::days(900);
        params.not_after = now + time::Duration::days(days) + time::Duration::hours(1);
        params.key_usages = vec![rcgen::KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let list = CertificateRevocationListParams {
            this_update: now - time::Duration::days(100),
            next_update: now + time::Duration::days(list_days) + time::Duration::hours(1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        (certificate, list.signed_by(&Issuer::new(params, key)).unwrap().pem().unwrap())
    }

    /// The expiries of a server of a directory that `adit init` made.
    fn expiry(scratch: &Scratch, own: i64, authority_days: i64, list: i64) -> Expiry {
        std::fs::create_dir_all(scratch.path().join("pki")).unwrap();
        scratch.write("pki/index.json", "{}").unwrap();
        let role = super::super::attempts::tests::config("").role;
        let expiry = Expiry::new(&scratch.path().join("server.conf"), &role);
        let (ca, list) = authority("ca", authority_days, list);
        let certificate = authority("own", own, 0).0.into_bytes();
        let private_key = Zeroizing::default();
        expiry.note_certificates(&Credentials { ca: ca.into_bytes(), certificate, private_key });
        expiry.note_lists(list.as_bytes());
        expiry
    }

    #[test]
    fn warnings_begin_sixty_days_ahead() {
        let scratch = Scratch::create("expiry").unwrap();
        let now = OffsetDateTime::now_utc();
        assert!(expiry(&scratch, 60, 60, 60).near(now).is_empty());
        let near = expiry(&scratch, 59, 3, -2).near(now);
        let said: Vec<String> = near.iter().map(ToString::to_string).collect();
        let renew = format!("adit renew {}", scratch.path().display());
        assert!(said[0].starts_with("the certificate of own expires in 59 days, on 2"), "{said:?}");
        assert!(said[0].ends_with(&renew), "{said:?}");
        assert!(said[1].starts_with("the CA certificate of ca expires in 3 days"), "{said:?}");
        assert!(said[1].contains(&format!("{renew} --ca")), "{said:?}");
        assert!(said[2].starts_with("the revocation list (crl-verify) of ca expired on 2"), "{said:?}");
        assert!(said[2].ends_with(&renew), "{said:?}");
    }

    #[test]
    fn a_name_in_a_warning_commands_no_terminal() {
        let (certificate, list) = authority("bob\n\u{1b}[2J\u{202e}\u{2028}x", 1, 1);
        assert_eq!(expiring((certificate.clone() + &list).as_bytes()), 2);
        let said = certificates(certificate.as_bytes(), "the certificate", "").remove(0).what;
        assert_eq!(said, "the certificate of bob__[2J__x");
    }

    #[test]
    fn a_new_list_ends_the_warning() {
        let scratch = Scratch::create("expiry").unwrap();
        let expiry = expiry(&scratch, 90, 90, 5);
        assert_eq!(expiry.near(OffsetDateTime::now_utc()).len(), 1);
        expiry.note_lists(authority("ca", 90, 90).1.as_bytes());
        assert!(expiry.near(OffsetDateTime::now_utc()).is_empty());
    }

    #[test]
    fn the_log_warns_again_in_each_period() {
        let scratch = Scratch::create("expiry").unwrap();
        let path = scratch.path().join("log");
        let file = Some(LogPlace::File { path: path.clone(), append: false });
        let log = Logger::new(&LogSettings { place: file, ..LogSettings::default() }).unwrap();
        expiry(&scratch, 59, 90, 90).watch(log, Duration::from_millis(10), Ending::default()).unwrap();
        let count = || std::fs::read_to_string(&path).unwrap().matches("certificate of own").count();
        let tries = (0..3000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            count() >= 3
        });
        assert!(tries, "{} warnings", count());
    }
}
