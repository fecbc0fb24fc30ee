use std::time::Instant;

use tidegate_tower::OverrideAction;

use super::*;
use crate::change::{Ends, Expected, Intent};
use crate::name::read_name;
use crate::setting::Setting;

/// The number of overrides in force that the listener received last.
#[derive(Clone, Debug, Default)]
struct InForce(Arc<Mutex<usize>>);

impl Listener for InForce {
    fn changed(&self, _: &[Change], _: bool, in_force: &mut dyn Iterator<Item = Override>) {
        *self.0.lock() = in_force.count();
    }
}

/// The clock of a gateway without Redis may step, too.
#[tokio::test]
async fn the_listed_overrides_are_in_force_when_the_clock_steps() {
    const START: Micros = 1_800_000_000_000_000;
    let in_force = InForce::default();
    let overrides = Overrides::in_memory(None, Box::new(in_force.clone())).unwrap();
    // The start lies an hour ahead, so the clock stands still for an hour.
    let at = |ms: u64| {
        let at = Instant::now() + Duration::from_secs(3_600);
        *overrides.clock.lock() = Some(Clock::new(START + 1_000 * ms, at));
    };
    let set = async |name: &str, ends| {
        let wish = Wish {
            subject: read_name(name, 64).unwrap(),
            expected: Expected::Any,
            ends,
            intent: Intent::Set(Setting::new(OverrideAction::Block, "", "").unwrap()),
        };
        overrides.change(vec![wish]).await.unwrap();
    };
    at(0);
    set("user_id:1", Ends::After(Duration::from_secs(100))).await;
    let keeping = overrides.clone();
    let keeper = tokio::spawn(async move { keeping.keep().await });
    for (ms, count) in [
        (99_999, 1),
        (100_000, 0),
        (99_900, 1),
        (3_600_000, 0),
        (2_000, 1),
        (120_000, 0),
        (0, 1),
    ] {
        at(ms);
        while *in_force.0.lock() != count {
            tokio::task::yield_now().await;
        }
        assert_eq!(overrides.list().len(), count, "{ms}");
        assert_eq!(overrides.figures().in_force.all(), count, "{ms}");
    }
    keeper.abort();
    at(200_000);
    set("user_id:2", Ends::Never).await;
    assert_eq!((*in_force.0.lock(), overrides.list().len()), (1, 1));
    at(50_000);
    set("user_id:3", Ends::Never).await;
    assert_eq!((*in_force.0.lock(), overrides.list().len()), (3, 3));
}
