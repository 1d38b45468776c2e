//! The settings on which the endpoints of one tunnel must agree.

use adit_core::IpNet;

use super::Party;
use crate::facts::{EndpointRole, Join, Lead, Stated};

/// The contradictions between two endpoints of one tunnel, one problem a line, with both places.
pub(super) fn contradictions(one: Party<'_>, other: Party<'_>) -> Vec<String> {
    let (Some(endpoint), Some(of_other)) = (&one.facts.endpoint, &other.facts.endpoint) else {
        return Vec::new();
    };
    match (&endpoint.role, &of_other.role) {
        (EndpointRole::Leads(lead), EndpointRole::Leads(of_other)) => {
            disagreements((one, lead), (other, of_other), &endpoint.device)
        }
        (EndpointRole::Joins(join), EndpointRole::Leads(lead)) => misfits((one, join), (other, lead)),
        (EndpointRole::Leads(lead), EndpointRole::Joins(join)) => misfits((other, join), (one, lead)),
        (EndpointRole::Joins(_), EndpointRole::Joins(_)) => Vec::new(),
    }
}

/// The settings on which two endpoints that lead do not agree.
fn disagreements(
    (one, lead): (Party<'_>, &Lead),
    (other, of_other): (Party<'_>, &Lead),
    device: &str,
) -> Vec<String> {
    let pairs = lead.agreement.iter().zip(&of_other.agreement);
    let problem = |(ours, theirs): (&Stated<String>, &Stated<String>)| {
        let (here, there) = (one.place(ours.directives), other.place(theirs.directives));
        let (value, of_other, rule) = (&ours.value, &theirs.value, lead.rule);
        format!("{here}: {value}, but {of_other} at {there}: {rule} in place of {device}")
    };
    pairs.filter(|(ours, theirs)| ours.value != theirs.value).map(problem).collect()
}

/// The settings of an endpoint that joins which do not fit the tunnel.
fn misfits((one, join): (Party<'_>, &Join), (leading, lead): (Party<'_>, &Lead)) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |directives: &[&str], text: &str, of_lead: &[&str], theirs: String| {
        let (here, there) = (one.place(directives), leading.place(of_lead));
        problems.push(format!(
            "{here}: {text}, but {theirs} at {there}: the interface is an endpoint of that server's tunnel; correct \
             it, or give the file another name"
        ));
    };
    if let Some(addresses) = join.addresses.as_ref().filter(|own| own.value != lead.addresses.value) {
        let list = |all: &[IpNet]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let theirs = format!("the server's address is {}", list(&lead.addresses.value));
        problem(addresses.directives, &join.addresses_text, lead.addresses.directives, theirs);
    }
    if let Some(mtu) = join.mtu.as_ref().filter(|mtu| mtu.value != lead.terms.mtu) {
        let (text, theirs) = (format!("`MTU = {}`", mtu.value), format!("the MTU is {}", lead.terms.mtu));
        problem(mtu.directives, &text, lead.mtu_directives, theirs);
    }
    if let Some(port) = join.marked_port.as_ref().filter(|port| lead.udp_ports.value.contains(&port.value)) {
        let theirs = "the server has that port and no mark".to_owned();
        problem(port.directives, "a firewall mark", lead.udp_ports.directives, theirs);
    }
    problems
}
