//! The programs that run when the tunnel comes up and goes down (`up`, `down`, `route-up`, `route-pre-down`, `ipchange`,
//! `dns-updown`), as OpenVPN 2.6 runs them (its init.c, `do_open_tun` and `do_close_tun`). `docs/use/SCRIPTS.md` has the rules.
//!
//! [`TunnelScripts`] lives on the control thread: it keeps their environment and decides what runs. [`worker`] runs one after
//! the other on a thread of its own, and lets routes be set when `up` has succeeded.

pub(crate) mod check;
pub(crate) mod environment;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_core::{Dns, TunnelSettings};
use adit_guard::{ScriptCall, ScriptInput};
use adit_io::NULL_DEVICE;
use adit_openvpn::request::{GatewayVariable, PeerFacts, Request, TunnelFacts};
use adit_openvpn_config as file;
use adit_openvpn_config::NameServerSetting;

pub(crate) use worker::{Control, Launcher};
use worker::{Job, OnFailure, Opening, Run, Worker};

/// Why a tunnel ends on request, in the word that scripts get.
const SIGTERM: &str = "sigterm";
/// The signal while a server's update closes the device and opens it: no signal (OpenVPN's sig.c, `signal_name`).
const NO_SIGNAL: &str = "UNKNOWN";
/// The `script_type` of `dns-updown` when a device is opened.
const DNS_UP: &str = "dns-up";
/// The context of scripts of a device that is opened or closed.
const INIT: &str = "init";
/// The context of scripts of a device that is kept over a restart.
const RESTART: &str = "restart";
/// How the variables of pushed `dhcp-option`s begin.
const FOREIGN_OPTION: &str = "foreign_option_";

/// The kind of this end of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// This end connects: each connection sets the tunnel up.
    Connects,
    /// This end waits for the other end of a point-to-point tunnel.
    Waits,
    /// This end waits for clients. Its process gives up its rights when the tunnel is set up: what runs then runs
    /// before, with these rights.
    Serves,
}

/// The device that was opened, with the facts that its scripts got.
struct Opened {
    facts: TunnelFacts,
    mtu: u16,
    redirects: bool,
    dns: Dns,
    /// Variables whose value is the system's gateway.
    gateways: Vec<GatewayVariable>,
}

/// The scripts of a tunnel.
pub(crate) struct TunnelScripts {
    config: Arc<file::TunnelScripts>,
    end: End,
    worker: Worker,
    /// The variables of all scripts.
    base: Vec<(String, String)>,
    env: BTreeMap<String, String>,
    /// The settings that come next.
    next: Option<TunnelFacts>,
    opened: Option<Opened>,
    /// The number of the last opening, and its context.
    opening: (Opening, &'static str),
    /// `route-up` is still to run for what was opened.
    routes_due: bool,
    /// Why what is there ends.
    signal: &'static str,
    /// The peer of an end that connects is gone: whether it will be looked for again is clear by the next event.
    lost: bool,
    /// A connection was attempted since the device had its addresses last.
    reconnects: bool,
    /// The connection was complete once.
    completed: bool,
    /// `dns-updown` gets name servers by a file, too.
    names_by_file: bool,
}

impl TunnelScripts {
    /// For a file with these scripts. `base` are the variables of [`environment::base`].
    ///
    /// # Errors
    /// When there is no thread for them.
    pub(crate) fn start(
        config: file::TunnelScripts,
        end: End,
        base: Vec<(String, String)>,
        (launcher, control): (Launcher, Control),
    ) -> std::io::Result<Self> {
        Ok(TunnelScripts {
            config: Arc::new(config),
            end,
            worker: Worker::start(launcher, control)?,
            base,
            env: BTreeMap::new(),
            next: None,
            opened: None,
            opening: (Opening::default(), INIT),
            routes_due: false,
            signal: SIGTERM,
            lost: false,
            reconnects: false,
            completed: false,
            names_by_file: false,
        })
    }

    /// Has `dns-updown` told of name servers by a file, too, as OpenVPN 2.7 does where `user` is named (`dns_vars_file`; its
    /// dns.c, `run_up_down_command`).
    pub(crate) fn tell_names_by_file(&mut self) {
        self.names_by_file = true;
    }

    /// Takes what the protocol says for scripts.
    pub(crate) fn request(&mut self, request: &Request, device: &str) {
        match request {
            Request::PeerFacts(facts) => self.peer_known(facts, device),
            Request::TunnelFacts(facts) => self.facts_come((**facts).clone(), device),
            Request::Signal(signal) => self.signal = *signal,
            _ => {}
        }
    }

