//! A TUN device that was handed over, and one that another program moves or deletes while the driver runs.

use std::os::fd::OwnedFd;

use super::*;
use crate::tun::{Tun, TunError};

/// The first byte of a data datagram.
const DATA: u8 = 1;

/// A client at work whose server is that socket.
fn client(config: impl FnOnce(&mut DriverConfig)) -> (Running, UdpSocket) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut changed = client_config(Transport::Udp, server.local_addr().unwrap());
    changed.changes_routing = false;
    config(&mut changed);
    let running = start(changed, "10.9.0.1/24");
    running.wait_until_up();
    (running, server)
}

/// The next data datagram with an IPv4 packet that ends with this.
fn wait_for_data(server: &UdpSocket, word: &[u8]) {
    let mut buffer = [0; 2000];
    loop {
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        let path = Path::Udp { socket: 0, remote: from };
        let datagram = &mut buffer[..length];
        if datagram[0] == DATA
            && Peer::new(Role::Server, path).open(path, datagram).is_some_and(|packet| packet.ends_with(word))
        {
            return;
        }
    }
}

/// An application sends into the tunnel.
fn send_inside(word: &[u8]) {
    UdpSocket::bind("10.9.0.1:0").unwrap().send_to(word, "10.9.0.2:9").unwrap();
}

fn handed_over(tun: Tun) -> TunConfig {
    TunConfig { descriptor: Some(Arc::new(OwnedFd::from(tun))), ..TunConfig::default() }
}

#[test]
fn a_device_that_was_handed_over_is_used_as_it_is() {
    in_fresh_network(|| {
        for workers in [1, 2] {
            let name = format!("given{workers}");
            let made = TunConfig { name: Some(name.clone()), mtu: Some(1420), ..TunConfig::default() };
            let tun = Tun::create_first(&made, workers).unwrap();
            let link = Netlink::open().unwrap().link(&name).unwrap();
            assert_eq!((link.mtu, link.up), (1420, false));
            let config = DriverConfig { workers, tun: handed_over(tun), ..config(Role::Server) };
            let driver = Driver::<Toy>::new(config, make_codec).unwrap();
            assert_eq!((driver.tun_name(), driver.tun_index()), (name.as_str(), link.index));
            drop(driver);
        }
        let made = TunConfig { name: Some("given".to_owned()), ..TunConfig::default() };
        let tun = Tun::create_first(&made, 1).unwrap();
        let (running, server) = client(|config| config.tun = handed_over(tun));
        send_inside(b"by its descriptor");
        wait_for_data(&server, b"by its descriptor");
        running.stop();
    });
}

/// As another program may have made it.
#[test]
fn a_device_without_headers_carries_packets_both_ways() {
    in_fresh_network(|| {
        let file = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
        let flags = libc::IFF_TUN | libc::IFF_NO_PI;
        adit_sys::tun_attach(std::os::fd::AsFd::as_fd(&file), "bare", flags).unwrap();
        let tun = TunConfig { descriptor: Some(Arc::new(file.into())), ..TunConfig::default() };
        let (running, server) = client(|config| config.tun = tun);
        let application = UdpSocket::bind("10.9.0.1:0").unwrap();
        application.set_read_timeout(Some(TIMEOUT)).unwrap();
        application.send_to(b"there and back", "10.9.0.2:9").unwrap();
        let mut buffer = [0; 2000];
        let (packet, path, mut peer) = loop {
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            let path = Path::Udp { socket: 0, remote: from };
            let mut peer = Peer::new(Role::Server, path);
            let packet = peer.open(path, &mut buffer[..length]).filter(|packet| packet.ends_with(b"back"));
            if let Some(packet) = packet {
                break (packet, path, peer);
            }
        };
        server.send_to(&peer.seal(&turned_around(packet)), path.remote()).unwrap();
        let length = application.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"there and back");
        running.stop();
    });
}

/// The tunnel is up, and the peer's packets go nowhere.
#[test]
fn without_a_device_packets_are_dropped_and_counted() {
    in_fresh_network(|| {
        let (running, server) = client(|config| config.tun.is_null = true);
        let mut buffer = [0; 2000];
        let (_, from) = server.recv_from(&mut buffer).unwrap();
        let path = Path::Udp { socket: 0, remote: from };
        // A UDP packet without data from 10.9.0.2 to 10.9.0.1.
        let mut packet = [0; 28];
        packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17]);
        packet[12..20].copy_from_slice(&[10, 9, 0, 2, 10, 9, 0, 1]);
        packet[20..26].copy_from_slice(&[0, 9, 0, 9, 0, 8]);
        server.send_to(&Peer::new(Role::Server, path).seal(&packet), from).unwrap();
        let status = || {
            let (tell, told) = channel();
            running.handle.inspect(Box::new(move |_, counters, status| {
                let _ = tell.send((counters.ingress.packets, status.clone()));
            }));
            told.recv_timeout(TIMEOUT).unwrap()
        };
        let counted = (0..30_000).any(|_| {
            thread::sleep(Duration::from_millis(2));
            status().1.losses.tun_write == 1
        });
        let (opened, status) = status();
        assert!(counted && opened == 1, "{opened} {:?}", status.losses);
        assert_eq!(status.tun_name, "null");
        let link = |name: &str| Netlink::open().unwrap().link(name);
        assert!(link("null").is_err() && link("tun0").is_err());
        running.stop();
    });
}

