use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;

use super::*;

fn load(text: &str) -> Result<NetworkTable<u32>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("denied.txt");
    fs::write(&path, text).unwrap();
    let loaded = load_networks(&path).map_err(|error| error.to_string());
    loaded.map_err(|error| error.replace(&format!("{}/", folder.path().display()), ""))
}

fn line(networks: &NetworkTable<u32>, address: &str) -> Option<u32> {
    let address: IpAddr = address.parse().unwrap();
    networks.find(address).map(|(_, line)| *line)
}

#[test]
fn a_line_is_a_network_an_address_or_a_comment() {
    let text = "\u{feff}# bad ones\n\n10.0.0.0/8 ; SBL1\n  192.0.2.1\t# one\r\n2001:db8::/32\n;\n10.0.0.0/8\n";
    let networks = load(text).unwrap();
    assert_eq!(networks.len(), 3);
    assert_eq!(line(&networks, "10.1.1.1"), Some(3));
    assert_eq!(line(&networks, "192.0.2.1"), Some(4));
    assert_eq!(line(&networks, "2001:db8::1"), Some(5));
    assert_eq!(line(&networks, "192.0.2.2"), None);
    assert_eq!(load("# none\n").unwrap().len(), 0);
}

#[test]
fn a_broken_file_says_where_and_what_is_allowed() {
    let error = load("10.0.0.0/8\n  10.0.0.1/8 # which?\nexample.com\n10.0.0.0/33\n").unwrap_err();
    assert!(
        error.contains(
            "denied.txt:2:3: this may mean the network 10.0.0.0/8 or the address 10.0.0.1"
        ),
        "{error}"
    );
    assert!(
        error.contains("denied.txt:3:1: this is not a network"),
        "{error}"
    );
    assert!(
        error.contains("denied.txt:4:1: `10.0.0.0/33` is not a network"),
        "{error}"
    );
    assert!(
        error.contains("allowed here: an IP address, or a network"),
        "{error}"
    );
    for empty in ["", "\n \n"] {
        assert!(load(empty).unwrap_err().contains("this file is empty"));
    }
    let many = "x\n".repeat(100_000);
    let lines = load(&many).unwrap_err().lines().count();
    assert!(lines < 200, "{lines}");
}

#[test]
fn a_hundred_thousand_networks_are_found() {
    let mut text = String::new();
    for number in 0..100_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let _ = writeln!(text, "10.{a}.{b}.{c}");
    }
    let networks = load(&text).unwrap();
    assert_eq!(networks.len(), 100_000);
    assert_eq!(line(&networks, "10.0.0.0"), Some(1));
    assert_eq!(line(&networks, "10.1.134.159"), Some(100_000));
    assert_eq!(line(&networks, "10.1.134.160"), None);
}
