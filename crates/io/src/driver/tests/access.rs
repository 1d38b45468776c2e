//! Access rules that change while packets pass.

use std::sync::Arc;

use adit_access::{AccessFile, Rules};
use adit_dataplane::DropReason;

use super::toy::{End, Far, PORT, application, echo, start_both};
use super::*;

/// The initiator's name, as rules know it.
const NAME: &str = "01020304";

fn give(end: &End, text: &str) {
    let rules = Rules::new(&AccessFile::parse("access.toml", text).unwrap());
    assert!(end.handle.set_rules(Arc::new(rules)));
}

/// Packets of both directions that the rules have refused.
fn refused(end: &End) -> u64 {
    let snapshot = end.look().snapshot;
    snapshot.ingress.dropped(DropReason::NotAllowed) + snapshot.egress.dropped(DropReason::NotAllowed)
}

#[test]
fn rules_change_under_traffic_and_lose_nothing_that_both_allow() {
    in_fresh_network(|| {
        let far = Far::new();
        let (responder, initiator) = start_both(&far, |_| {});
        let near_app = application("10.9.0.1");
        let far_app = far.run(|| application("10.9.0.2"));
        let by_name = format!("default = \"deny\"\n[[rule]]\nwho = \"{NAME}\"\nmay-reach = \"lan\"");
        let by_port =
            format!("default = \"deny\"\n[[rule]]\nwho = \"clients\"\nmay-reach = \"any\"\nports = {PORT}");
        for number in 0..200_u32 {
            give(&responder, if number % 2 == 0 { &by_name } else { &by_port });
            echo(&far_app, &near_app, &number.to_be_bytes());
        }
        assert_eq!(refused(&responder), 0, "both allow them");

        // Packets of a flow that passed before are refused soon.
        give(&responder, "default = \"deny\"");
        let since = std::time::Instant::now();
        while refused(&responder) == 0 {
            assert!(since.elapsed() < TIMEOUT, "they pass all the same");
            near_app.send_to(b"refused", ("10.9.0.2", PORT)).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        eprintln!("the rules are in force after {:?}", since.elapsed());
        initiator.stop();
        responder.stop();
        far.end();
    });
}
