//! The data threads: their start and their end.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::device::Endpoints;
use super::error::DriverError;
use super::mail::DataMail;
use crate::mailbox::Mailbox;

/// The data threads; they are stopped and waited for when this is dropped, also in a panic.
#[derive(Default)]
pub(super) struct Threads {
    running: Vec<(Mailbox<DataMail>, JoinHandle<()>)>,
}

impl Threads {
    pub(super) fn start(
        &mut self,
        number: usize,
        data: Mailbox<DataMail>,
        endpoints: Arc<Endpoints>,
        body: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<(), DriverError> {
        let run = move || {
            let why = match catch_unwind(AssertUnwindSafe(body)) {
                Ok(Ok(())) => return,
                Ok(Err(why)) => why,
                Err(panic) => format!("a fault in adit: {}", panic_text(&*panic)),
            };
            endpoints.died(why);
        };
        let name = format!("adit-data-{number}");
        let handle = thread::Builder::new().name(name).spawn(run).map_err(DriverError::Start)?;
        self.running.push((data, handle));
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for (data, _) in &self.running {
            data.post(DataMail::Stop);
            data.wake();
        }
        for (_, handle) in self.running.drain(..) {
            // The thread caught its own panic and reported it to the control thread.
            let _ = handle.join();
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without words")
}
