//! The commands that list IKE SAs and policies.

use std::io;

use adit_ike_vici::Message;

use super::caller::Caller;
use super::look::{self, Filter};
use super::names::configured_selector;
use super::sas::connecting;
use super::view::{View, child_of};

/// Sends an event for each IKE SA: those that are established, and those that this end initiates.
///
/// # Errors
/// The program at the other end has gone.
pub(super) fn list_sas(message: &Message, view: &View, caller: &Caller) -> io::Result<Message> {
    let (now, filter) = (adit_io::clock(), Filter::of(message));
    let all = look::established(view).unwrap_or_default();
    for sa in all.iter().filter(|sa| filter.has(sa)) {
        caller.event("list-sa", sa.message(now))?;
    }
    let initiated = view.look(|endpoint, _| endpoint.connecting()).unwrap_or_default();
    let is_asked = |name: &str, value: &str| message.text(name).is_none_or(|asked| asked == value);
    let initiated = initiated.iter().map(|sa| (sa, view.numbers.of_ike_sa(sa.spis[0])));
    let initiated = initiated.filter(|(sa, number)| {
        !filter.names_children() && is_asked("ike", &sa.connection) && is_asked("ike-id", &number.to_string())
    });
    initiated.map(|(sa, number)| connecting(sa, number)).try_for_each(|sa| caller.event("list-sa", sa))?;
    Ok(Message::new())
}

/// Sends an event for each child that packets bring up. There are no policies of other kinds.
///
/// # Errors
/// The program at the other end has gone.
pub(super) fn list_policies(message: &Message, view: &View, caller: &Caller) -> io::Result<Message> {
    if message.text("trap") != Some("yes") {
        return Ok(Message::new());
    }
    let config = view.configured.config();
    let is_asked = |name: &str, value: &str| message.text(name).is_none_or(|asked| asked == value);
    for (ike, name) in view.look(|endpoint, _| endpoint.traps()).unwrap_or_default() {
        let Some((_, child)) = child_of(&config, Some(&ike), &name) else { continue };
        if !is_asked("ike", &ike) || !is_asked("child", &name) {
            continue;
        }
        let policy = Message::new()
            .with("child", &name)
            .with("ike", &ike)
            .with("mode", "TUNNEL")
            .with_list("local-ts", child.local_ts.iter().map(configured_selector))
            .with_list("remote-ts", child.remote_ts.iter().map(configured_selector));
        caller.event("list-policy", Message::new().with_section(&format!("{ike}/{name}"), policy))?;
    }
    Ok(Message::new())
}
