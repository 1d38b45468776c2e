//! UDP sockets for both address families, bound and marked before the driver runs and while it does.

use super::*;

/// Sends a control datagram to a port of this machine, of each family.
fn initial_packets(port: u16, word: u8) -> [UdpSocket; 2] {
    [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1")].map(|(own, to): (&str, &str)| {
        let socket = UdpSocket::bind(own).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.send_to(&[CONTROL, word], (to, port)).unwrap();
        socket
    })
}

/// Waits for that datagram, and gives the numbers of the sockets where it came for each family.
fn arrived(running: &Running, word: u8) -> [u32; 2] {
    let one =
        || match running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if bytes[1] == word)) {
            Heard::Datagram(Path::Udp { socket, remote }, _) => (remote.is_ipv6(), socket),
            other => panic!("{other:?}"),
        };
    let mut both = [one(), one()];
    both.sort_unstable();
    assert!(!both[0].0 && both[1].0, "one of each family");
    both.map(|(_, socket)| socket)
}

/// A driver with a port before it runs.
fn start_bound(config: DriverConfig, binding: UdpBinding, slow: Duration) -> (Running, UdpSockets) {
    run_bound(Driver::new(config, make_codec).unwrap(), binding, slow)
}

pub(super) fn run_bound(
    mut driver: Driver<Toy>,
    binding: UdpBinding,
    slow: Duration,
) -> (Running, UdpSockets) {
    let sockets = driver.bind_udp(binding).unwrap();
    let (mut toy, heard) = Toy::new(Role::Server, "10.9.0.1/24");
    toy.slow = slow;
    let (handle, addresses) = (driver.handle(), driver.local_addresses());
    let mut log = Log(toy.heard.clone());
    let thread = thread::spawn(move || driver.run(toy, &mut log));
    (Running { handle, heard, addresses, thread }, sockets)
}

/// Orders a binding, and waits for its result. The callback of the answer passes the result on.
pub(super) fn bind(running: &Running, binding: UdpBinding) -> io::Result<UdpSockets> {
    let (tell, told) = channel();
    let answer = move |toy: &mut Toy, _: Instant, outcome: io::Result<UdpSockets>| {
        let _ = toy.heard.send(Heard::Event("answered".to_owned()));
        tell.send(outcome).unwrap();
    };
    assert!(running.handle.bind_udp(binding, Box::new(answer)));
    told.recv_timeout(TIMEOUT).unwrap()
}

pub(super) fn port(port: u16) -> UdpBinding {
    UdpBinding { number: 0, port: Some(port), mark: None }
}

fn numbers(sockets: UdpSockets) -> [u32; 2] {
    [sockets.ipv4.unwrap(), sockets.ipv6.unwrap()]
}

#[test]
fn the_port_changes_while_the_driver_runs() {
    in_fresh_network(|| {
        for workers in [1, 2] {
            let config = DriverConfig { workers, ..config(Role::Server) };
            let (running, first) = start_bound(config, port(0), Duration::ZERO);
            assert_eq!(running.addresses.iter().filter(|address| address.port() == first.port).count(), 2);
            let clients = initial_packets(first.port, 1);
            assert_eq!(arrived(&running, 1), numbers(first));
            // Each was answered from the port that it wrote to, the first of them as a new peer.
            let mut buffer = [0; 100];
            let (_, from) = clients[0].recv_from(&mut buffer).unwrap();
            assert_eq!(from.port(), first.port);

            let second = bind(&running, port(0)).unwrap();
            assert!(second.port != first.port && numbers(second) != numbers(first));
            let bound =
                |heard: &Heard| matches!(heard, Heard::Bound(number, _) if Some(*number) == second.ipv6);
            running.wait_for(bound);
            running.wait_for(|heard| *heard == Heard::Event("answered".to_owned()));
            initial_packets(second.port, 2);
            assert_eq!(arrived(&running, 2), numbers(second));
            let free = (0..2000).any(|_| {
                thread::sleep(Duration::from_millis(10));
                UdpSocket::bind(("0.0.0.0", first.port)).is_ok()
                    && UdpSocket::bind(("::", first.port)).is_ok()
            });
            assert!(free, "the old sockets are still there");

            assert_eq!(bind(&running, port(second.port)).unwrap(), second, "ours already");
            assert_eq!(bind(&running, port(first.port)).unwrap().port, first.port, "back again");
            running.stop();
        }
    });
}

