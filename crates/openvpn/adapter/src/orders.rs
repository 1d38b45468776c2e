//! The orders that a running tunnel takes.

use adit_core::{Command, Protocol};
use adit_io::Handle;

use super::status_file::{self, Form};
use crate::reload_order::Reload;
use crate::status_source::StatusSource;
use adit_host::log::Logger;
use adit_host::signals::{Order, Receiver};

/// How a tunnel takes orders.
pub(crate) fn receiver<P: Protocol + StatusSource>(
    handle: Handle<P>,
    form: Form,
    (mut log, reload): (Logger, Reload),
) -> Receiver {
    Box::new(move |order| match order {
        Order::Shutdown => handle.command(Command::Shutdown),
        Order::Restart => handle.command(Command::Restart),
        Order::Reload => {
            reload.begin();
            true
        }
        Order::Status => {
            status_file::tell(form, &handle, &mut log);
            true
        }
    })
}
