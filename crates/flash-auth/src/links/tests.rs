//! Links that are right, and what is changed in them, in both forms.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use flash_core::record::Peer;
use proptest::prelude::*;

use super::secure_link::{Arguments, Expression};
use super::*;

const NOW_S: u64 = 1_767_225_600;
const KEY: &str = "0123456789abcdef";

fn links(form: Form, keys: &[&str]) -> SignedLinks {
    let keys: Box<[Key]> = keys.iter().map(|key| Zeroizing::new(key.as_bytes().to_vec())).collect();
    SignedLinks { keys: keys.into(), ..SignedLinks::new(form, &[]) }
}

fn flash() -> SignedLinks {
    links(Form::Flash, &[KEY])
}

fn path(raw: &str) -> SitePath<'_> {
    SitePath::parse(raw.as_bytes()).unwrap()
}

fn check_from(client: &str, links: &SignedLinks, raw: &str, query: &str) -> Result<(), BadLink> {
    let client = Peer::Inet(SocketAddr::from((client.parse::<IpAddr>().unwrap(), 1)));
    links.check(&Link { path: &path(raw), query: query.as_bytes(), client, now_s: NOW_S }).map(drop)
}

fn check(links: &SignedLinks, raw: &str, query: &str) -> Result<(), BadLink> {
    check_from("192.0.2.1", links, raw, query)
}

fn terms(expires_s: u64) -> LinkTerms<'static> {
    LinkTerms { expires_s, is_prefix: false, client: None, rate: None }
}

#[test]
fn a_link_is_what_other_programs_make_of_the_description() {
    // printf 'expires=1767229200\nclient=192.0.2.1\npath=/m/a b.iso' | openssl dgst -sha256 -hmac 0123456789abcdef -binary | basenc --base64url
    let link = "expires=1767229200&client=192.0.2.1&signature=ffpOyn4ZTiL8jrVn9-UrfHY5z8mH2PZFKD3bHmaNU9U";
    let terms = LinkTerms { client: Some("192.0.2.1"), ..terms(NOW_S + 3600) };
    assert_eq!(flash().sign(&path("/m/a%20b.iso"), &terms).as_deref(), Ok(link));
    assert_eq!(check(&flash(), "/m/a%20b.iso", link), Ok(()));
    assert_eq!(check(&flash(), "/%6d//a%20b.iso", link), Ok(()), "the same path");
}

#[test]
fn what_is_not_signed_is_wrong() {
    let link = flash().sign(&path("/m/a"), &terms(NOW_S)).unwrap();
    assert_eq!(check(&flash(), "/m/a", &link), Ok(()), "it holds to the end of its second");
    assert_eq!(
        check(&flash(), "/m/a", &format!("x=1&{link}&y")),
        Ok(()),
        "other arguments are the program's"
    );
    assert_eq!(
        check(&flash(), "/m/a", &link.replace("=17", "=%317")),
        Ok(()),
        "an encoded digit is the same one"
    );
    for (raw, query) in [
        ("/m/a", String::new()),
        ("/m/b", link.clone()),
        ("/m/a/", link.clone()),
        ("/m/a", link[..link.len() - 1].into()),
        ("/m/a", link[link.find('&').unwrap() + 1..].into()),
        ("/m/a", format!("{link}A")),
        ("/m/a", format!("{link}=")),
        ("/m/a", format!("{link}&{link}")),
        ("/m/a", format!("{link}&expires=9999999999")),
        ("/m/a", format!("{link}&signature")),
        ("/m/a", format!("{link}&prefix=/m")),
        ("/m/a", format!("{link}&client=192.0.2.1")),
        ("/m/a", link.replace("expires=1", "expires=2")),
        ("/m/a", link.replace("expires=", "expires=+")),
        ("/m/a", link.replace("expires=", "expires=0")),
        ("/m/a", link.replace("expires=", "expires=%")),
        ("/m/a", link.replace("expires=", "expires=99999999999999999999")),
        ("/m/a", link.replace("expires=", "Expires=")),
    ] {
        assert_eq!(check(&flash(), raw, &query), Err(BadLink::Wrong), "{raw} {query}");
    }
    let other = links(Form::Flash, &["another key of 16"]);
    assert_eq!(check(&other, "/m/a", &link), Err(BadLink::Wrong));
}

