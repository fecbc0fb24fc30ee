//! Refuses a reload that would change parts which only a restart can change.

use crate::yaml::Problem;
use tidegate_store::redis::RedisOptions;

use crate::check::Check;
use crate::file::File;
use crate::fixed::{Fixed, FixedRedis, FixedStore};
use crate::secret::Secret;
use crate::shape::SingleOr;
use crate::store::StoreSettings;
use crate::store::redis::Redis;

/// Returns the parts of the store that no reload may change.
pub(crate) fn fixed_store(check: &mut Check<'_>, file: &File, store: &StoreSettings) -> FixedStore {
    match (store, &file.store) {
        (StoreSettings::Redis(options), Some(SingleOr::Block(store))) => match &store.value.redis {
            Some(written) => FixedStore::Redis(fixed_redis(check, written, options).into()),
            None => FixedStore::Memory,
        },
        _ => FixedStore::Memory,
    }
}

fn fixed_redis(check: &mut Check<'_>, written: &Redis, options: &RedisOptions) -> FixedRedis {
    let files = written.tls.as_ref().map(|tls| tls.value.files());
    let files = files.unwrap_or_default();
    FixedRedis {
        url: Secret::new(&options.url),
        timeout: options.timeout,
        key_prefix: options.key_prefix.clone(),
        gateways: options.gateways,
        sync_every: options.sync_every,
        files: files.map(|file| check.file(file?)),
    }
}

/// Refuses each key whose value differs from `before`.
pub(crate) fn unchanged(check: &mut Check<'_>, file: &File, now: &Fixed, before: &Fixed) {
    let admin = file.admin.as_ref().and_then(|admin| match admin {
        SingleOr::Block(block) if block.value.address.is_some() => {
            block.value.address.as_ref()?.place
        }
        admin => admin.place(),
    });
    let store = file.store.as_ref().and_then(SingleOr::place);
    let secret = file.secret.as_ref().and_then(|secret| secret.place);
    let log = file.log.as_ref().and_then(|log| {
        let format = log.format.as_ref().and_then(|scalar| scalar.place);
        let access = log.access.as_ref().and_then(SingleOr::place);
        let level = log.level.as_ref().and_then(|scalar| scalar.place);
        format.or(access).or(level)
    });
    let overrides = file.overrides_file.as_ref().and_then(|file| file.place);
    let is_same_file = now.overrides_file == before.overrides_file;
    for (key, place, is_kept) in [
        ("the address of `admin`", admin, now.admin == before.admin),
        ("`store`", store, now.store == before.store),
        ("`secret`", secret, now.secret == before.secret),
        ("`log`", log, now.log == before.log),
        ("`overrides_file`", overrides, is_same_file),
    ] {
        if !is_kept {
            let message = format!("a reload cannot change {key}, and this differs from what runs");
            // The line may contain a password, so it is not shown.
            let problem = Problem::new(place, message).without_line();
            check.refuse(problem.note("restart tidegate to change it, or put back what was there"));
        }
    }
}
