//! The commands.

use std::io;

use adit_ike_vici::Message;

use super::caller::Caller;
use super::view::View;
use super::{control, load, query, sas_list};

/// The command by which `adit block` gives the names of all peers that are kept out.
pub(super) const BLOCK: &str = "adit-block";

/// Carries out a command, and sends its events. `None`: it is not known.
///
/// # Errors
/// The program at the other end has gone.
pub(super) fn run(
    name: &str,
    message: &Message,
    view: &View,
    caller: &Caller,
) -> io::Result<Option<Message>> {
    if load::is_known(name) {
        return Ok(Some(outcome(load::run(name, message, view))));
    }
    // `swanctl --load-creds` asks for the names of what is there between the commands that load.
    if !name.starts_with("get-") && name != "version" {
        view.configured.settle();
    }
    let answer = match name {
        "version" => query::version(),
        "stats" => query::stats(view),
        "get-algorithms" => query::algorithms(),
        "get-conns" => query::connections(view),
        "get-keys" => query::keys(view),
        "get-shared" => query::secrets(view),
        "get-authorities" => query::authorities(view),
        "get-pools" => query::pools(message, view),
        "get-counters" | "reset-counters" => {
            outcome(Err("no counters available: this daemon has none".to_owned()))
        }
        "reload-settings" => outcome(reload(view)),
        "list-sas" => return sas_list::list_sas(message, view, caller).map(Some),
        "list-policies" => return sas_list::list_policies(message, view, caller).map(Some),
        "list-conns" => return query::list_connections(message, view, caller).map(Some),
        "list-certs" => return query::list_certificates(message, view, caller).map(Some),
        "list-authorities" => return query::list_authorities(message, view, caller).map(Some),
        BLOCK => outcome(control::block(message, view)),
        "initiate" => outcome(control::initiate(message, view, caller)?),
        "terminate" => outcome(control::terminate(message, view, caller)?),
        "rekey" => outcome(control::rekey(message, view)),
        "redirect" => outcome(control::redirect(message)),
        "install" => outcome(control::install(message, view, true)),
        "uninstall" => outcome(control::install(message, view, false)),
        _ => return Ok(None),
    };
    Ok(Some(answer))
}

fn reload(view: &View) -> Result<Message, String> {
    view.configured.reload().map(|()| Message::new()).map_err(|why| why.replace('\n', "; "))
}

/// The outcome of a command as strongSwan has it: `success`, and `errmsg` if there was none.
fn outcome(result: Result<Message, String>) -> Message {
    match result {
        Ok(values) => Message::new().with("success", "yes").with_all(values),
        Err(error) => Message::new().with("success", "no").with("errmsg", error),
    }
}
