//! Control messages of every kind, as a peer sends them that keeps to no rule.

use crate::control_message::{ControlMessage, Disconnect};

/// The numbers of all kinds of control messages.
pub fn kinds() -> impl Iterator<Item = usize> {
    (0..).take_while(|kind| message(*kind, 0).is_some())
}

/// A message of a kind; `number` makes each other than the one before it. `None` behind the last kind.
pub fn message(kind: usize, number: usize) -> Option<ControlMessage> {
    let how = Disconnect { reason: format!("reason {number}"), ..Disconnect::default() };
    Some(match kind {
        0 => ControlMessage::PushRequest,
        1 => ControlMessage::PushReply(options(number)),
        2 => ControlMessage::PushUpdate(changes(number)),
        3 => ControlMessage::AuthFailed(if number.is_multiple_of(2) {
            "TEMP".to_owned()
        } else {
            String::new()
        }),
        4 => ControlMessage::Restart(how),
        5 => ControlMessage::Halt(how),
        6 => ControlMessage::Exit,
        7 => ControlMessage::Info(format!("text {number}")),
        8 => ControlMessage::InfoPre(format!("CR_TEXT:R,E:question {number}")),
        9 => ControlMessage::AuthPending { timeout: Some(60) },
        10 => ControlMessage::CrResponse(format!("{number}")),
        11 => ControlMessage::Unknown(format!("UNKNOWN {number} \u{7}")),
        _ => return None,
    })
}

/// The number of a message's kind, from which [`message`] makes others. A new kind does not compile until it has one.
pub fn kind(message: &ControlMessage) -> usize {
    match message {
        ControlMessage::PushRequest => 0,
        ControlMessage::PushReply(_) => 1,
        ControlMessage::PushUpdate(_) => 2,
        ControlMessage::AuthFailed(_) => 3,
        ControlMessage::Restart(_) => 4,
        ControlMessage::Halt(_) => 5,
        ControlMessage::Exit => 6,
        ControlMessage::Info(_) => 7,
        ControlMessage::InfoPre(_) => 8,
        ControlMessage::AuthPending { .. } => 9,
        ControlMessage::CrResponse(_) => 10,
        ControlMessage::Unknown(_) => 11,
    }
}

/// Settings for a client, of which it takes some and passes over others.
fn options(number: usize) -> Vec<String> {
    let (metric, third) = (number % 250 + 1, number % 256);
    vec![
        format!("route-metric {metric}"),
        format!("route 10.99.{third}.0 255.255.255.0"),
        format!("dhcp-option x{number}"),
        format!("unheard-of {number}"),
        format!("echo {number}"),
        format!("tun-mtu {}", 1300 + metric),
    ]
}

/// Changes of settings that a client takes, or passes over; once in a while one that it refuses.
fn changes(number: usize) -> Vec<String> {
    let (metric, third) = (number % 250 + 1, number % 256);
    let mut changes = vec![
        format!("route-metric {metric}"),
        format!("route 10.99.{third}.0 255.255.255.0"),
        format!("dhcp-option x{number}"),
        format!("dhcp-option DNS 192.0.2.{third}"),
        format!("?unheard-of {number}"),
        format!("tun-mtu {}", 1300 + metric),
    ];
    if number % 500 == 499 {
        changes.push("unheard-of".to_owned());
    }
    changes.split_off(number % 3)
}
