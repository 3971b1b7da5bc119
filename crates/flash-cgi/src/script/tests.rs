//! Prefixes, folders of scripts, suffixes; and that a split loses nothing.

use proptest::prelude::*;

use super::*;

fn split(path: &'static str, at: usize) -> Option<Split<'static>> {
    let (name, info) = path.as_bytes().split_at(at);
    Some(Split { name, info })
}

#[test]
fn a_prefix_ends_where_a_segment_does() {
    assert_eq!(below(b"/app", b"/app"), split("/app", 4));
    assert_eq!(below(b"/app/", b"/app"), split("/app/", 4));
    assert_eq!(below(b"/app/x", b"/app/"), split("/app/x", 4));
    assert_eq!(below(b"/apple", b"/app"), None);
    assert_eq!(below(b"/ap", b"/app"), None);
    assert_eq!(below(b"/x/y", b"/"), split("/x/y", 0));
}

/// A folder with `a` (a script), `d/s` (a script) and `d` itself.
fn look(name: &[u8]) -> Result<Found, ()> {
    Ok(match name {
        b"a" | b"d/s" => Found::Script,
        b"d" => Found::Folder,
        _ => Found::Nothing,
    })
}

#[test]
fn rfc3875_3_2_the_script_is_the_longest_name_that_is_one() {
    let find = |path: &'static str| find(path.as_bytes(), b"/cgi-bin", look).unwrap();
    assert_eq!(find("/cgi-bin/a"), split("/cgi-bin/a", 10));
    assert_eq!(find("/cgi-bin/a/"), split("/cgi-bin/a/", 10));
    assert_eq!(find("/cgi-bin/a/b/c"), split("/cgi-bin/a/b/c", 10));
    assert_eq!(find("/cgi-bin/d/s/x"), split("/cgi-bin/d/s/x", 12));
    for nothing in
        ["/cgi-bin", "/cgi-bin/", "/cgi-bin/b", "/cgi-bin/d", "/cgi-bin/d/", "/cgi-bin/d/t/s", "/a"]
    {
        assert_eq!(find(nothing), None, "{nothing}");
    }
}

#[test]
fn nobody_looks_below_what_is_not_there_or_after_an_error() {
    let mut asked = Vec::new();
    let found = find(b"/c/x/y/z", b"/c", |name| {
        asked.push(name);
        Ok::<_, ()>(Found::Nothing)
    });
    assert_eq!((found, asked), (Ok(None), vec![&b"x"[..]]));
    assert_eq!(find(b"/c/x/y", b"/c", |_| Err("forbidden")), Err("forbidden"));
}

#[test]
fn a_suffix_ends_a_segment() {
    let all = |path: &'static str| suffixed(path.as_bytes(), b".php").collect::<Vec<_>>();
    assert_eq!(all("/i.php"), [split("/i.php", 6).unwrap()]);
    assert_eq!(all("/i.php/"), [split("/i.php/", 6).unwrap()]);
    assert_eq!(
        all("/a.php/b.php/c"),
        [split("/a.php/b.php/c", 6).unwrap(), split("/a.php/b.php/c", 12).unwrap()]
    );
    for nothing in ["/i.php5", "/i.phpx/y", "/php", "/", "/i.php.txt", "/I.PHP"] {
        assert_eq!(all(nothing), [], "{nothing}");
    }
}

proptest! {
    #[test]
    fn a_split_loses_nothing(path in "(/[a-c.]{1,3}(\\.php)?){0,5}/?", prefix in "(/[a-c.]{1,2}){0,2}/?") {
        let whole = |split: &Split<'_>| [split.name, split.info].concat() == path.as_bytes()
            && (split.info.is_empty() || split.info[0] == b'/');
        let (path, prefix) = (path.as_bytes(), prefix.as_bytes());
        prop_assert!(below(path, prefix).iter().all(whole));
        for split in suffixed(path, b".php") {
            prop_assert!(whole(&split) && split.name.ends_with(b".php"));
        }
        // Every leading part that is asked about is one segment longer, and the one that is taken is the last.
        let mut asked = 0;
        let found = find(path, prefix, |name| {
            asked += 1;
            assert_eq!(name.split(|&byte| byte == b'/').count(), asked);
            Ok::<_, ()>(if asked == 2 { Found::Script } else { Found::Folder })
        });
        let found = found.unwrap();
        prop_assert!(found.iter().all(whole));
        prop_assert_eq!(found.is_some(), asked == 2);
    }
}
