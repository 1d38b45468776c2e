//! Which side a file is for, and that all its directives belong to that side.

use adit_core::configuration::{Kind, Problem};

use crate::directive_table::find;
use crate::directives;
use crate::draft::Draft;
use crate::parser::Parser;

/// The purpose of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
    /// The listening end of a point-to-point tunnel.
    PointToPoint,
}

/// Which side this is; `None`, and a problem, if it is none or two.
pub(super) fn side(draft: &Draft, file: &str, parser: &mut Parser<'_>) -> Option<Side> {
    let sides = &draft.sides;
    let client = sides.client.as_ref().or(sides.tls_client.as_ref());
    match (client, &sides.server) {
        (Some(client), Some(server)) => {
            let text = format!(
                "this makes it a server, but line {} made it a client; one file is one side",
                client.line
            );
            parser.problems.push(server.problem(text));
            None
        }
        (Some(client), None) => {
            if sides.tls_server.is_some() {
                parser.problems.push(client.problem("`tls-server` stands in a client's file; remove it"));
            }
            Some(Side::Client)
        }
        (None, Some(_)) => Some(Side::Server),
        (None, None) if sides.tls_server.is_some() => Some(Side::PointToPoint),
        (None, None) => {
            match () {
                () if draft.client.remotes.is_empty() => parser.problem_in(
                    file,
                    "neither a client nor a server: write `client` and `remote HOST`, or `server NETWORK NETMASK`",
                ),
                () => parser.problem_in(file, "`client` is missing: a file with `remote` is a client's"),
            }
            None
        }
    }
}

/// Directives of the other side are mistakes.
pub(super) fn check_sides(side: Side, parser: &mut Parser<'_>) {
    let (wrong, theirs, ours) = match side {
        Side::Server => (&[directives::Side::Client][..], "a client's", "a server's"),
        Side::Client => (&[directives::Side::Server][..], "a server's", "a client's"),
        Side::PointToPoint => (
            &[directives::Side::Client, directives::Side::Server][..],
            "a client's or a server's",
            "the listening end of a point-to-point tunnel",
        ),
    };
    for entry in parser.report.iter().filter(|entry| entry.kind != Kind::Refused) {
        // The listening end of a point-to-point tunnel may name the other end.
        let is_remote =
            side == Side::PointToPoint && matches!(entry.directive.as_str(), "remote" | "connection");
        if !is_remote && find(&entry.directive).is_some_and(|directive| wrong.contains(&directive.side)) {
            parser.problems.push(Problem {
                file: entry.file.clone(),
                line: Some(entry.line),
                text: format!(
                    "`{}` belongs into {theirs} file, and this is {ours}; remove it",
                    entry.directive
                ),
            });
        }
    }
}

/// A client's peer is a server and the other way round; anything else would never connect.
pub(super) fn check_usage(draft: &Draft, is_server: bool, parser: &mut Parser<'_>) {
    if let Some((wants_server, at)) = &draft.tls.wants_server
        && *wants_server == is_server
    {
        let right = if is_server { "client" } else { "server" };
        parser.problems.push(at.problem(format!(
            "this asks for a certificate of our own role; the other side is the {right}: write `remote-cert-tls {right}`"
        )));
    }
}