#[test]
fn what_cannot_be_bound_changes_nothing() {
    in_fresh_network(|| {
        let (running, first) = start_bound(config(Role::Server), port(0), Duration::ZERO);
        // Taken for IPv6 alone: the port that was bound for IPv4 is given back.
        let taken = UdpSocket::bind("[::1]:0").unwrap();
        let wanted = taken.local_addr().unwrap().port();
        let error = bind(&running, UdpBinding { number: 0, port: Some(wanted), mark: Some(5) }).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
        // A program that another test starts has a copy of the socket until its `exec`.
        let given_back = (0..2000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            UdpSocket::bind(("0.0.0.0", wanted)).is_ok()
        });
        assert!(given_back, "UDP port {wanted} is still bound for IPv4");
        initial_packets(first.port, 1);
        assert_eq!(arrived(&running, 1), numbers(first));
        assert_eq!(bind(&running, UdpBinding::default()).unwrap(), first);
        running.stop();
    });
}

/// Routing rules see the mark: a datagram that has it is not routed.
#[test]
fn the_mark_holds_for_the_sockets_that_are_there_and_for_later_ones() {
    in_fresh_network(|| {
        ip("rule add fwmark 0x77 unreachable pref 1");
        ip("rule add lookup local pref 2");
        ip("rule del lookup local pref 0");
        let marked = UdpBinding { number: 0, port: Some(0), mark: Some(0x77) };
        let (running, _) = start_bound(config(Role::Server), marked, Duration::ZERO);
        let answered = |word: u8, sockets: UdpSockets, within: Duration| {
            let [client, _other] = initial_packets(sockets.port, word);
            running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if bytes[1] == word));
            client.set_read_timeout(Some(within)).unwrap();
            client.recv_from(&mut [0; 100]).is_ok()
        };
        let short = Duration::from_millis(200);
        let present = bind(&running, UdpBinding::default()).unwrap();
        assert!(!answered(1, present, short));
        let later = bind(&running, port(0)).unwrap();
        assert!(!answered(2, later, short), "it has the mark of the one before");
        assert_eq!(bind(&running, UdpBinding { number: 0, port: None, mark: Some(0) }).unwrap(), later);
        assert!(answered(3, later, TIMEOUT));
        bind(&running, UdpBinding { number: 0, port: None, mark: Some(0x77) }).unwrap();
        assert!(!answered(4, later, short));
        running.stop();
    });
}

#[test]
fn a_mark_that_is_not_allowed_is_refused_with_the_systems_number() {
    in_fresh_network(|| {
        let mut driver = Driver::<Toy>::new(config(Role::Server), make_codec).unwrap();
        let sockets = driver.bind_udp(port(0)).unwrap();
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .unwrap();
        for wanted in [None, Some(0)] {
            let error = driver.bind_udp(UdpBinding { number: 0, port: wanted, mark: Some(1) }).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        }
        assert_eq!(
            driver.bind_udp(UdpBinding { number: 0, port: Some(sockets.port), mark: Some(0) }).unwrap(),
            sockets
        );
    });
}

/// Datagrams that wait for the protocol while the sockets are replaced are not lost, and are answered by the
/// new ones.
#[test]
fn what_came_by_the_old_sockets_is_told_as_if_by_the_new_ones() {
    in_fresh_network(|| {
        // More than are handled before orders are looked at.
        const COUNT: usize = 900;
        let slow = Duration::from_millis(1);
        let (running, first) = start_bound(config(Role::Server), port(0), slow);
        running.wait_until_up();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..COUNT {
            client.send_to(&[CONTROL, 1], ("127.0.0.1", first.port)).unwrap();
        }
        running.wait_for(|heard| matches!(heard, Heard::Datagram(..)));
        let second = bind(&running, port(0)).unwrap();
        let mut by = BTreeMap::from([(first.ipv4.unwrap(), 1)]);
        while by.values().sum::<usize>() < COUNT {
            let heard = running.wait_for(|heard| matches!(heard, Heard::Datagram(..)));
            let Heard::Datagram(Path::Udp { socket, .. }, _) = heard else { panic!("{heard:?}") };
            *by.entry(socket).or_default() += 1;
        }
        let numbers: Vec<u32> = by.keys().copied().collect();
        assert_eq!(numbers, [first.ipv4.unwrap(), second.ipv4.unwrap()], "{by:?}");
        running.stop();
    });
}
