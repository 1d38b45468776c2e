//! `plugin`: no module is loaded. In place of the two modules that judge passwords, adit has programs of its
//! own.

use crate::directives::args::Args;
use crate::directives::{Effect, done, done_with_doubt};
use crate::draft::Draft;
use crate::lexer::split;
use crate::model::PasswordBackEnd;

type Done = Result<Effect, String>;

const PAM: [&str; 2] = ["openvpn-plugin-auth-pam.so", "openvpn-auth-pam.so"];
const LDAP: &str = "openvpn-auth-ldap.so";
const DOWN_ROOT: [&str; 2] = ["openvpn-plugin-down-root.so", "openvpn-down-root.so"];

pub(crate) fn plugin(draft: &mut Draft, args: &Args<'_>) -> Done {
    let module = args.get(0)?;
    let name = module.rsplit('/').next().unwrap_or(module);
    if PAM.contains(&name) {
        return pam(draft, args);
    }
    if name == LDAP {
        return ldap(draft, args);
    }
    if DOWN_ROOT.contains(&name) {
        return Err("`plugin` cannot be used: adit loads no plugins; write `down COMMAND` in place of this one, and remove \
                    `user`, for `down` to run as who started adit"
            .into());
    }
    Err(format!(
        "`plugin` cannot be used: adit loads no plugins; of those that judge passwords it does the work of `{}` and `{LDAP}` \
         itself (RADIUS and one-time codes by PAM's modules); another has to be a program: write `auth-user-pass-verify \
         COMMAND via-file` in its place: without a judge the second factor is lost, and a certificate alone lets a client in",
        PAM[0]
    ))
}

/// The words after the module's name. A single argument is split into words, as in OpenVPN (options.c,
/// `make_extended_arg_array`).
fn words(args: &Args<'_>) -> Result<Vec<String>, String> {
    match args.all() {
        [_, line] => split(line),
        [_, words @ ..] => Ok(words.to_vec()),
        [] => Ok(Vec::new()),
    }
}

fn pam(draft: &mut Draft, args: &Args<'_>) -> Done {
    let words = words(args)?;
    let right = "the PAM service, and pairs of what its questions begin with and their answers: `plugin MODULE \"openvpn login \
                 USERNAME password PASSWORD\"`";
    let Some((service, pairs)) = words.split_first() else {
        return Err(format!("`plugin`: the arguments are missing; write {right}"));
    };
    if service.is_empty() || service.contains('/') || service.starts_with('.') {
        return Err(args.bad(service, "the name of a file in /etc/pam.d"));
    }
    let (pairs, rest) = pairs.as_chunks::<2>();
    if let Some(rest) = rest.first() {
        return Err(format!("`plugin`: `{rest}` has no answer after it; write {right}"));
    }
    if pairs.iter().any(|[question, _]| question.is_empty()) {
        return Err(format!("`plugin`: a question that begins with nothing; write {right}"));
    }
    let answers = pairs.iter().map(|[question, answer]| (question.clone(), answer.clone())).collect();
    draft.access.back_ends.push(PasswordBackEnd::Pam { service: service.clone(), answers });
    done()
}

fn ldap(draft: &mut Draft, args: &Args<'_>) -> Done {
    let words = words(args)?;
    let Some((file, rest)) = words.split_first().filter(|(file, _)| !file.is_empty()) else {
        return Err("`plugin`: the file is missing; write `plugin MODULE FILE`".into());
    };
    draft.access.back_ends.push(PasswordBackEnd::Ldap { file: file.into() });
    match rest.first() {
        Some(word) => done_with_doubt(format!("the file alone counts; remove `{word}`")),
        None => done(),
    }
}
