//! Directives on the process.

use std::path::PathBuf;

use crate::directives::args::Args;
use crate::directives::{Effect, done, done_but, skip};
use crate::draft::Draft;
use crate::model::Log;

type Done = Result<Effect, String>;

/// A path as written; `cd` is applied when the whole file is read.
pub(crate) fn path(args: &Args<'_>) -> Result<PathBuf, String> {
    let path = args.get(0)?;
    if path.is_empty() { Err(args.usage()) } else { Ok(path.into()) }
}

pub(crate) fn user(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.user = Some(args.get(0)?.into());
    done()
}

pub(crate) fn group(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.group = Some(args.get(0)?.into());
    done()
}

pub(crate) fn verb(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.verb = args.number(0, 0..=15)?;
    done()
}

pub(crate) fn mute(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.mute = Some(args.number(0, 0..=i32::MAX as u32)?).filter(|messages| *messages > 0);
    done()
}

pub(crate) fn log(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.log = Some(Log::File { path: path(args)?, append: false });
    done()
}

pub(crate) fn log_append(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.log = Some(Log::File { path: path(args)?, append: true });
    done()
}

pub(crate) fn syslog(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.log = Some(Log::Syslog(args.opt(0).map(Into::into)));
    done()
}

pub(crate) fn daemon(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.daemon = Some(args.opt(0).map(Into::into));
    done_but(
        "the log goes to the system's log, unless `log` says otherwise; the process stays in the foreground, where a \
         service manager sees how it is",
    )
}

pub(crate) fn suppress_timestamps(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.process.stamps = false;
    done()
}

pub(crate) fn status(draft: &mut Draft, args: &Args<'_>) -> Done {
    let every = args.opt(1).map(|_| args.seconds(1)).transpose()?;
    draft.status = Some((path(args)?, every));
    done()
}

pub(crate) fn status_version(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.status_version = Some(args.number(0, 1..=3)?);
    done()
}

pub(crate) fn writepid(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.pid_file = Some(path(args)?);
    done()
}

pub(crate) fn tmp_dir(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.tmp_dir = Some(path(args)?);
    done()
}

/// The effect of SIGUSR1, of a lost connection and of a failed attempt. OpenVPN may read its file again then; adit does
/// that on SIGHUP alone, which can be sent to it at any time.
pub(crate) fn remap_usr1(draft: &mut Draft, args: &Args<'_>) -> Done {
    let ends = args.choice(0, &[("SIGHUP", false), ("SIGTERM", true)])?;
    draft.client.ends_when_lost = ends.then(|| args.entry.at.clone());
    if ends {
        return done();
    }
    skip(
        "SIGUSR1 and a lost connection make adit connect anew, without reading this file again; send it SIGHUP to have it \
         read again",
    )
}

pub(crate) fn nice(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.process.nice = args.number(0, -20..=19)?;
    done()
}

pub(crate) fn mlock(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.process.lock_memory = true;
    done()
}

pub(crate) fn cd(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.directory = draft.directory.join(path(args)?);
    done()
}

/// A server's paths are meant within the directory, so that its file may not have it.
pub(crate) fn chroot(_: &mut Draft, args: &Args<'_>) -> Done {
    path(args)?;
    done_but(
        "the process of a tunnel opens no file at all once it runs (Landlock), which is less than a directory would leave it; \
         the helper that sets the network up stays outside",
    )
}

/// `config`: its file was read in its place.
pub(crate) fn nested(_: &mut Draft, _: &Args<'_>) -> Done {
    done()
}

/// A message for the program at the management socket: its words with one space between (options.c `add_option`).
pub(crate) fn echo(draft: &mut Draft, args: &Args<'_>) -> Done {
    let text = args.all().join(" ");
    draft.process.echo.extend(Some(text).filter(|text| !text.is_empty()));
    done()
}

/// Read before all other directives.
pub(crate) fn ignore_unknown(_: &mut Draft, _: &Args<'_>) -> Done {
    done()
}