    fn peer_known(&mut self, facts: &PeerFacts, device: &str) {
        self.env.extend(facts.env.iter().cloned());
        if let Some(argv) = self.config.ip_change.clone() {
            let argv = [argv, vec![facts.address.clone()]].concat();
            // Runs that wait are withdrawn, as they would tell of an address that the peer has left. So a peer that moves often has
            // one run wait.
            self.worker.withdraw_runs("ipchange");
            self.run("ipchange", argv, OnFailure::Warn, device);
        }
    }

    /// An end that waits starts over by saying its facts again.
    fn facts_come(&mut self, facts: TunnelFacts, device: &str) {
        match &self.opened {
            Some(Opened { mtu, redirects, dns, .. }) if self.end != End::Connects => {
                let (mtu, redirects, dns) = (*mtu, *redirects, dns.clone());
                let kept = self.config.keeps_device;
                self.restart(device);
                self.begin_environment();
                self.env.extend(facts.env.iter().cloned());
                if kept {
                    self.reopen(facts, mtu, device);
                } else {
                    self.open(facts, (mtu, redirects, dns), device);
                }
                self.signal = SIGTERM;
                self.routes_set(device);
            }
            _ => self.next = Some(facts),
        }
    }

    fn begin_environment(&mut self) {
        self.env = self.base.iter().cloned().collect();
    }

    /// The device has its addresses. True if routes may follow at once.
    pub(crate) fn device_ready(&mut self, settings: &TunnelSettings, device: &str) -> bool {
        let Some(facts) = self.next.take() else { return true };
        if self.env.is_empty() {
            self.begin_environment();
        }
        let redirects = settings.redirect.is_some_and(|redirect| redirect.ipv4);
        let with = (settings.mtu, redirects, settings.dns.clone());
        let reconnects = std::mem::take(&mut self.reconnects);
        let before = self.opened.as_ref().filter(|_| !reconnects).map(|opened| opened.facts.clone());
        let runs = match before {
            Some(before) => self.update(&before, facts, with, device),
            None => self.connected(facts, with, device),
        };
        if self.end == End::Serves && !self.completed {
            // `up` has run. Where it failed, there is nothing to set.
            return self.failure().is_none();
        }
        let delay = self.config.route_delay.filter(|_| self.routes_due);
        if !runs && delay.is_none() {
            return true;
        }
        if let Some(delay) = delay {
            self.worker.post(Job::Wait(delay, self.opening.0));
        }
        self.worker.post(Job::GoOn);
        false
    }

    /// A connection was made. True if a script runs.
    fn connected(&mut self, facts: TunnelFacts, with: (u16, bool, Dns), device: &str) -> bool {
        self.env.extend(facts.env.iter().cloned());
        let is_same = |opened: &Opened| opened.facts == facts && opened.mtu == with.0;
        if self.config.keeps_device && self.opened.as_ref().is_some_and(is_same) {
            return self.reopen(facts, with.0, device);
        }
        if self.opened.is_some() {
            // OpenVPN: "Pulled options changed on restart, will need to close and reopen TUN/TAP device".
            self.close(device);
        }
        self.open(facts, with, device)
    }

    /// The server has changed settings of a connection that goes on: the device is closed and opened, whatever the file says of
    /// restarts (OpenVPN 2.7's init.c, `do_update`). True if a script runs.
    fn update(
        &mut self,
        before: &TunnelFacts,
        facts: TunnelFacts,
        with: (u16, bool, Dns),
        device: &str,
    ) -> bool {
        // OpenVPN has read the new options when it closes the device, and has set these variables by then.
        self.env.retain(|name, _| !name.starts_with(FOREIGN_OPTION));
        let is_option = |(name, _): &&(String, String)| name.starts_with(FOREIGN_OPTION);
        self.env.extend(facts.env.iter().filter(is_option).cloned());
        let signal = std::mem::replace(&mut self.signal, NO_SIGNAL);
        self.close(device);
        self.signal = signal;
        self.forget(before, &facts);
        self.open(facts, with, device)
    }