#[test]
fn only_a_right_link_is_told_that_it_has_expired() {
    for expires_s in [0, 1, NOW_S - 1] {
        let link = flash().sign(&path("/a"), &terms(expires_s)).unwrap();
        assert_eq!(check(&flash(), "/a", &link), Err(BadLink::Expired));
        assert_eq!(check(&flash(), "/b", &link), Err(BadLink::Wrong));
    }
    let link = flash().sign(&path("/a"), &terms(u64::MAX)).unwrap();
    assert_eq!(check(&flash(), "/a", &link), Ok(()));
}

#[test]
fn a_prefix_ends_with_a_segment() {
    let sign = |raw: &str| flash().sign(&path(raw), &LinkTerms { is_prefix: true, ..terms(NOW_S) }).unwrap();
    let link = sign("/m/a%20&b");
    assert!(link.contains("&prefix=/m/a%20%26b&"), "{link}");
    for (raw, is_right) in [
        ("/m/a%20&b", true),
        ("/m/a%20&b/", true),
        ("/m/a%20&b/c/d", true),
        ("/m/a%20&bc", false),
        ("/m/a%20&", false),
        ("/m", false),
        ("/m/a%20&b/../c", false),
        ("/m/a%20&b/%2e%2e/c", false),
    ] {
        assert_eq!(check(&flash(), raw, &link).is_ok(), is_right, "{raw}");
    }
    for raw in ["/", "/m/"] {
        assert_eq!(check(&flash(), "/m/x", &sign(raw)), Ok(()), "{raw}");
        assert_eq!(check(&flash(), "/mx", &sign(raw)).is_ok(), raw == "/");
    }
    // The signature of a path is none of a prefix.
    let of_path = flash().sign(&path("/m"), &terms(NOW_S)).unwrap();
    assert_eq!(check(&flash(), "/m/x", &format!("{of_path}&prefix=/m")), Err(BadLink::Wrong));
    assert_eq!(check(&flash(), "/m", &link.replace("prefix=", "path=")), Err(BadLink::Wrong));
}

#[test]
fn a_link_may_be_for_some_clients() {
    for (client, right, wrong) in [
        ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ("192.0.2.0/24", "192.0.2.9", "192.0.3.1"),
        ("2001:db8::/64", "2001:db8::9", "2001:db8:0:1::9"),
    ] {
        let link = flash().sign(&path("/a"), &LinkTerms { client: Some(client), ..terms(NOW_S) }).unwrap();
        assert_eq!(check_from(right, &flash(), "/a", &link), Ok(()), "{client}");
        assert_eq!(check_from(wrong, &flash(), "/a", &link), Err(BadLink::Wrong), "{client}");
        let encoded = link.replace(':', "%3A").replace('/', "%2f");
        assert_eq!(check_from(right, &flash(), "/a", &encoded), Ok(()), "{client}");
        let without = link.replace(&format!("&client={client}"), "");
        assert_eq!(check_from(right, &flash(), "/a", &without), Err(BadLink::Wrong), "{client}");
    }
}

#[test]
fn a_link_may_say_a_rate() {
    let terms = LinkTerms { rate: Some("2M/s burst 4M"), ..terms(NOW_S) };
    let link = flash().sign(&path("/a"), &terms).unwrap();
    let client = Peer::Unix;
    let rate = |query: &str| {
        flash().check(&Link { path: &path("/a"), query: query.as_bytes(), client, now_s: NOW_S })
    };
    assert_eq!(rate(&link), Ok(Some("2M/s burst 4M".parse().unwrap())));
    for wrong in [
        link.replace("2M", "3M"),
        link.replace("2M", "0M"),
        link.replace("&rate=2M/s%20burst%204M", ""),
        link.replace("%20burst", "%0aburst"),
        format!("{link}&rate=9M/s"),
    ] {
        assert_eq!(rate(&wrong), Err(BadLink::Wrong), "{wrong}");
    }
}

