//! What operators see of costs that bodies tell, and what reading them costs the gateway.

use super::*;

#[tokio::test]
async fn operators_see_what_bodies_told() {
    let answers = [
        Whole::new(JSON, USAGE),
        Whole::new(JSON, "{}"),
        Whole::new("text/plain", USAGE),
    ];
    let upstream = answering(answers.into());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let settings = log(&file, "format: json, fields: [cost, remaining]");
    let yaml = one_limit("store: memory\n", LIMIT, &upstream);
    let gateway = TestGateway::start(&format!("log: {{ {settings} }}\n{yaml}")).await;
    let client = Client::new(gateway.address);
    for (path, stays) in [("/0", 958), ("/1", 948), ("/2", 938)] {
        assert_eq!(client.get(path).await.status, 200);
        leaves(&gateway, stays, path).await;
    }
    for result in ["read", "missing", "unreadable"] {
        assert_eq!(sample(gateway.admin, &told(result)).await, 1, "{result}");
    }
    let answer = browser(gateway.admin).get("/status.json").await;
    let document: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    let used = &document["clients"]["start"]["admitted"];
    assert_eq!(used["total"], 62, "{document:#}");
    gateway.stop().await;
    let lines = objects(&lines(&file));
    let told = lines.iter().map(|line| {
        let fields = [&line["cost"], &line["remaining"]];
        fields.map(|field| field.as_u64().unwrap())
    });
    assert_eq!(told.collect::<Vec<_>>(), [[42, 958], [10, 948], [10, 938]]);
}

/// A block of gzip that is stored as it is.
fn stored(is_last: bool, data: &[u8]) -> Bytes {
    let length = u16::try_from(data.len()).unwrap();
    let head = [&length.to_le_bytes()[..], &(!length).to_le_bytes()].concat();
    [&[u8::from(is_last)], &head[..], data].concat().into()
}

/// 100 MB of JSON, as much of events, as much in gzip, and a few KB that would become as much: memory stays as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_any_length_is_read_in_no_more_memory() {
    const PARTS: usize = 1_700;
    let (text, list) = ("a\\\"b ".repeat(6_000), "1,[],".repeat(6_000));
    let part = Bytes::from(format!("{{\"text\":\"{text}\",\"list\":[{list}0]}},"));
    let spaces = " ".repeat(32 << 20);
    let bomb = gzip(&format!("{spaces}{USAGE}"));
    let bomb = Bytes::from(bomb);
    let served = Arc::new(AtomicUsize::new(0));
    let counted = served.clone();
    let upstream = Upstream::start(move |request| {
        let (mut sender, body) = channel();
        let path = request.uri().path().to_owned();
        let (part, bomb, counted) = (part.clone(), bomb.clone(), counted.clone());
        let mut answer = Response::builder().header(
            "content-type",
            match &*path {
                "/events" => EVENTS,
                _ => JSON,
            },
        );
        if ["/gzip", "/bomb"].contains(&&*path) {
            answer = answer.header("content-encoding", "gzip");
        }
        tokio::spawn(async move {
            let mut send = async |data: Bytes| {
                counted.fetch_add(data.len(), Ordering::Relaxed);
                sender.send_data(data).await.unwrap();
            };
            if path == "/bomb" {
                return send(bomb).await;
            }
            let is_gzip = path == "/gzip";
            let made = |is_last, data: &Bytes| match is_gzip {
                true => stored(is_last, data),
                false => data.clone(),
            };
            if is_gzip {
                send(gzip("")[..10].to_vec().into()).await;
            }
            let start = match &*path {
                "/events" => "data: {\"x\":[",
                _ => "{\"x\":[",
            };
            send(made(false, &start.into())).await;
            for _ in 0..PARTS {
                send(made(false, &part)).await;
            }
            let end = "0],\"usage\":{\"total_tokens\":42}}\n\n";
            send(made(true, &end.into())).await;
            if is_gzip {
                send([0; 8].to_vec().into()).await;
            }
        });
        async move { answer.body(body).unwrap() }
    });
    let yaml = one_limit("store: memory\n", LIMIT, &upstream);
    let gateway = GatewayProcess::start(&yaml).await;
    let client = Client::new(gateway.address).knows("content-encoding");
    let mut stays = 1_000;
    for (path, cost) in [("/json", 42), ("/events", 42), ("/gzip", 42), ("/bomb", 10)] {
        let before = gateway.process.rss_kb();
        let request = Request::get(path).body(empty()).unwrap();
        let (mut body, mut came) = (client.open(request).await.into_body(), 0);
        while let Some(frame) = body.frame().await {
            came += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(came, served.swap(0, Ordering::Relaxed), "{path}");
        assert!((came > 100_000_000) == (path != "/bomb"), "{path}: {came}");
        let grown = gateway.process.peak_rss_kb().saturating_sub(before);
        eprintln!("{path}: {came} bytes, {grown} KiB more");
        assert!(
            grown < 16 << 10,
            "{path}: the gateway held {grown} KiB more"
        );
        stays -= cost;
        let is_so = async || left(gateway.admin).await == stays;
        until(&format!("{path} leaves {stays}"), is_so).await;
    }
}
