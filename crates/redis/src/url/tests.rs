use super::*;

fn server(url: &str) -> Target {
    Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn host(host: &str, port: u16) -> Address {
    Address {
        host: host.into(),
        port,
    }
}

#[test]
fn every_topology_is_understood() {
    let plain = server("redis://127.0.0.1");
    assert_eq!(plain.topology, Topology::Server(host("127.0.0.1", 6379)));
    assert_eq!((plain.tls, plain.database), (false, None));
    assert!(plain.login == Login::default());

    let full = server("rediss://us%3Aer:p%40ss:word@[::1]:7000/3");
    assert_eq!(full.topology, Topology::Server(host("::1", 7000)));
    assert_eq!((full.tls, full.database), (true, Some(3)));
    // A connection begins in database 0, so it must not select this database.
    for first in ["redis://a/0", "unix:///a?db=0", "redis-cluster://a/0"] {
        assert_eq!(server(first).database, None, "{first}");
    }
    assert_eq!(full.login.user.as_deref(), Some("us:er"));
    assert_eq!(full.login.password.as_deref(), Some("p@ss:word"));

    let nodes = vec![host("a", 1), host("b", 6379), host("c.example", 3)];
    for url in [
        "redis-cluster://a:1,b,c.example:3",
        "redis-cluster://a:1?node=b:6379&node=c.example:3",
    ] {
        assert_eq!(
            server(url).topology,
            Topology::Cluster(nodes.clone()),
            "{url}"
        );
    }
    assert!(server("rediss-cluster://:pw@a:1,b:2/0").tls);

    let url = "redis-sentinel://:pw@a:1,b/2?sentinelServiceName=main&sentinelUsername=u&sentinelPassword=p%26w";
    let sentinels = server(url);
    assert_eq!(sentinels.database, Some(2));
    let Topology::Sentinels {
        hosts,
        service,
        login,
    } = sentinels.topology
    else {
        panic!("{sentinels:?}");
    };
    assert_eq!(
        (hosts, service.as_str()),
        (vec![host("a", 1), host("b", 26379)], "main")
    );
    assert_eq!(
        (login.user.as_deref(), login.password.as_deref()),
        (Some("u"), Some("p&w"))
    );

    let socket = server("unix:///run/re%20dis.sock?db=4");
    assert_eq!(
        (socket.topology, socket.database),
        (Topology::Unix("/run/re dis.sock".into()), Some(4))
    );
    let socket = server("redis+unix://me:pw@/run/redis.sock");
    assert_eq!(socket.login.password.as_deref(), Some("pw"));
}

#[test]
fn what_is_not_understood_is_refused_without_being_repeated() {
    let bad = [
        ("", SCHEME),
        ("hunter2", SCHEME),
        ("http://hunter2", SCHEME),
        ("redis://", FORM),
        ("redis://hunter2@host", USER_ALONE),
        ("redis://:hunter2@", FORM),
        ("redis://:hunter2@:6379", FORM),
        ("redis://:hunter2@host:", FORM),
        ("redis://:hunter2@host:0", FORM),
        ("redis://:hunter2@host:65536", FORM),
        ("redis://:hunter2@host:+1", FORM),
        ("redis://:hunter2@host/one", DATABASE),
        ("redis://:hunter2@host/256", DATABASE),
        ("redis://:hunter2@[::1:6379", FORM),
        ("redis://:hunter2@::1", BRACKETS),
        ("redis://:hunter2@ho st", FORM),
        ("redis://:hunter2#x@host", FORM),
        ("redis://:hunter2%@host", PERCENT),
        ("redis://:hunter2%ff@host", PERCENT),
        ("redis://:hunter2@fd00::1:6379", BRACKETS),
        ("redis://:hunter2@host:1:2", FORM),
        ("'redis://:hunter2@host'", QUOTED),
        ("redis-cluster://:hunter2@a,redis://:hunter2@b", ONE_SCHEME),
        ("redis-sentinel://:hunter2@a/main", SERVICE),
        ("redis://a:1,b:2", ONE_SERVER),
        ("redis://a:1?node=b:2", PARAMETER),
        ("redis://a:1?password=hunter2", PARAMETER),
        ("rediss://a:1?verify=none", PARAMETER),
        ("redis-cluster://a:1,,b:2", FORM),
        ("redis-cluster://a:1?node=b", FORM),
        ("redis-cluster://a:1/3", NO_DATABASE),
        ("redis-sentinel://a:1", SERVICE),
        ("redis-sentinel://a:1?sentinelServiceName=", SERVICE),
        (
            "redis-sentinel://a:1?sentinelServiceName=x&sentinelServiceName=y",
            PARAMETER,
        ),
        ("unix://", SOCKET),
        ("unix://host/path", SOCKET),
        ("unix:///a?password=hunter2", PARAMETER),
    ];
    for (url, expected) in bad {
        let error = Target::parse(url)
            .map(|target| panic!("{url}: {target:?}"))
            .unwrap_err();
        assert_eq!(error, expected, "{url}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
    let shown = format!("{:?}", server("redis://:hunter2@host"));
    assert!(!shown.contains("hunter2"), "{shown}");
}
