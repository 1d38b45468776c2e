//! Directives on the authentication of a server's clients, and on the scripts that take part in it.

use std::time::Duration;

use adit_core::configuration::Problem;
use adit_openvpn::access::PasswordScript;
use adit_pki::CertificateDemand;

use crate::directives::args::Args;
use crate::directives::{Effect, done, skip};
use crate::draft::{Draft, Material, Source};
use crate::lexer::split;
use crate::model::TokenTimes;

type Done = Result<Effect, String>;

/// The words of a command line that is one argument of its directive. No shell reads it.
pub(super) fn command(args: &Args<'_>, index: usize) -> Result<Vec<String>, String> {
    let words = split(args.get(index)?)?;
    match words.first().map(String::as_str) {
        None | Some("") => Err(args.usage()),
        Some(program) if !program.starts_with('/') => {
            Err(args.bad(program, format!("the whole path of the program, such as /etc/openvpn/{program}")))
        }
        Some(_) => Ok(words),
    }
}

fn script(slot: &mut Option<Vec<String>>, args: &Args<'_>) -> Done {
    *slot = Some(command(args, 0)?);
    done()
}

pub(crate) fn verify(draft: &mut Draft, args: &Args<'_>) -> Done {
    let by_file = args.choice(1, &[("via-file", true), ("via-env", false)])?;
    let argv = command(args, 0)?;
    draft.access.verify = Some(PasswordScript { argv, by_file });
    draft.access_at.push((args.entry.at.clone(), if by_file { 2 } else { 3 }));
    done()
}

pub(crate) fn client_crresponse(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.access_at.push((args.entry.at.clone(), 2));
    draft.crresponse_at = Some(args.entry.at.clone());
    script(&mut draft.access.client_crresponse, args)
}

pub(crate) fn client_connect(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.access_at.push((args.entry.at.clone(), 2));
    script(&mut draft.access.client_connect, args)
}

pub(crate) fn client_disconnect(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.access_at.push((args.entry.at.clone(), 2));
    script(&mut draft.access.client_disconnect, args)
}

pub(crate) fn learn_address(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.access_at.push((args.entry.at.clone(), 2));
    script(&mut draft.access.learn_address, args)
}

pub(crate) fn key_verify(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.access_at.push((args.entry.at.clone(), 2));
    script(&mut draft.access.key_verify, args)
}

pub(crate) fn script_security(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.script_security = Some(args.number(0, 0..=3)?);
    done()
}

pub(crate) fn optional(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.access.optional = true;
    draft.needs_verifier_at.push(args.entry.at.clone());
    done()
}

pub(crate) fn username_as_name(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.access.username_as_name = true;
    draft.needs_verifier_at.push(args.entry.at.clone());
    done()
}

pub(crate) fn client_certificates(draft: &mut Draft, args: &Args<'_>) -> Done {
    let modes = [
        ("require", CertificateDemand::Require),
        ("optional", CertificateDemand::Optional),
        ("none", CertificateDemand::None),
    ];
    draft.access.certificates =
        if args.opt(0).is_some() { args.choice(0, &modes)? } else { CertificateDemand::Require };
    draft.certificates_at = Some(args.entry.at.clone());
    done()
}

pub(crate) fn tokens(draft: &mut Draft, args: &Args<'_>) -> Done {
    let words = args.all();
    let external = words.last().is_some_and(|word| word == "external-auth");
    let times = words.len() - usize::from(external);
    if times > 2 {
        return Err(args.usage());
    }
    let seconds = |index| -> Result<Option<Duration>, String> {
        if index < times { args.seconds(index).map(Some) } else { Ok(None) }
    };
    draft.access.tokens = Some(TokenTimes {
        lifetime: seconds(0)?.filter(|time| !time.is_zero()),
        renewal: seconds(1)?.filter(|time| !time.is_zero()),
        external,
    });
    done()
}

pub(crate) fn token_secret(draft: &mut Draft, args: &Args<'_>) -> Done {
    let source = match args.inline() {
        Some(inline) => Source::Inline(inline.clone()),
        None if args.get(0)? == "[inline]" => return skip("the block gives it"),
        None => Source::File(args.get(0)?.into()),
    };
    draft.token_secret = Some(Material { at: args.entry.at.clone(), source });
    done()
}

pub(crate) fn setenv(draft: &mut Draft, args: &Args<'_>) -> Done {
    let safe = args.name() == "setenv-safe";
    match args.get(0)? {
        "FORWARD_COMPATIBLE" => return skip("it was heeded: unknown directives are ignored"),
        "CLIENT_CERT" => return skip("it speaks to other programs; `cert` and `key` decide"),
        name => {
            let name = if safe { format!("OPENVPN_{name}") } else { name.to_owned() };
            if name.contains('=') {
                return Err(args.bad(name, "a name without `=`, and the value after it"));
            }
            draft.access.env.push((name, args.opt(1).unwrap_or_default().to_owned()));
        }
    }
    done()
}

/// Checks that the file has all directives that its scripts and passwords need to work.
pub(crate) fn check(draft: &Draft, problems: &mut Vec<Problem>) {
    let level = draft.script_security.unwrap_or(1);
    for (at, needed) in draft.access_at.iter().filter(|(_, needed)| level < *needed) {
        let why = if *needed == 3 {
            " as a password becomes an environment variable (or choose `via-file`)"
        } else {
            ""
        };
        problems.push(at.problem(format!("write `script-security {needed}` to allow this script{why}")));
    }
    if let (Some(at), None) = (&draft.crresponse_at, &draft.access.verify) {
        problems.push(at.problem(
            "only what `auth-user-pass-verify` asks is answered: write `auth-user-pass-verify COMMAND via-file` too",
        ));
    }
    let verified =
        draft.access.verify.is_some() || !draft.access.back_ends.is_empty() || draft.access.management;
    for at in draft.needs_verifier_at.iter().filter(|_| !verified) {
        problems.push(at.problem(
            "nothing judges usernames and passwords, so a client could give any: write `auth-user-pass-verify COMMAND \
             via-file` too, or `management-client-auth`",
        ));
    }
    if let (Some(at), false, true) =
        (&draft.certificates_at, verified, draft.access.certificates != CertificateDemand::Require)
    {
        problems.push(at.problem(
            "clients without a certificate must show a password: write `auth-user-pass-verify COMMAND via-file` \
             too, or `management-client-auth`",
        ));
    }
}
