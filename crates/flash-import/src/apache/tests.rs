//! Whole configurations: who comes in, what runs scripts, who is asked.

use std::path::Path;

use super::*;

fn imported(block: &str) -> String {
    let text = format!(
        "Listen 80\n<VirtualHost *:80>\nServerName a.example\nDocumentRoot /srv/a\n{block}\n</VirtualHost>"
    );
    let nothing = |_: &Path| Ok(Vec::new());
    import(Path::new("apache2.conf"), &text, &nothing).expect("its syntax is right").text
}

#[test]
fn nobody_comes_in_where_apache_keeps_clients_out() {
    for rule in [
        "Require all denied",
        "Require host example.org",
        "Require user alice",
        "Require expr %{HTTP_COOKIE} =~ /a/",
        "AuthType Digest\nAuthUserFile /u\nRequire valid-user",
        "AuthType Basic\nAuthBasicProvider ldap\nAuthUserFile /u\nRequire valid-user",
        "AuthType Basic\nRequire valid-user",
        "<RequireNone>\nRequire ip 10.0.0.1\n</RequireNone>",
        "<RequireAll>\nRequire ip 10.0.0.1\n<RequireAny>\nRequire ip 10.0.0.2\nRequire valid-user\n</RequireAny>\n</RequireAll>",
        "Order allow,deny\nDeny from all",
        "Order deny,allow\nDeny from all\nAllow from example.org",
        "Order allow,deny",
    ] {
        let text = imported(&format!("<Directory /srv/a/b>\n{rule}\n</Directory>"));
        assert!(text.contains("deny = [\"0.0.0.0/0\", \"::/0\""), "{rule}: {text}");
        let text = imported(&format!("<Location /b>\n{rule}\n</Location>"));
        assert!(text.contains("deny = [\"0.0.0.0/0\", \"::/0\""), "{rule}: {text}");
    }
    for (rule, expected) in [
        ("Require ip 10.1 192.0.2.7", "allow = [\"10.1.0.0/16\", \"192.0.2.7\"]"),
        ("Require local", "allow = [\"127.0.0.0/8\", \"::1\"]"),
        ("Order deny,allow\nDeny from all\nAllow from 10.0.0.0/255.0.0.0", "allow = \"10.0.0.0/8\""),
        ("AuthType Basic\nAuthUserFile /u\nRequire valid-user", "auth = \"/u\""),
        ("AuthType Basic\nAuthUserFile /u\nRequire valid-user\nRequire ip 10.0.0.1", "satisfy = \"any\""),
        (
            "AuthType Basic\nAuthUserFile /u\nRequire valid-user\nOrder deny,allow\nDeny from all\nAllow from 10.0.0.1\nSatisfy any",
            "satisfy = \"any\"",
        ),
        (
            "<RequireAll>\nRequire all granted\nRequire not ip 10.0.0.1\n</RequireAll>",
            "deny = [\"10.0.0.1\", \"*.php\"]",
        ),
    ] {
        let text = imported(&format!("<Directory /srv/a/b>\n{rule}\n</Directory>"));
        assert!(text.contains(expected), "{rule}: {text}");
    }
}

#[test]
fn sections_that_add_up_are_closed() {
    let guarded = |merging: &str| {
        let outer = "AuthType Basic\nAuthUserFile /u\nRequire valid-user";
        let inner = format!("{merging}\nRequire ip 10.0.0.0/8");
        imported(&format!("<Location />\n{outer}\n</Location>\n<Location /b>\n{inner}\n</Location>"))
    };
    for (merging, is_closed) in
        [("", false), ("AuthMerging Off", false), ("AuthMerging And", true), ("AuthMerging Or", true)]
    {
        let text = guarded(merging);
        let place = text.split("[site.\"a.example\".\"/b\"]").nth(1).expect("a place");
        assert_eq!(place.contains("0.0.0.0/0"), is_closed, "{merging}: {text}");
    }
}