    /// Removes the variables of the settings before that the new ones do not set. Variables that were set at the start
    /// hold again.
    fn forget(&mut self, before: &TunnelFacts, now: &TunnelFacts) {
        for (name, _) in before.env.iter().chain(&before.routes) {
            self.env.remove(name);
        }
        for (name, value) in &self.base {
            self.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        self.env.extend(now.env.iter().cloned());
    }

    /// The tunnel is up, with its routes.
    pub(crate) fn up(&mut self, device: &str) {
        self.routes_set(device);
        if !std::mem::replace(&mut self.completed, true) {
            self.worker.post(Job::GiveUpRights);
        }
    }

    fn routes_set(&mut self, device: &str) {
        if !std::mem::take(&mut self.routes_due) {
            return;
        }
        if let Some(opened) = self.opened.as_ref().filter(|_| !self.config.leaves_routes) {
            let redirects = if opened.redirects { "1" } else { "0" };
            self.set("redirect_gateway", redirects);
        }
        if let Some(argv) = self.config.route_up.clone() {
            self.run_of_opening("route-up", argv, OnFailure::Warn, device);
        }
    }

    /// The peer is gone.
    pub(crate) fn peer_down(&mut self) {
        self.lost = self.end == End::Connects && self.opened.is_some();
    }

    /// The peer that was lost is looked for again.
    pub(crate) fn settle_loss(&mut self, device: &str) {
        if std::mem::take(&mut self.lost) {
            self.restart(device);
        }
    }

    /// A connection is attempted: scripts get the facts of this one alone.
    pub(crate) fn connecting(&mut self, device: &str) {
        self.settle_loss(device);
        self.begin_environment();
        self.signal = SIGTERM;
        self.reconnects = true;
    }

    /// The device is about to be taken back. Waits for the scripts.
    pub(crate) fn going_down(&mut self, device: &str) {
        self.lost = false;
        self.worker.hurry();
        if self.opened.is_some() {
            self.routes_go(device);
        }
        self.worker.finish_all();
    }

    /// The routes are gone, the device is there.
    pub(crate) fn down(&mut self, device: &str) {
        if self.config.down_before_close {
            self.closed(device);
            self.worker.finish_all();
        }
    }

    /// The device is gone. Says why the tunnel failed, if a script has made it fail.
    pub(crate) fn finish(&mut self, device: &str) -> Option<String> {
        // A tunnel that was never up has not gone down: what runs for it has a moment here.
        self.worker.hurry();
        self.closed(device);
        self.worker.finish_all();
        self.failure()
    }

    /// Why a script has made the tunnel fail, if one has.
    pub(crate) fn failure(&self) -> Option<String> {
        self.worker.failure()
    }

    /// The connection restarts.
    fn restart(&mut self, device: &str) {
        match self.config.keeps_device {
            false => self.close(device),
            true if self.config.at_restarts => {
                if !self.withdraw() {
                    self.down_script(RESTART, device);
                }
            }
            true => {}
        }
    }

    /// Withdraws the last opening, if none of its scripts has begun, and returns whether it did. So at most one run of each script
    /// waits when a peer changes settings, or comes and goes, faster than scripts run.
    fn withdraw(&mut self) -> bool {
        let (opening, context) = self.opening;
        let is_withdrawn = self.opened.is_some() && self.worker.withdraw(opening);
        if is_withdrawn && context == INIT {
            (self.opened, self.routes_due) = (None, false);
        }
        is_withdrawn
    }

    fn close(&mut self, device: &str) {
        if self.withdraw() && self.opened.is_none() {
            return;
        }
        self.routes_go(device);
        self.closed(device);
    }

    fn routes_go(&mut self, device: &str) {
        if let Some(argv) = self.config.route_pre_down.clone() {
            self.set("signal", self.signal);
            self.describe(INIT, device);
            let argv = self.with_arguments(argv, INIT, device);
            self.run("route-pre-down", argv, OnFailure::Fail, device);
        }
    }

    fn closed(&mut self, device: &str) {
        if self.opened.is_some() {
            self.down_script(INIT, device);
        }
        (self.opened, self.routes_due) = (None, false);
    }

    fn down_script(&mut self, context: &str, device: &str) {
        self.set("signal", self.signal);
        self.names("dns-down", device);
        self.describe(context, device);
        if let Some(argv) = self.config.down.clone() {
            let argv = self.with_arguments(argv, context, device);
            // A device that was kept over a restart may be closed before `down` has begun.
            self.worker.withdraw_runs("down");
            self.run("down", argv, OnFailure::Fail, device);
        }
    }

    /// A new device, as scripts see it. True if a script runs.
    fn open(&mut self, facts: TunnelFacts, with: (u16, bool, Dns), device: &str) -> bool {
        let (mtu, redirects, dns) = with;
        self.env.extend(facts.routes.iter().cloned());
        let gateways = facts.gateways.clone();
        self.opened = Some(Opened { facts, mtu, redirects, dns, gateways });
        self.routes_due = true;
        self.up_script(INIT, device)
    }

    /// Opens the same device as before. True if a script runs.
    fn reopen(&mut self, facts: TunnelFacts, mtu: u16, device: &str) -> bool {
        if let Some(opened) = &mut self.opened {
            (opened.facts, opened.mtu) = (facts, mtu);
            // OpenVPN computes routes for a new device alone.
            opened.gateways.clear();
        }
        self.routes_due = false;
        self.config.at_restarts && self.up_script(RESTART, device)
    }

    fn up_script(&mut self, context: &'static str, device: &str) -> bool {
        self.opening = (Opening(self.opening.0.0.wrapping_add(1)), context);
        self.worker.post(Job::Begin(self.opening.0));
        self.set("dev_type", if device == NULL_DEVICE { "null" } else { "tun" });
        let names = self.names(DNS_UP, device);
        self.describe(context, device);
        let Some(argv) = self.config.up.clone() else { return names };
        let argv = self.with_arguments(argv, context, device);
        self.run_of_opening("up", argv, OnFailure::Fail, device);
        true
    }

    /// `dns-updown`. True if it runs.
    fn names(&mut self, kind: &str, device: &str) -> bool {
        let NameServerSetting::Script(argv) = &self.config.names else { return false };
        let argv = argv.clone();
        let before = self.env.clone();
        if let Some(opened) = &self.opened {
            environment::set_names(&mut self.env, &opened.dns);
        }
        let files = if self.names_by_file { vec![self.names_file(kind, device)] } else { Vec::new() };
        let of = (kind == DNS_UP).then_some(self.opening.0);
        self.run_with(kind, argv, (files, OnFailure::Warn, of), device);
        self.env = before;
        true
    }

    /// The file that `dns_vars_file` names: variables, one a line.
    fn names_file(&self, kind: &str, device: &str) -> ScriptInput {
        let names = self.env.iter().filter(|(name, _)| name.starts_with("dns_"));
        let lines = names.map(|(name, value)| format!("{name}={value}\n"));
        let text: String = [format!("dev={device}\nscript_type={kind}\n")].into_iter().chain(lines).collect();
        ScriptInput {
            content: text.into_bytes(),
            is_argument: false,
            variable: Some("dns_vars_file".to_owned()),
            // The environment has the same.
            is_optional: true,
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// The variables that are set when `up` and `down` are due, whether there is such a script or not, and that later scripts
    /// have too (OpenVPN's init.c, `run_up_down`).
    fn describe(&mut self, context: &str, device: &str) {
        let mtu = self.opened.as_ref().map_or(0, |opened| opened.mtu);
        self.set("script_context", context);
        self.set("tun_mtu", &mtu.to_string());
        self.set("dev", device);
    }

    /// The arguments of `up` and `down` behind a command (OpenVPN's init.c, `run_up_down`).
    fn with_arguments(&self, argv: Vec<String>, context: &str, device: &str) -> Vec<String> {
        let (mtu, local, remote) = match &self.opened {
            Some(Opened { facts, mtu, .. }) => (*mtu, facts.local.clone(), facts.remote.clone()),
            None => (0, String::new(), String::new()),
        };
        let words = [device.to_owned(), mtu.to_string(), "0".to_owned(), local, remote, context.to_owned()];
        argv.into_iter().chain(words).collect()
    }

    fn run(&mut self, name: &str, argv: Vec<String>, on_failure: OnFailure, device: &str) {
        self.run_with(name, argv, (Vec::new(), on_failure, None), device);
    }

    /// Runs a script that tells of the last opening of the device.
    fn run_of_opening(&mut self, name: &str, argv: Vec<String>, on_failure: OnFailure, device: &str) {
        let of = Some(self.opening.0);
        self.run_with(name, argv, (Vec::new(), on_failure, of), device);
    }

    fn run_with(
        &mut self,
        name: &str,
        argv: Vec<String>,
        (files, on_failure, of): (Vec<ScriptInput>, OnFailure, Option<Opening>),
        device: &str,
    ) {
        self.set("script_type", name);
        let gateways = self.opened.as_ref().map(|opened| opened.gateways.as_slice()).unwrap_or_default();
        let has_device = self.env.contains_key("dev");
        let call = ScriptCall {
            argv,
            env: self.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            secrets: Vec::new(),
            device: Some(device).filter(|_| has_device).unwrap_or_default().to_owned(),
            files,
            beside: None,
            gateways: gateways.iter().map(|variable| (variable.name.clone(), variable.ipv6)).collect(),
        };
        // Its process is about to give up the rights that these have.
        let now = self.end == End::Serves && !self.completed;
        self.worker.run(Run { name: name.to_owned(), call: Box::new(call), on_failure, of }, now);
    }
}
