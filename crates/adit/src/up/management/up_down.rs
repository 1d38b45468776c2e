//! `management-up-down`: the program at the socket hears when the tunnel comes up and goes down, with the environment that
//! scripts would have (OpenVPN manage.c, `management_up_down`).

use std::collections::BTreeMap;

use adit_core::TunnelSettings;
use adit_openvpn::request::Request;

use super::journal::Journal;

/// What is told, and when.
pub(super) struct UpDown {
    journal: Journal,
    /// What all scripts are told.
    base: Vec<(String, String)>,
    /// As with `persist-tun`, the tunnel stays up while its server is looked for.
    keeps_device: bool,
    env: BTreeMap<String, String>,
    is_up: bool,
}

impl UpDown {
    pub(super) fn new(journal: Journal, base: Vec<(String, String)>, keeps_device: bool) -> Self {
        let env = base.iter().cloned().collect();
        UpDown { journal, base, keeps_device, env, is_up: false }
    }

    /// Takes what the protocol says for scripts.
    pub(super) fn request(&mut self, request: &Request, device: &str) {
        match request {
            Request::PeerFacts(facts) => self.env.extend(facts.env.iter().cloned()),
            Request::TunnelFacts(facts) => {
                self.env.extend(facts.env.iter().chain(&facts.routes).cloned());
                self.set("dev", device);
            }
            Request::Signal(signal) => self.set("signal", signal),
            _ => {}
        }
    }

    /// A connection is attempted: what was told of those before does not hold.
    pub(super) fn connecting(&mut self) {
        self.env = self.base.iter().cloned().collect();
    }

    /// The tunnel has these settings, and its routes.
    pub(super) fn up(&mut self, settings: &TunnelSettings) {
        if std::mem::replace(&mut self.is_up, true) {
            return;
        }
        let redirects = settings.redirect.is_some_and(|redirect| redirect.ipv4);
        self.set("redirect_gateway", if redirects { "1" } else { "0" });
        self.set("tun_mtu", &settings.mtu.to_string());
        self.set("script_context", "init");
        self.tell("UP");
    }

    /// The other end was lost, and is looked for.
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

    fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    fn tell(&self, what: &str) {
        self.journal.say(format!(">UPDOWN:{what}"));
        self.env.iter().for_each(|(name, value)| self.journal.say(format!(">UPDOWN:ENV,{name}={value}")));
        self.journal.say(">UPDOWN:ENV,END".to_owned());
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
        journal.attend(true);
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
        journal.take().into()
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
    fn without_persist_tun_each_connection_is_told() {
        let told = told(false);
        let begins = told.iter().filter(|line| !line.contains("ENV")).count();
        assert_eq!(begins, 4, "{told:?}");
    }
}
