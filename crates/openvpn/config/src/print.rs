//! A configuration as text that [`super::parse`] reads back to the same configuration, and OpenVPN reads too.

mod client;
mod data;
mod net;
mod peer_check;
mod scripts;
mod server;
mod system;
mod tls;

use std::fmt::{self, Write as _};
use std::time::Duration;

use adit_openvpn::params::Keepalive;
use zeroize::Zeroizing;

use self::client::{print_client, print_point_to_point};
use self::data::{print_data, print_limits, print_liveness, print_rekey};
use self::net::{print_named_route, print_route};
use self::scripts::print_scripts;
use self::server::print_server;
use self::system::{print_device, print_process, print_socket};
use self::tls::{print_direction, print_external, print_secret, print_tls};
use crate::model::*;

impl Config {
    /// The configuration as one file, certificates and keys inline. Secret if the configuration holds a key.
    ///
    /// Macros such as `server` and `keepalive` come out as the lines that they stand for.
    pub fn to_text(&self) -> Zeroizing<String> {
        // Keys are copied into the text once: it never grows beyond the capacity reserved here.
        let identity = self.tls.identity.as_ref().map_or(0, |it| it.cert.text().len() + it.key.text().len());
        let identity = identity + self.tls.pkcs12.as_ref().map_or(0, |packed| packed.text().len());
        let secrets = self.tls.ca.as_ref().map_or(0, |ca| ca.text().len()) + identity;
        let mut out = Out(Zeroizing::new(String::with_capacity(secrets + (64 << 10))));
        match &self.role {
            Role::Client(client) => print_client(&mut out, client, self.secret.is_some()),
            Role::Server(server) => print_server(&mut out, server),
            Role::PointToPoint(point) => print_point_to_point(&mut out, point, self.secret.is_some()),
        }
        print_device(&mut out, &self.device);
        match &self.secret {
            None => print_tls(&mut out, &self.tls, !matches!(self.role, Role::Client(_))),
            Some(secret) => print_secret(&mut out, secret),
        }
        print_data(&mut out, &self.data);
        match self.keepalive() {
            Some((ping, timeout)) => out.line("keepalive", &[ping.to_string(), timeout.to_string()]),
            None => print_liveness(&mut out, &self.liveness),
        }
        print_limits(&mut out, &self.limits);
        if self.secret.is_none() {
            print_rekey(&mut out, &self.rekey);
        }
        print_socket(&mut out, &self.socket);
        self.routes.iter().for_each(|route| print_route(&mut out, route));
        self.named_routes.iter().for_each(|route| print_named_route(&mut out, route));
        let announced = matches!(&self.role, Role::Server(server) if server.access.has_scripts());
        print_scripts(&mut out, &self.scripts, announced);
        print_process(&mut out, &self.process);
        match &self.wrap {
            Wrap::None => {}
            Wrap::TlsAuth { key, direction } => {
                print_direction(&mut out, *direction);
                out.block("tls-auth", &key.to_text());
            }
            Wrap::TlsCrypt { key } => out.block("tls-crypt", &key.to_text()),
            Wrap::TlsCryptV2 { key } => out.block("tls-crypt-v2", &key.to_text()),
        }
        if let Some(ca) = &self.tls.ca {
            out.block("ca", ca.text());
        }
        if let Some(identity) = &self.tls.identity {
            out.block("cert", identity.cert.text());
            out.block("key", identity.key.text());
        }
        if let Some(external) = &self.tls.external {
            print_external(&mut out, external);
        }
        if let Some(packed) = &self.tls.pkcs12 {
            out.block("pkcs12", packed.text());
        }
        out.0
    }

    /// The values of a `keepalive` that gives a server and its clients this liveness.
    fn keepalive(&self) -> Option<(u64, u64)> {
        let Role::Server(server) = &self.role else { return None };
        let Keepalive { ping: Some(ping), timeout: Some(wait), exit: false } = self.liveness else {
            return None;
        };
        let (ping, timeout) = (ping.as_secs(), wait.as_secs() / 2);
        let pushed = |option: String| server.push.contains(&option);
        (wait.as_secs() == timeout * 2
            && ping * 2 <= timeout
            && pushed(format!("ping {ping}"))
            && pushed(format!("ping-restart {timeout}")))
        .then_some((ping, timeout))
    }
}

pub(crate) struct Out(Zeroizing<String>);

impl Out {
    fn flag(&mut self, name: &str) {
        self.line::<&str>(name, &[]);
    }

    pub(crate) fn one(&mut self, name: &str, value: impl fmt::Display) {
        self.line(name, &[value.to_string()]);
    }

    pub(crate) fn line<S: AsRef<str>>(&mut self, name: &str, words: &[S]) {
        self.0.push_str(name);
        for word in words {
            self.0.push(' ');
            self.word(word.as_ref());
        }
        self.0.push('\n');
    }

    /// A word with quotes and escapes if it needs them.
    fn word(&mut self, word: &str) {
        let odd = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '#' | ';');
        if !word.is_empty() && !word.contains(odd) {
            self.0.push_str(word);
            return;
        }
        self.0.push('"');
        for c in word.chars() {
            if matches!(c, '"' | '\\') {
                self.0.push('\\');
            }
            self.0.push(c);
        }
        self.0.push('"');
    }

    pub(crate) fn block(&mut self, name: &str, text: &str) {
        // An empty line at the end counts, as that of an empty password.
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "<{name}>\n{text}{end}</{name}>");
    }

    fn seconds(&mut self, name: &str, duration: Duration) {
        self.one(name, duration.as_secs());
    }
}