/// Otherwise an application that signs paths of its users would sign the lines before them, too.
#[test]
fn a_path_with_line_breaks_is_no_other_link() {
    let link = flash().sign(&path("/x%0aclient=192.0.2.1%0apath=/a"), &terms(NOW_S)).unwrap();
    for query in [
        link.clone(),
        link.replace("&s", "&client=192.0.2.1&s"),
        link.replace("&s", "%0apath=/x&client=192.0.2.1&s"),
        link.replace("&s", "&client=192.0.2.1%0apath=/x&s"),
    ] {
        assert_eq!(check(&flash(), "/a", &query), Err(BadLink::Wrong), "{query}");
    }
}

#[test]
fn every_key_opens_and_the_first_one_signs() {
    let (new, old) = (links(Form::Flash, &["the new key of 16"]), flash());
    let both = links(Form::Flash, &["the new key of 16", KEY]);
    let sign = |links: &SignedLinks| links.sign(&path("/a"), &terms(NOW_S)).unwrap();
    assert_eq!(sign(&both), sign(&new));
    for link in [sign(&new), sign(&old)] {
        assert_eq!(check(&both, "/a", &link), Ok(()));
    }
    assert_eq!(check(&links(Form::Flash, &[]), "/a", &sign(&new)), Err(BadLink::Wrong));
}

fn nginx(arguments: &str, expression: &str) -> Result<SignedLinks, String> {
    let arguments = if arguments.is_empty() { Arguments::default() } else { arguments.parse()? };
    Ok(links(Form::Nginx(SecureLink::new(arguments, expression.parse::<Expression>()?)?), &["secret"]))
}

/// The example of nginx's documentation: `echo -n '2147483647/s/link127.0.0.1 secret' | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d =`.
#[test]
fn links_for_nginx_are_right() {
    let links = nginx("", "$secure_link_expires$uri$remote_addr $secret").unwrap();
    let link = "md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";
    assert_eq!(check_from("127.0.0.1", &links, "/s/link", link), Ok(()));
    assert_eq!(check_from("127.0.0.1", &links, "/s//%6cink", &link.replace("Yw&", "Yw==&x&")), Ok(()));
    for (client, raw, query) in [
        ("127.0.0.2", "/s/link", link.to_owned()),
        ("127.0.0.1", "/s/lin", link.to_owned()),
        ("127.0.0.1", "/s/link", link.replace("2147483647", "2147483646")),
        ("127.0.0.1", "/s/link", link.replace("Yw", "")),
        ("127.0.0.1", "/s/link", link.replace('_', "/")),
        ("127.0.0.1", "/s/link", link.replace("&expires=2147483647", "")),
        ("127.0.0.1", "/s/link", format!("{link}&{link}")),
        ("127.0.0.1", "/s/link", String::new()),
    ] {
        assert_eq!(check_from(client, &links, raw, &query), Err(BadLink::Wrong), "{client} {raw} {query}");
    }
    let sign = |expires_s, client| links.sign(&path("/s/link"), &LinkTerms { client, ..terms(expires_s) });
    assert_eq!(sign(2_147_483_647, Some("127.0.0.1")).as_deref(), Ok(link));
    assert!(sign(NOW_S, None).is_err() && sign(NOW_S, Some("127.0.0.0/8")).is_err());
    let expires =
        |seconds| check_from("127.0.0.1", &links, "/s/link", &sign(seconds, Some("127.0.0.1")).unwrap());
    assert_eq!(
        [0, 1, NOW_S - 1, NOW_S].map(expires),
        [Err(BadLink::Wrong), Err(BadLink::Expired), Err(BadLink::Expired), Ok(())]
    );
}

