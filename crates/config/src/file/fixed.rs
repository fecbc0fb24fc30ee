//! A reload: whether it would change what only a restart changes.

use crate::yaml::{Place, Problem};
use tidegate_store::redis::RedisOptions;

use crate::check::Check;
use crate::file::File;
use crate::fixed::{Fixed, FixedRedis, FixedStore};
use crate::secret::Secret;
use crate::shape::SingleOr;
use crate::store::StorePlan;
use crate::store::redis::Redis;

/// The store as it has to stay.
pub(crate) fn fixed_store(check: &mut Check<'_>, file: &File, store: &StorePlan) -> FixedStore {
    match (store, &file.store) {
        (StorePlan::Redis(options), Some(SingleOr::Block(written))) => {
            let redis = written.value.redis.as_ref();
            let redis = redis.map(|written| fixed_redis(check, written, options));
            redis.map_or(FixedStore::Memory, |redis| FixedStore::Redis(redis.into()))
        }
        _ => FixedStore::Memory,
    }
}

fn fixed_redis(check: &mut Check<'_>, written: &Redis, options: &RedisOptions) -> FixedRedis {
    let tls = written.tls.as_ref().map(|tls| &tls.value);
    let files = [
        tls.and_then(|tls| tls.ca.as_ref()),
        tls.and_then(|tls| tls.cert.as_ref()),
        tls.and_then(|tls| tls.key.as_ref()),
    ];
    FixedRedis {
        url: Secret::new(&options.url),
        timeout: options.timeout,
        key_prefix: options.key_prefix.clone(),
        gateways: options.gateways,
        sync_every: options.sync_every,
        files: files.map(|file| check.file(file?)),
    }
}

/// Refuses whatever is not as it was `before`.
pub(crate) fn unchanged(check: &mut Check<'_>, file: &File, now: &Fixed, before: &Fixed) {
    let admin = file.admin.as_ref().and_then(|admin| match admin {
        SingleOr::Single(address) => address.place,
        SingleOr::Block(block) => match &block.value.address {
            Some(address) => address.place,
            None => block.place,
        },
    });
    let store = file.store.as_ref().and_then(|store| match store {
        SingleOr::Single(word) => word.place,
        SingleOr::Block(block) => block.place,
    });
    let secret = file.secret.as_ref().and_then(|secret| secret.place);
    let log = file.log.as_ref().and_then(|log| {
        let format = log.format.as_ref().and_then(|scalar| scalar.place);
        let access = log.access.as_ref().and_then(|access| match access {
            SingleOr::Single(scalar) => scalar.place,
            SingleOr::Block(block) => block.place,
        });
        let level = log.level.as_ref().and_then(|scalar| scalar.place);
        format.or(access).or(level)
    });
    kept(check, "admin", admin, now.admin == before.admin);
    kept(check, "store", store, now.store == before.store);
    kept(check, "secret", secret, now.secret == before.secret);
    kept(check, "log", log, now.log == before.log);
    let overrides = file.overrides_file.as_ref().and_then(|file| file.place);
    let is_kept = now.overrides_file == before.overrides_file;
    kept(check, "overrides_file", overrides, is_kept);
}

fn kept(check: &mut Check<'_>, key: &str, place: Option<Place>, is_kept: bool) {
    if !is_kept {
        let address = if key == "admin" {
            "the address of "
        } else {
            ""
        };
        let problem = Problem::new(
            place,
            format!("a reload cannot change {address}`{key}`, and this differs from what runs"),
        );
        // The line may hold a password, in whatever form.
        check.refuse(
            problem
                .without_line()
                .note("restart tidegate to change it, or put back what was there"),
        );
    }
}
