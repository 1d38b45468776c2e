//! Properties that hold for any text.

use adit_core::is_unprintable;
use proptest::prelude::*;

use super::world::World;

proptest! {
    #[test]
    fn problems_are_plain_text_with_a_line(text in "(connections|secrets|pools|[a-e{}:.,=\"\\\\#\r\n\t %]){0,80}") {
        match World::default().parse(&text) {
            Ok(parsed) => prop_assert!(parsed.report.iter().all(|entry| !entry.reason.contains(is_unprintable))),
            Err(failure) => {
                prop_assert!(!failure.problems.is_empty());
                for problem in &failure.problems {
                    prop_assert!(problem.line.is_some() && !problem.text.contains(is_unprintable), "{}", problem);
                }
            }
        }
    }
}
