//! The build of the running program: its release, commit and profile.

/// The release, such as 0.2.0.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that was built, or `unknown`.
pub const COMMIT: &str = env!("TIDEGATE_COMMIT");
/// The profile of the build, such as `dist` or `debug`.
pub const PROFILE: &str = env!("TIDEGATE_PROFILE");
/// The release, the commit and the profile, for people.
pub const BUILD: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("TIDEGATE_COMMIT"),
    ", profile ",
    env!("TIDEGATE_PROFILE"),
    ")"
);
