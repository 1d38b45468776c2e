//! `management-up-down`: the program at the socket hears when the tunnel comes up and goes down, with the environment that
//! scripts would have (OpenVPN manage.c, `management_up_down`).

use std::collections::BTreeMap;

use adit_core::TunnelSettings;
use adit_openvpn::request::Request;

use super::journal::Journal;

/// Writes `>UPDOWN:` and the variables to the socket.
pub(super) struct UpDown {
    journal: Journal,
    /// The variables of all scripts.
    base: Vec<(String, String)>,
    /// With `persist-tun`, the tunnel stays up while the client looks for its server.
    keeps_device: bool,
    /// The variables of the connection, or of the attempt to connect.
    env: BTreeMap<String, String>,
    /// The variables of the tunnel that is up, or comes up. They stay while it is up, and go with it.
    of_tunnel: BTreeMap<String, String>,
    is_up: bool,
}

impl UpDown {
    pub(super) fn new(journal: Journal, base: Vec<(String, String)>, keeps_device: bool) -> Self {
        let env = base.iter().cloned().collect();
        UpDown { journal, base, keeps_device, env, of_tunnel: BTreeMap::new(), is_up: false }
    }

    /// Takes the variables that the protocol gives for scripts.
    pub(super) fn request(&mut self, request: &Request, device: &str) {
        match request {
            Request::PeerFacts(facts) => self.env.extend(facts.env.iter().cloned()),
            Request::TunnelFacts(facts) => {
                self.of_tunnel = facts.env.iter().chain(&facts.routes).cloned().collect();
                self.set_of_tunnel("dev", device);
            }
            Request::Signal(signal) => {
                self.env.insert("signal".to_owned(), (*signal).to_owned());
            }
            _ => {}
        }
    }

    /// A connection is attempted: the variables of the connection before are dropped, and those of a tunnel that is not up.
    pub(super) fn connecting(&mut self) {
        self.env = self.base.iter().cloned().collect();
        if !self.is_up {
            self.of_tunnel.clear();
        }
    }

    /// The tunnel has these settings, and its routes.
    pub(super) fn up(&mut self, settings: &TunnelSettings) {
        let redirects = settings.redirect.is_some_and(|redirect| redirect.ipv4);
        self.set_of_tunnel("redirect_gateway", if redirects { "1" } else { "0" });
        self.set_of_tunnel("tun_mtu", &settings.mtu.to_string());
        self.set_of_tunnel("script_context", "init");
        if !std::mem::replace(&mut self.is_up, true) {
            self.tell("UP");
        }
    }

    /// The connection to the other end was lost, and the next one is attempted.
    pub(super) fn lost(&mut self) {
        if !self.keeps_device {
            self.down();
        }
    }

    /// The tunnel goes down.
    pub(super) fn down(&mut self) {
        if std::mem::take(&mut self.is_up) {
            self.tell("DOWN");
        }
    }

    fn set_of_tunnel(&mut self, name: &str, value: &str) {
        self.of_tunnel.insert(name.to_owned(), value.to_owned());
    }

    fn tell(&self, what: &str) {
        self.journal.say(&format!(">UPDOWN:{what}"));
        let all: BTreeMap<&String, &String> = self.env.iter().chain(&self.of_tunnel).collect();
        all.iter().for_each(|(name, value)| self.journal.say(&format!(">UPDOWN:ENV,{name}={value}")));
        self.journal.say(">UPDOWN:ENV,END");
    }
}

#[cfg(test)]
mod tests {
    use adit_openvpn::request::TunnelFacts;

    use super::super::pipe;
    use super::*;

    fn facts() -> Request {
        let env = vec![("ifconfig_local".to_owned(), "10.8.0.2".to_owned())];
        let routes = vec![("route_network_1".to_owned(), "10.20.0.0".to_owned())];
        Request::TunnelFacts(Box::new(TunnelFacts { env, routes, ..TunnelFacts::default() }))
    }

    fn told(keeps_device: bool) -> Vec<String> {
        let (waker, _woken) = pipe().expect("a pipe");
        let journal = Journal::new(1, waker);
        let program = journal.enter();
        let base = vec![("config".to_owned(), "c.conf".to_owned())];
        let mut up_down = UpDown::new(journal.clone(), base, keeps_device);
        let settings = TunnelSettings { mtu: 1400, ..TunnelSettings::default() };
        for _ in 0..2 {
            up_down.connecting();
            up_down.request(&facts(), "tun7");
            up_down.up(&settings);
            // Settings that the server changed.
            up_down.up(&settings);
            up_down.request(&Request::Signal("ping-restart"), "tun7");
            up_down.lost();
        }
        up_down.down();
        up_down.down();
        journal.take(program).into()
    }

    #[test]
    fn each_change_is_told_with_the_environment_of_scripts() {
        let told = told(true);
        let begins: Vec<&str> =
            told.iter().map(String::as_str).filter(|line| !line.contains("ENV")).collect();
        assert_eq!(begins, [">UPDOWN:UP", ">UPDOWN:DOWN"]);
        let up: Vec<&str> =
            told.iter().map(String::as_str).take_while(|line| !line.ends_with(":DOWN")).collect();
        assert_eq!(
            up,
            [
                ">UPDOWN:UP",
                ">UPDOWN:ENV,config=c.conf",
                ">UPDOWN:ENV,dev=tun7",
                ">UPDOWN:ENV,ifconfig_local=10.8.0.2",
                ">UPDOWN:ENV,redirect_gateway=0",
                ">UPDOWN:ENV,route_network_1=10.20.0.0",
                ">UPDOWN:ENV,script_context=init",
                ">UPDOWN:ENV,tun_mtu=1400",
                ">UPDOWN:ENV,END"
            ]
        );
        assert!(told.contains(&">UPDOWN:ENV,signal=ping-restart".to_owned()), "{told:?}");
    }

    #[test]
    fn variables_stay_as_long_as_their_tunnel() {
        let (waker, _woken) = pipe().expect("a pipe");
        let journal = Journal::new(1, waker);
        let program = journal.enter();
        let mut up_down = UpDown::new(journal.clone(), Vec::new(), true);
        let settings = TunnelSettings { mtu: 1400, ..TunnelSettings::default() };
        let route = ">UPDOWN:ENV,route_network_1=10.20.0.0".to_owned();
        let told = || -> Vec<String> { journal.take(program).into() };
        up_down.connecting();
        up_down.request(&facts(), "tun7");
        up_down.up(&settings);
        assert!(told().contains(&route));
        // The next attempt, while the tunnel stays up.
        up_down.connecting();
        up_down.down();
        let down = told();
        assert!(down.contains(&route) && down.contains(&">UPDOWN:ENV,dev=tun7".to_owned()), "{down:?}");
        let without_routes = || Request::TunnelFacts(Box::default());
        up_down.connecting();
        up_down.request(&without_routes(), "tun7");
        up_down.up(&settings);
        let up = told();
        assert!(!up.contains(&route) && up.contains(&">UPDOWN:ENV,tun_mtu=1400".to_owned()), "{up:?}");
        // Settings that the server changed.
        up_down.request(&facts(), "tun7");
        up_down.request(&without_routes(), "tun7");
        up_down.down();
        assert!(!told().contains(&route));
    }

    #[test]
    fn without_persist_tun_each_connection_is_told() {
        let told = told(false);
        let begins = told.iter().filter(|line| !line.contains("ENV")).count();
        assert_eq!(begins, 4, "{told:?}");
    }
}