#[test]
fn expressions_of_nginx() {
    let named = nginx("$arg_st,$arg_e", "${secret}:$arg_e-$uri").unwrap();
    let link = named.sign(&path("/a"), &terms(NOW_S)).unwrap();
    assert!(link.starts_with("st=") && link.ends_with(&format!("&e={NOW_S}")), "{link}");
    assert_eq!(check(&named, "/a", &link), Ok(()));
    let forever = nginx("$arg_md5", "$secret$uri").unwrap();
    // printf secret/a | openssl md5 -binary | basenc --base64url
    assert_eq!(check(&forever, "/a", "md5=Uk44XbRR5pylyVLtoKARBw&expires=1"), Ok(()));
    assert!(forever.sign(&path("/a"), &terms(NOW_S)).is_err());
    for (arguments, expression) in [
        ("", "$secure_link_expires$uri secret"),
        ("", "$uri$secret"),
        ("", "$secure_link_expires$request_uri$secret"),
        ("", "$secure_link_expires$arg_x$secret"),
        ("", "${secret"),
        ("", "$secret$"),
        ("$arg_md5", "$secure_link_expires$secret"),
        ("md5,expires", "$secure_link_expires$secret"),
        ("$arg_,$arg_e", "$secure_link_expires$secret"),
        ("$arg_a,$arg_b,$arg_c", "$secure_link_expires$secret"),
    ] {
        assert!(nginx(arguments, expression).is_err(), "{arguments} {expression}");
    }
}

#[test]
fn files_of_keys() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("links.key");
    let secret: Expression = "$secure_link_expires$secret".parse().unwrap();
    let read = |form, text: &str| {
        fs::write(&key, text).unwrap();
        let links = SignedLinks::new(form, &[&key]);
        links.read(|path| File::open(path)).map(|()| links.keys()[0].to_vec())
    };
    let of_nginx = || Form::Nginx(SecureLink::new(Arguments::default(), secret.clone()).unwrap());
    assert_eq!(read(Form::Flash, &format!("{KEY}\r\n\n")).as_deref(), Ok(KEY.as_bytes()));
    assert_eq!(read(of_nginx(), "short\n").as_deref(), Ok(&b"short"[..]));
    for (form, text, why) in [
        (Form::Flash, "", "has no key"),
        (of_nginx(), "\n", "has no key"),
        (Form::Flash, "short of sixteen", ""),
        (Form::Flash, "fifteen letters", "less than 16 bytes"),
        (Form::Flash, &"a".repeat(5000), "more than 4096 bytes"),
    ] {
        let said = read(form, text).err().unwrap_or_default();
        assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{said}");
    }
    let of_file = |path: &Path| SignedLinks::new(Form::Flash, &[path]).read(|path| File::open(path));
    assert!(of_file(&folder.path().join("none")).is_err());
    assert!(of_file(folder.path()).is_err_and(|why| why.contains("is not a file")));
}

#[test]
fn no_link_is_right_before_the_keys_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("links.key");
    fs::write(&key, KEY).unwrap();
    let links = SignedLinks::new(Form::Flash, &[&key]);
    let terms = LinkTerms { expires_s: NOW_S, ..LinkTerms::default() };
    let link = flash().sign(&path("/a"), &terms).unwrap();
    assert_eq!(check(&links, "/a", &link), Err(BadLink::Wrong));
    links.read(|path| File::open(path)).unwrap();
    assert_eq!(check(&links, "/a", &link), Ok(()));
}

proptest! {
    /// A link that differs in any byte is no link, unless it means the same.
    #[test]
    fn no_changed_byte_is_signed(at in 0usize..200, byte in 0u8..128, expires_s in NOW_S..u64::MAX) {
        let terms = LinkTerms { client: Some("192.0.2.0/24"), is_prefix: true, rate: Some("2M/s burst 4M"), expires_s };
        let link = flash().sign(&path("/m"), &terms).unwrap();
        let mut changed = link.clone().into_bytes();
        let at = at % changed.len();
        prop_assume!(changed[at] != byte);
        changed[at] = byte;
        let client = Peer::Inet(([192, 0, 2, 1], 1).into());
        let checked = flash().check(&Link { path: &path("/m/x"), query: &changed, client, now_s: NOW_S });
        prop_assert_eq!(checked, Err(BadLink::Wrong), "{}", String::from_utf8_lossy(&changed));
    }
}