#[test]
fn a_host_with_an_address_of_its_own_answers_its_names() {
    let text = "Listen 80\n<VirtualHost *:80>\nServerName a.example\nDocumentRoot /srv/a\n</VirtualHost>\n\
        <VirtualHost 192.0.2.1:80>\nServerName b.example\nDocumentRoot /srv/b\n</VirtualHost>";
    let nothing = |_: &Path| Ok(Vec::new());
    let imported = import(Path::new("apache2.conf"), text, &nothing).expect("its syntax is right");
    let own = imported.text.split("[site.\"b.example\"]").nth(1).expect("its site");
    assert!(own.contains("root = \"/srv/b\""), "{}", imported.text);
    // At the other address, each name has another server.
    for (line, names) in [(2, "b.example"), (6, "a.example")] {
        let is_said = |note: &Note| {
            let at = note.source.as_ref().map(|source| source.line);
            at == Some(line)
                && note.concerns.hosts.iter().any(|host| host == names)
                && note.text.contains(names)
        };
        assert!(imported.notes.iter().any(is_said), "{names}: {}", imported.file());
    }
}

#[test]
fn names_with_an_inner_end_of_a_script_are_not_shown() {
    let text = imported("AddHandler \"proxy:unix:/run/php.sock|fcgi://localhost\" .php");
    assert!(text.contains("\"*.php.old\"") && text.contains("fastcgi = { \".php\""), "{text}");
    let text = imported(
        "<FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n</FilesMatch>",
    );
    assert!(!text.contains(".php.old"), "{text}");
}

#[test]
fn a_section_is_read_once() {
    let source = Source { file: Path::new("a").into(), line: 1, text: String::new() };
    let of = Directive::new("filesmatch".into(), vec!["\\.php$".into()], None, source);
    assert!(std::ptr::eq(sections::covered(&of), sections::covered(&of)));
}

/// What sends all to a program, and guards that no place can have: nobody gets in until somebody has looked at it.
#[test]
fn what_is_not_understood_is_closed() {
    let closes = |block: &str| {
        let text = imported(block);
        assert!(text.contains("deny = [\"0.0.0.0/0\", \"::/0\""), "{block}: {text}");
        text
    };
    for block in [
        "<If \"%{REMOTE_ADDR} != '10.0.0.1'\">\nRequire all denied\n</If>",
        "<LocationMatch \"^/x[0-9]+/y\">\nRequire ip 10.0.0.1\n</LocationMatch>",
        "<Directory \"/srv/a/*/private\">\nRequire all denied\n</Directory>",
        "<FilesMatch \"^[a-f]{8}$\">\nRequire all denied\n</FilesMatch>",
        "<Limit GET POST>\nOrder deny,allow\nDeny from all\n</Limit>",
        "<Location /x>\nSSLRequireSSL\n</Location>",
        "<Directory /srv/a/x>\nSetHandler wsgi-script\n</Directory>",
        "ProxyPassMatch ^/(.*)$ http://127.0.0.1:3000/$1",
        "RewriteEngine On\nRewriteRule ^ /index.html [L]",
        "RewriteEngine On\nRewriteRule !\\.(js|css)$ index.php",
        "RewriteEngine On\nRewriteCond %{REQUEST_URI} !^/static\nRewriteRule ^ /index.html [L]",
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ /index.html [L]",
        "RewriteEngine On\nRewriteCond %{REMOTE_ADDR} !^10\\.\nRewriteRule ^/adm/ - [F]",
        "RewriteEngine On\nRewriteCond %{REQUEST_URI} ^/secret/\nRewriteRule ^ - [F]",
    ] {
        closes(block);
    }
    let text = closes("<LocationMatch \"^/adm/x[0-9]+\">\nRequire all denied\n</LocationMatch>");
    assert!(text.contains("[site.\"a.example\".\"/adm\"]"), "no more than the folder: {text}");
    for (block, expected) in [
        (
            "RewriteEngine On\nRewriteRule ^/(.*)$ http://127.0.0.1:3000/$1 [P]",
            "proxy = \"http://127.0.0.1:3000\"",
        ),
        ("RewriteEngine On\nRewriteRule ^/up/.*\\.php$ - [F]", "no-programs = \"/up\""),
        (
            "<LimitExcept GET POST>\nOrder deny,allow\nDeny from all\n</LimitExcept>",
            "methods = [\"GET\", \"POST\"]",
        ),
        ("<Directory /srv/a/x>\n<Files *.key>\nRequire all denied\n</Files>\n</Directory>", "\"*.key\""),
        ("<FilesMatch \"^.*\\.(key|pem)$\">\nRequire all denied\n</FilesMatch>", "\"*.pem\""),
        (
            "<Location />\nSetHandler \"proxy:unix:/run/p.sock|fcgi://l\"\n</Location>",
            "fastcgi = { \"/\" = \"unix:/run/p.sock\" }",
        ),
        ("AddHandler application/x-httpd-php .phtml", "\"*.phtml\""),
        ("SSLEngine on\nSSLVerifyClient require", "client-certificate = \"required\""),
        ("Options None", "follow-links = \"inside\""),
    ] {
        let text = imported(block);
        assert!(text.contains(expected), "{block}: {text}");
    }
    // Who is refused by what a client says of itself is named.
    let bots = "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} bot\nRewriteRule ^ - [F]";
    assert!(!imported(bots).contains("0.0.0.0/0"), "{}", imported(bots));
}

