//! The directory of a server, which `adit init` makes, and which `adit add-client`, `adit renew` and `adit revoke` change.
//!
//! ```text
//! server.conf          all that a server needs, keys inline
//! clients/NAME.*       all that a client needs, keys inline
//! DEVICE.conf          all that a server of a second protocol needs, with its clients; if the directory has one
//! *.conf, */           the files of a server of a third protocol, whose clients are native ones; if the directory has one
//! crl.pem              the revoked certificates; public
//! pki/ca.crt, ca.key   the certificate authority
//! pki/*.key            keys of the server's protocol
//! pki/index.json       every certificate issued, every key of a client
//! ```
//!
//! [`Directory`] is the directory. The files themselves are those of three protocols: a [`CertificateProtocol`], whose clients have
//! certificates, a [`KeyProtocol`], whose clients have keys, and a [`NativeProtocol`], whose clients are parts of operating systems and
//! have certificates or passwords. The crate names none.
#![forbid(unsafe_code)]

mod authority;
mod directory;
mod endpoint;
mod error;
pub mod files;
mod index;
mod layout;
mod names;
mod native;
mod networks;
mod passphrase;
mod protocols;
mod qr;
mod random;
mod reach;
mod system_user;

pub use self::directory::{
    AUTHORITY, DEFAULT_DEVICE, Directory, MadeNative, NativeOptions, RenewedAuthority, SERVER, Wanted,
    WantedAlone,
};
pub use self::endpoint::{Endpoint, Proto};
pub use self::error::{Second, SetupError};
pub use self::index::{Index, Keys, Peer};
pub use self::layout::Layout;
pub use self::names::ClientName;
pub use self::native::{Login, NativeClient, NativeProtocol, NativeServer, Renewed, SetupFile};
pub use self::networks::Networks;
pub use self::protocols::{
    CertificateProtocol, KeyOptions, KeyProtocol, KeyServer, MadeClient, NewClient, NewServer, Protocols,
    Room, Secret,
};
pub use self::qr::Code;
pub use self::random::random;
pub use self::reach::{Reach, lan};
pub use self::system_user::{Consent, SystemUser};
