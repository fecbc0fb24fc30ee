use super::*;
use crate::store::redis::{KeyPrefix, RedisUrl};
use crate::tests::{bad, good};

#[test]
fn key_prefixes_choose_no_slot() {
    bad::<KeyPrefix>(&["", "{a}", "a b"]);
}

#[test]
fn secrets_are_not_told() {
    let scalar = Scalar::<RedisUrl>::new("redis://:hunter2@h".into(), None);
    assert!(!format!("{scalar:?}").contains("hunter2"));
    assert!(good::<SecretText>("").0.is_none());
    let secret = good::<SecretText>("hunter2").0.unwrap();
    assert!(!format!("{secret:?}").contains("hunter2"));
    assert_eq!(secret.expose(), "hunter2");
}
