//! Drivers whose helper says that an address refuses datagrams, or that the system refuses settings.

use std::os::fd::OwnedFd;

use adit_core::{Report, Severity};
use adit_system::RouteWatch;

use super::*;
use crate::helper::{Attempt, DriverHelper, OpenOutcome};
use crate::helper_channels::{ForwardChannel, NetworkChannel, SocketChannel};
use crate::opener::{Opened, Refusals};
use crate::udp::UdpOptions;

/// A helper whose only address refuses datagrams, and whose system refuses all settings, with so many words.
#[derive(Debug)]
struct Refusing {
    address: SocketAddr,
    reports: usize,
}

impl DriverHelper for Refusing {
    fn network(&self) -> io::Result<Box<dyn NetworkChannel>> {
        Ok(Box::new(RefusingSystem { reports: self.reports }))
    }

    fn sockets(&self) -> io::Result<Box<dyn SocketChannel>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn forwarding(&self) -> io::Result<Box<dyn ForwardChannel>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn open(
        &self,
        _: Attempt,
        udp: &UdpOptions,
        prepare: &mut dyn FnMut(Vec<IpAddr>),
    ) -> io::Result<OpenOutcome> {
        prepare(vec![self.address.ip()]);
        let socket = OwnedFd::from(UdpSocket::bind("127.0.0.1:0")?);
        let opened = Opened::udp(socket, self.address, udp, None)?;
        Ok((Ok(opened), Refusals::Helper(Box::new(|| Some("the address refuses".to_owned())))))
    }
}

/// See [`Refusing`].
#[derive(Debug)]
struct RefusingSystem {
    reports: usize,
}

impl NetworkChannel for RefusingSystem {
    fn apply(&mut self, _: &TunnelSettings) -> io::Result<Vec<Report>> {
        let report = |number| Report {
            severity: Severity::Warning,
            path: None,
            text: format!("setting {number} is refused"),
        };
        Ok((0..self.reports).map(report).collect())
    }

    fn bypass(&mut self, _: &[IpAddr]) -> io::Result<()> {
        Ok(())
    }

    fn follow(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn undo(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn depends_on_network(&self) -> bool {
        false
    }

    fn takes_all(&self) -> bool {
        false
    }

    fn missing_addresses(&self) -> &[IpNet] {
        &[]
    }

    fn lacks(&self) -> Option<String> {
        None
    }

    fn watch(&mut self) -> io::Result<RouteWatch> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Runs a driver with that helper.
fn run(config: DriverConfig, role: Role, helper: Refusing) -> Running {
    let (toy, heard) = Toy::new(role, "10.9.0.1/24");
    let mut driver = Driver::<Toy>::new(config, make_codec).unwrap();
    driver.use_helper(helper, true).unwrap();
    run_driver(driver, toy, heard)
}

#[test]
fn the_protocol_hears_that_its_remote_refuses_datagrams() {
    in_fresh_network(|| {
        let address = "127.0.0.1:9".parse().unwrap();
        let helper = Refusing { address, reports: 0 };
        let running = run(client_config(Transport::Udp, address), Role::Client, helper);
        let heard = running.wait_for(|heard| matches!(heard, Heard::Closed(_)));
        assert_eq!(heard, Heard::Closed("the address refuses".to_owned()));
        running.stop();
    });
}

#[test]
fn the_log_has_some_of_what_the_system_refuses_of_one_change() {
    in_fresh_network(|| {
        let config = server_config(Transport::Udp, "127.0.0.1:0");
        let helper = Refusing { address: "127.0.0.1:9".parse().unwrap(), reports: 1000 };
        let Running { handle, heard, thread, .. } = run(config, Role::Server, helper);
        assert!(handle.command(Command::Shutdown));
        assert_eq!(thread.join().unwrap().unwrap(), Ended::Shutdown);
        let lines = heard.try_iter().filter(|heard| match heard {
            Heard::Event(line) => line.contains("is refused") || line.contains("further faults of this kind"),
            _ => false,
        });
        assert_eq!(lines.count(), 16);
    });
}
