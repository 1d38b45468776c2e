//! A tunnel that comes up in two stages: the device first, routes and name servers when the program lets them be set.

use adit_core::{Command, Event, EventOf, Protocol, TunnelSettings};

use super::Control;
use crate::clock;
use crate::config::{Execution, of_device};

/// How far the tunnel is up.
pub(super) struct Stages<P: Protocol> {
    execution: Execution,
    /// Settings whose routes and name servers are not set yet.
    waiting: Option<TunnelSettings>,
    /// Events that are handed on after that.
    held: Vec<EventOf<P>>,
    /// How often the program has yet to say that they may be set. Scripts of a connection that was lost meanwhile are among
    /// those that it waits for.
    outstanding: u32,
    /// Routes and name servers were set, since the tunnel last went down.
    complete: bool,
}

impl<P: Protocol> Stages<P> {
    pub(super) fn new(execution: Execution) -> Self {
        Stages { execution, waiting: None, held: Vec::new(), outstanding: 0, complete: false }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The peer of a tunnel that is reported as up later is reported after it.
    pub(super) fn hold(&mut self, event: EventOf<P>) {
        self.held.push(event);
    }

    /// The settings of before count no more.
    fn release(&mut self) {
        self.waiting = None;
        self.held.clear();
    }

    /// A peer is gone: the settings of an end that connected to it as well.
    pub(super) fn peer_down(&mut self) {
        self.held.clear();
        self.waiting.take_if(|settings| settings.server.is_some());
    }
}

impl<P: Protocol> Control<'_, P> {
    pub(super) fn establish(&mut self, settings: TunnelSettings) {
        let own = self.network.stages.execution.own_part(&settings);
        if !self.network.stages.execution.in_stages {
            self.complete(settings, &own);
            return;
        }
        // The routes into a tunnel that comes back stay meanwhile, so that no packet leaves beside it.
        let first = if self.network.stages.complete { own } else { of_device(&own) };
        if let Err(reason) = self.up(&first) {
            return self.protocol.handle_command(clock(), Command::NotUp { reason });
        }
        let goes_on = self.observer.device_ready(&self.as_it_is(settings.clone()), self.tun.name());
        self.network.stages.outstanding += u32::from(!goes_on);
        // Settings that change while they wait go on with those before them.
        let waits = self.network.stages.waiting.replace(settings).is_some();
        if goes_on && !waits {
            self.complete_waiting();
        }
    }

    /// The program lets routes and name servers be set, as it does once for each time that it has them wait.
    pub(super) fn go_on(&mut self) {
        self.network.stages.outstanding = self.network.stages.outstanding.saturating_sub(1);
        if self.network.stages.outstanding == 0 {
            self.complete_waiting();
        }
    }

    fn complete_waiting(&mut self) {
        let Some(settings) = self.network.stages.waiting.take() else { return };
        let held = std::mem::take(&mut self.network.stages.held);
        let own = self.network.stages.execution.own_part(&settings);
        if self.complete(settings, &own) {
            held.iter().for_each(|event| self.observer.event(event, self.tun.name()));
        }
    }

    /// Sets up all that is ours. Gives whether the tunnel is up.
    fn complete(&mut self, settings: TunnelSettings, own: &TunnelSettings) -> bool {
        let result = self.up(own);
        let is_up = result.is_ok();
        if !is_up && self.network.stages.execution.in_stages && !self.network.stages.complete {
            // The device of a tunnel that was not up before stays; the other settings are removed, as packets would not
            // reach a peer by them.
            let _ = self.up(&of_device(own));
        }
        // After a failure earlier settings stay for the next attempt, too.
        self.network.stages.complete |= is_up;
        match result {
            Ok(()) => self.observer.event(&Event::Up(self.as_it_is(settings)), self.tun.name()),
            // A tunnel that lacks a setting that it needs is not reported as up.
            Err(reason) => self.protocol.handle_command(clock(), Command::NotUp { reason }),
        }
        is_up
    }

    /// Settings without the addresses that the system refused.
    fn as_it_is(&self, mut settings: TunnelSettings) -> TunnelSettings {
        let missing = self.network.system.missing_addresses();
        settings.addresses.retain(|address| !missing.contains(address));
        settings
    }

    pub(super) fn come_down(&mut self) {
        self.network.stages.release();
        self.network.stages.complete = false;
        self.observer.going_down(self.tun.name());
        self.network.undo(&self.poller);
    }
}