#[test]
fn what_is_no_device_is_refused() {
    in_fresh_network(|| {
        let file = fs::File::open("/dev/null").unwrap();
        let tun = TunConfig { descriptor: Some(Arc::new(file.into())), ..TunConfig::default() };
        let error = Driver::<Toy>::new(DriverConfig { tun, ..config(Role::Server) }, make_codec).unwrap_err();
        assert!(matches!(error, DriverError::Tun(TunError::BadDescriptor(_))), "{error}");
    });
}

#[test]
fn a_device_that_is_deleted_ends_the_tunnel_in_order() {
    in_fresh_network(|| {
        for workers in [1, 2] {
            let config = DriverConfig { workers, ..server_config(Transport::Udp, "127.0.0.1:0") };
            let server = start(config, "10.9.0.1/24");
            server.wait_until_up();
            let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
            peer.set_read_timeout(Some(TIMEOUT)).unwrap();
            peer.send_to(&[CONTROL, b'?'], server.addresses[0]).unwrap();
            server.wait_for(|heard| matches!(heard, Heard::Datagram(..)));
            ip("link del tun0");
            let outcome = server.thread.join().unwrap();
            assert!(
                matches!(&outcome, Err(DriverError::DeviceDeleted(name)) if name == "tun0"),
                "{outcome:?}"
            );
            // Its last word.
            let mut buffer = [0; 100];
            while peer.recv(&mut buffer).unwrap() != 2 || buffer[..2] != [CONTROL, b'.'] {}
        }
    });
}

/// An application learns at once that no peer has the address.
#[test]
fn packets_without_a_peer_are_answered_if_asked_for() {
    in_fresh_network(|| {
        for answered in [true, false] {
            let mut driver = Driver::new(config(Role::Server), make_codec).unwrap();
            if answered {
                driver.answer_unreachable();
            }
            let (running, _) = binding::run_bound(driver, UdpBinding::default(), Duration::ZERO);
            running.wait_until_up();
            let application = UdpSocket::bind("10.9.0.1:0").unwrap();
            application.connect("10.9.0.2:9").unwrap();
            // Without it, UDP keeps errors to itself that may pass (udp(7)).
            let descriptor = std::os::fd::AsFd::as_fd(&application);
            adit_sys::set_option(descriptor, libc::SOL_IP, libc::IP_RECVERR, 1).unwrap();
            let wait = if answered { TIMEOUT } else { Duration::from_millis(500) };
            application.set_read_timeout(Some(wait)).unwrap();
            application.send(b"anybody?").unwrap();
            let error = application.recv(&mut [0; 10]).unwrap_err();
            assert_eq!(error.raw_os_error() == Some(libc::EHOSTUNREACH), answered, "{error}");
            running.stop();
        }
    });
}

/// Clock ticks of the processor (proc(5)) that a thread of this process has used; none if it has ended.
fn processor_ticks(thread: i32) -> u64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/self/task/{thread}/stat")) else { return 0 };
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_device_that_is_moved_to_another_namespace_works_on() {
    in_fresh_network(|| {
        let (running, server) = client(|_| {});
        let (go, wait) = channel();
        let (give_tid, tid) = channel();
        let far = thread::spawn(move || {
            adit_sys::enter_fresh_network_namespace().unwrap();
            give_tid.send(rustix::thread::gettid()).unwrap();
            wait.recv().unwrap();
            ip("addr add 10.9.0.1/24 dev tun0");
            ip("link set tun0 up");
            send_inside(b"from elsewhere");
            // The namespace goes with the thread, and the device with it.
            let _ = wait.recv();
        });
        ip(&format!("link set tun0 netns {}", tid.recv().unwrap().as_raw_nonzero()));
        // Another one with its name is none of its business.
        let other =
            Tun::create(&TunConfig { name: Some("tun0".to_owned()), ..TunConfig::default() }).unwrap();
        go.send(()).unwrap();
        wait_for_data(&server, b"from elsewhere");

        let threads = fs::read_dir("/proc/self/task").unwrap();
        let tasks: Vec<i32> =
            threads.map(|it| it.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        let own: Vec<i32> = tasks.into_iter().filter(|task| is_in_this_namespace(*task)).collect();
        let used = |threads: &[i32]| threads.iter().map(|thread| processor_ticks(*thread)).sum::<u64>();
        let before = used(&own);
        thread::sleep(Duration::from_secs(1));
        assert!(used(&own).saturating_sub(before) < 20, "a thread of the driver does not wait");

        let (tell, told) = channel();
        let look = move |_: &Toy, _: &adit_dataplane::Snapshot, status: &IoStatus| {
            let _ = tell.send((status.tun_read_bytes, status.tun_dropped));
        };
        assert!(running.handle.inspect(Box::new(look)));
        assert_eq!(told.recv_timeout(TIMEOUT).unwrap(), (0, 0));
        drop(other);
        running.stop();
        drop(go);
        far.join().unwrap();
    });
}

/// Whether a thread of this process is in the network namespace of the caller: one of its test's.
fn is_in_this_namespace(thread: i32) -> bool {
    let namespace = |thread| fs::read_link(format!("/proc/self/task/{thread}/ns/net")).ok();
    namespace(thread) == namespace(rustix::thread::gettid().as_raw_nonzero().get())
}