/// `.htaccess` files of all folders count, as far as they may; one that Apache refuses closes its folder.
#[test]
fn folders_have_files_of_their_own() {
    let import = |over: &str, own: &str| {
        let text = format!(
            "Listen 80\nDocumentRoot /srv/a\n<Directory /srv/a>\nAllowOverride {over}\nRequire all granted\n</Directory>"
        );
        let include = |path: &Path| {
            let is_there = path.ends_with("**/.htaccess");
            Ok(is_there.then(|| ("/srv/a/data/.htaccess".into(), own.to_owned())).into_iter().collect())
        };
        import(Path::new("/etc/apache2.conf"), &text, &include).expect("its syntax is right")
    };
    let closed = "deny = [\"0.0.0.0/0\", \"::/0\"";
    assert!(import("All", "Require all denied").text.contains(closed));
    assert!(!import("None", "Require all denied").text.contains(closed), "Apache does not read it");
    // What its folder may not say is 500 with Apache, and opens nothing here.
    assert!(import("FileInfo", "Require all granted").text.contains(closed));
    assert!(import("AuthConfig", "Order deny,allow\nAllow from all").text.contains(closed));
    assert!(!import("AuthConfig", "Require all granted").text.contains(closed));
    for wrong in ["Include /etc/shadow", "ScriptAlias /x /usr/bin", "<Broken"] {
        let imported = import("All", wrong);
        assert!(imported.text.contains(closed), "{wrong}: {}", imported.text);
        assert!(
            imported.notes.iter().any(|note| note.text.contains("nobody gets in below the folder")),
            "{wrong}"
        );
    }
}

/// One that cannot be read may guard something.
#[test]
fn flags_are_the_same_in_capitals_and_without() {
    let import = |flag: &str| -> Vec<String> {
        let text = imported(&format!(
            "RewriteEngine On\nRewriteCond %{{HTTPS}} off [{flag}]\nRewriteCond %{{HTTP_HOST}} =a.example\n\
             RewriteRule ^ https://b.example%{{REQUEST_URI}} [R=301,L]"
        ));
        text.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned).collect()
    };
    let expected = import("OR");
    for flag in ["or", "Or", "ornext", "OrNext", "ORNEXT", "NC,Or"] {
        assert_eq!(import(flag), expected, "{flag}");
    }
    assert_ne!(import("NC"), expected);
}

