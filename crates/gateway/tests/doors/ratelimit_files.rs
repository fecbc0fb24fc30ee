//! Configurations of envoyproxy/ratelimit decide as its documentation says. The files are those that the configuration's tests read.

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::google::protobuf::UInt64Value;

use crate::kit::*;

async fn start(store: &str) -> Doors {
    let files = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../config/tests/ratelimit/*.yaml"
    );
    let service = format!("rate_limit_service: {{ files: [\"{files}\"] }}");
    let yaml = format!("{store}routes: [{{ path: /**, upstream: UPSTREAM, limits: [] }}]\n");
    Doors::start(&service, &yaml).await
}

/// Calls with one descriptor for each list of entries, each with this cost.
async fn call(
    doors: &Doors,
    domain: &str,
    hits: u64,
    descriptors: &[&[(&str, &str)]],
) -> RateLimitResponse {
    let descriptors = descriptors.iter().map(|entries| {
        let mut descriptor = descriptor(entries);
        descriptor.hits_addend = Some(UInt64Value { value: hits });
        descriptor
    });
    doors
        .rate_limit(rate_limit_call(domain, descriptors.collect()))
        .await
}

/// The name and the number of a status's limit.
fn limit(reply: &RateLimitResponse, at: usize) -> Option<(String, u32)> {
    let limit = reply.statuses[at].current_limit.clone()?;
    Some((limit.name, limit.requests_per_unit))
}

#[tokio::test]
async fn nested_keys_and_keys_without_a_value_have_budgets_of_their_own() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let advert = |number| [("kind", "advert"), ("number", number)];
        for number in ["411", "412"] {
            assert!(!is_over(
                &call(&doors, "messages", 5, &[&advert(number)]).await
            ));
            assert!(is_over(
                &call(&doors, "messages", 1, &[&advert(number)]).await
            ));
        }
        // The number has a limit of its own, whatever the kind is.
        let both: [&[(&str, &str)]; 2] = [&advert("413"), &[("number", "413")]];
        let reply = call(&doors, "messages", 2, &both).await;
        assert_eq!(limit(&reply, 0).unwrap().1, 5);
        assert_eq!(limit(&reply, 1).unwrap().1, 100);
        // A value without a limit, and a list of keys that no limit has.
        for entries in [
            &[("number", "112")][..],
            &[("kind", "advert")],
            &[("number", "1"), ("kind", "x")],
        ] {
            let reply = call(&doors, "messages", 1_000_000, &[entries]).await;
            assert!(!is_over(&reply), "{entries:?}");
            assert_eq!(limit(&reply, 0), None, "{entries:?}");
        }
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn no_limit_shadow_mode_and_a_limit_of_0_do_what_they_say() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        for (domain, entries, over) in [
            ("inside", &[("directory", "home")][..], false),
            ("inside", &[("service", "x"), ("user", "ann")], false),
            ("inside", &[("service", "x"), ("user", "bob")], true),
            ("database", &[("address", "192.0.2.5")], true),
            ("database", &[("address", "192.0.2.6")], false),
        ] {
            let reply = call(&doors, domain, 1_000, &[entries]).await;
            assert_eq!(is_over(&reply), over, "{domain} {entries:?}");
        }
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_limit_that_is_replaced_is_not_charged() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        let usual: &[(&str, &str)] = &[("access", "read"), ("user", "ann")];
        let own: &[(&str, &str)] = &[("page", "/reports"), ("user", "ann")];
        // The usual limit never admits a cost of 6.
        assert!(is_over(&call(&doors, "inside", 6, &[usual]).await));
        let reply = call(&doors, "inside", 6, &[usual, own]).await;
        assert!(!is_over(&reply));
        assert_eq!(limit(&reply, 0), None);
        assert_eq!(limit(&reply, 1).unwrap().1, 10);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn values_with_asterisks_share_a_budget_if_they_say_so() {
    on_both_stores(async |store| {
        let doors = start(store).await;
        // The window of an hour must not end between two calls.
        until("the hour has time left", async || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.unwrap().as_secs() % 3_600 < 3_590
        })
        .await;
        let file = async |hits, name: &str| {
            is_over(&call(&doors, "patterns", hits, &[&[("file", name)]]).await)
        };
        assert!(!file(6, "files/a").await);
        assert!(file(6, "files/b").await, "one budget for all");
        assert!(!file(20, "files/own").await, "an exact value comes first");
        let page = async |hits, name: &str| {
            is_over(&call(&doors, "patterns", hits, &[&[("page", name)]]).await)
        };
        assert!(!page(6, "pages/a").await);
        assert!(!page(6, "pages/b").await, "a budget for each");
        assert!(page(6, "pages/a").await);
        doors.stop().await;
    })
    .await;
}
