//! VPN configuration files, read into typed roles.
//!
//! [`openvpn::parse`] takes the bytes of an OpenVPN configuration and a function that loads the files it
//! names, and gives an [`openvpn::Config`]: a client or a server, with every value checked. What becomes of
//! each directive is reported as data ([`Disposition`]): used, ignored and why that is safe, or refused and what
//! to write instead. All errors in a file are collected before any is reported.
//!
//! [`wireguard::parse`] does the same for wg-quick's files, [`auth_ldap::parse`] for those of openvpn-auth-ldap.
//!
//! This crate does no I/O, reads no clock and draws no random numbers.
#![forbid(unsafe_code)]

pub mod auth_ldap;
mod encoding;
pub mod openvpn;
mod own;
mod report;
mod secret;
mod tls_crypt_v2;
pub mod wireguard;

pub use report::{Disposition, Failure, Fingerprint, Kind, Problem};
pub use secret::{Pem, Secret, StaticKey, TokenSecret};
pub use tls_crypt_v2::{KeyOwner, TlsCryptV2Key};