#[test]
fn what_cannot_be_read_is_closed() {
    let text = "Listen 80\nDocumentRoot /srv/a\n<Directory /srv/a>\nAllowOverride All\nRequire all granted\n</Directory>";
    let include = |path: &Path| match path.ends_with("**/.htaccess") {
        true => Err("cannot read /srv/a/data/.htaccess: Permission denied (os error 13)".to_owned()),
        false => Ok(Vec::new()),
    };
    let imported = import(Path::new("/etc/apache2.conf"), text, &include).expect("its syntax is right");
    assert!(imported.text.contains("deny = [\"0.0.0.0/0\", \"::/0\""), "{}", imported.text);
    assert!(imported.notes.iter().any(|note| note.is_left && note.text.contains("Permission denied")));
    // Below a file that is imported alone, too.
    let below = |path: &Path| {
        let own = path
            .ends_with("**/.htaccess")
            .then(|| ("/srv/www/data/.htaccess".into(), "Require all denied".to_owned()));
        Ok(own.into_iter().collect())
    };
    let text = import(Path::new("/srv/www/.htaccess"), "Options -Indexes", &below)
        .expect("its syntax is right")
        .text;
    assert!(text.contains("\"/data\"") && text.contains("deny = [\"0.0.0.0/0\""), "{text}");
}

/// A folder that its parent closes is open where its own section says so.
#[test]
fn the_innermost_rule_holds() {
    let text = imported(
        "<Directory /srv/a>\nRequire all denied\n</Directory>\n<Directory /srv/a/open>\nRequire all granted\n</Directory>",
    );
    let open = text.split("\"/open\"").nth(1).expect("a place");
    assert!(open.contains("deny = \"*.php\""), "{text}");
}

#[test]
fn nobody_gets_the_source_of_a_script() {
    let php = "\".php\" = \"unix:/run/php.sock\"";
    for (block, runs) in [
        ("", false),
        ("DirectoryIndex index.php", false),
        ("<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>", false),
        (
            "<FilesMatch \\.php$>\nSetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n</FilesMatch>",
            true,
        ),
        ("AddHandler \"proxy:unix:/run/php.sock|fcgi://localhost\" .php", true),
        ("ProxyPassMatch ^/(.*\\.php(/.*)?)$ unix:/run/php.sock|fcgi://localhost/srv/a", true),
    ] {
        let text = imported(block);
        assert_eq!(text.contains("deny = \"*.php\""), !runs, "{block}: {text}");
        assert_eq!(text.contains(php), runs, "{block}: {text}");
    }
}

#[test]
fn what_a_server_behind_is_asked_and_told() {
    for (block, expected) in [
        ("ProxyPass / http://127.0.0.1:3000/", "proxy = \"http://127.0.0.1:3000\""),
        ("ProxyPass / http://127.0.0.1:3000/", "proxy-host = \"127.0.0.1:3000\""),
        ("ProxyPass /api/ http://b:1/v2/", "strip-prefix = \"/api\""),
        ("ProxyPass /api/ http://b:1/v2/", "proxy = \"http://b:1/v2\""),
        ("ProxyPass /api http://b:1/api", "proxy = \"http://b:1\""),
        ("ProxyPass /a unix:/run/a.sock|http://localhost/a", "proxy = \"unix:/run/a.sock\""),
        ("<Location /ws>\nProxyPass ws://b:1/ws\n</Location>", "proxy = \"http://b:1\""),
        (
            "<Proxy balancer://app>\nBalancerMember http://b:1\nBalancerMember http://c:1\n</Proxy>\nProxyPass /x balancer://app/x",
            "proxy = [\"http://b:1\", \"http://c:1\"]",
        ),
        ("RequestHeader set X-A b\nProxyPass /x http://b:1/x", "proxy-header = { \"X-A\" = \"b\" }"),
    ] {
        let text = imported(block);
        assert!(text.contains(expected), "{block}: {text}");
    }
    let text = imported("ProxyPreserveHost On\nProxyPass / http://b:1/");
    assert!(!text.contains("proxy-host"), "{text}");
    // What is not passed on keeps its folder.
    let text = imported("ProxyPass /static !\nProxyPass / http://b:1/");
    let place = text.split("\"/static\"").nth(1).expect("a place");
    assert!(place.contains("root = \"/srv/a\""), "{text}");
    // What is not taken is closed.
    let text = imported("ProxyPass /ajp ajp://b:8009/ajp");
    assert!(text.contains("deny = [\"0.0.0.0/0\", \"::/0\""), "{text}");
}

