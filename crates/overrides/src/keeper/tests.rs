use std::time::Duration;

use super::*;
use crate::exchange::{Ends, Expected};
use crate::setting::{Action, Setting};

/// How many a gateway was told to be in force.
#[derive(Clone, Debug, Default)]
struct InForce(Arc<Mutex<usize>>);

impl Listener for InForce {
    fn changed(&self, _: &[Change], _: bool, in_force: &mut dyn Iterator<Item = Override>) {
        *self.0.lock() = in_force.count();
    }
}

/// A replica that takes over may be behind: for a moment, what has ended is in force again.
#[tokio::test]
async fn an_override_that_has_ended_ends_again_if_the_clock_steps_back() {
    const START: Micros = 1_800_000_000_000_000;
    let in_force = InForce::default();
    let overrides = Overrides::in_memory(None, Box::new(in_force.clone())).unwrap();
    let at = |ms: u64| {
        // It stands still until then.
        let sent = Instant::now() + Duration::from_secs(3_600);
        let clock = Clock::new(START + 1_000 * ms, sent);
        *overrides.clock.lock() = Some(clock);
    };
    let set = async |name: &str, ends| {
        let wish = Wish {
            subject: Subject::parse(name, 64).unwrap(),
            expected: Expected::Any,
            ends,
            intent: Intent::Set(Setting::new(Action::Block, "", "").unwrap()),
        };
        overrides.change(vec![wish]).await.unwrap();
        *in_force.0.lock()
    };
    at(0);
    overrides.end_over().await;
    let short = Ends::After(Duration::from_secs(100));
    assert_eq!(set("user_id:1", short).await, 1);
    at(100_400);
    overrides.end_over().await;
    assert_eq!(*in_force.0.lock(), 0);
    at(99_900);
    assert_eq!(set("user_id:2", Ends::Never).await, 2);
    at(100_500);
    overrides.end_over().await;
    assert_eq!(*in_force.0.lock(), 1);
}