#[test]
fn rewrite_rules() {
    for (rules, expected) in [
        (
            "RewriteCond %{HTTPS} !=on\nRewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [R,L]",
            "https = \"required\"",
        ),
        (
            "RewriteRule ^/a$ https://b.example/ [R=308]",
            "redirect = { to = \"https://b.example/\", status = 308 }",
        ),
        ("RewriteRule ^/a/(.*) /b/$1 [R=301,L]", "redirect = { to = \"/b{rest}\", status = 301 }"),
        ("RewriteRule ^/a$ - [G]", "gone = true"),
        (
            "RewriteMap moved txt:/etc/apache2/moved.txt\nRewriteCond ${moved:$1} !=\"\"\nRewriteRule ^(.*)$ ${moved:$1} [R=301,L]",
            "redirects = \"/etc/apache2/moved.txt\"",
        ),
        ("RewriteRule \\.sql$ - [F]", "[site.\"a.example\".\"*.sql\"]"),
        ("RewriteRule ^/inst - [F]", "[site.\"a.example\".\"/inst\"]"),
    ] {
        let tls = "</VirtualHost>\n<VirtualHost *:443>\nServerName tls.example\nDocumentRoot /srv/tls\nSSLEngine on";
        let tls = if expected.starts_with("https") { tls } else { "" };
        let text = imported(&format!("RewriteEngine On\n{rules}\n{tls}"));
        assert!(text.contains(expected), "{rules}: {text}");
        let off = imported(rules);
        assert!(!off.contains(expected), "the engine is off: {off}");
    }
}

#[test]
fn a_folders_own_file_is_a_site() {
    let text = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\nRewriteRule ^old$ /new [R=301]";
    let nothing = |_: &Path| Ok(Vec::new());
    let imported = import(Path::new("/srv/www/.htaccess"), text, &nothing).expect("its syntax is right");
    for part in [
        "root = \"/srv/www\"",
        "fallback = \"/index.php\"",
        "\".php\" = \"unix:/run/php/php-fpm.sock\"",
        "\"=/old\"",
    ] {
        assert!(imported.text.contains(part), "{part}: {}", imported.text);
    }
}

#[test]
fn sites_have_their_names_and_listeners() {
    let nothing = |_: &Path| Ok(Vec::new());
    let text = "Listen 80\nListen 127.0.0.1:8080\nListen 443\n\
        <VirtualHost *:80>\nServerName a.example\nServerAlias www.a.example *.b.example\nDocumentRoot /srv/a\n</VirtualHost>\n\
        <VirtualHost *:443>\nServerName a.example\nDocumentRoot /srv/a\nSSLEngine on\nSSLCertificateFile /c\nSSLCertificateKeyFile /k\n</VirtualHost>\n\
        DocumentRoot /srv/main";
    let imported = import(Path::new("apache2.conf"), text, &nothing).expect("its syntax is right").text;
    for part in [
        "listen = [\":80\", \":443\", \"127.0.0.1:8080\"]",
        "[site.\"a.example\"]",
        "tls = { certificate = \"/c\", key = \"/k\" }",
        "*.b.example",
    ] {
        assert!(imported.contains(part), "{part}: {imported}");
    }
}
