//! `upstream`: servers with a name, and which of them gets a request.

use crate::directive::Directive;
use crate::flash::{Settings, Value, set};
use crate::note::{Of, Paths};
use crate::scope::Scope;

/// Its servers for `proxy_pass`, in their order.
pub(super) struct Members<'t> {
    pub(super) servers: Vec<Member>,
    balance: Option<(&'t Directive, Value)>,
    hash: Option<(&'t Directive, Value)>,
}

pub(super) struct Member {
    /// A host and perhaps a port, or a socket.
    pub(super) address: String,
    weight: usize,
    is_backup: bool,
    connections_max: usize,
}

const WEIGHT_MAX: usize = 1000;

/// The servers of an upstream, but those that are down.
pub(super) fn members<'t>(scope: &Scope<'t>, upstream: &'t Directive) -> Members<'t> {
    scope.context.see(upstream);
    let mut members = Members { servers: Vec::new(), balance: None, hash: None };
    for of in upstream.block.as_deref().unwrap_or_default() {
        scope.context.see(of);
        let balance = |name: &str| Some((of, Value::Text(name.into())));
        match &*of.name {
            "server" => members.add(scope, of),
            "least_conn" => members.balance = balance("least-requests"),
            "random" => {
                if of.words.is_empty() {
                    let why = "of two servers at random, the one with fewer requests gets the next";
                    scope.differs(&of.source, why, Paths::None, Of::Everything);
                }
                members.balance = balance("least-requests");
            }
            "ip_hash" => {
                let why = "each address has its server; with nginx, the addresses of a /24 share one";
                scope.differs(&of.source, why, Paths::None, Of::Everything);
                (members.balance, members.hash) = (balance("hash"), Some((of, Value::Text("client".into()))));
            }
            "hash" => match of.words.first().and_then(|key| hash(key)) {
                Some(hash) => {
                    if hash == "path" {
                        let why = "requests for a path are equal, whatever their queries";
                        scope.differs(&of.source, why, Paths::None, Of::Everything);
                    }
                    (members.balance, members.hash) = (balance("hash"), Some((of, Value::Text(hash))));
                }
                None => {
                    let why = "hash knows \"path\", \"client\", \"cookie:NAME\" and \"field:NAME\"";
                    scope.left(of, why, Paths::None);
                }
            },
            "sticky" => {
                let why = "write sticky = { cookie = \"NAME\", key = { file = \"/etc/flash/sticky.key\" } }";
                scope.left(of, why, Paths::None);
            }
            // Flash has its own ways to share and keep connections.
            "zone" | "state" | "resolver" | "resolver_timeout" => {}
            name if name.starts_with("keepalive") => {}
            _ => scope.left(of, "an upstream of Flash has nothing like it", Paths::None),
        }
    }
    members
}

/// What makes requests equal.
fn hash(key: &str) -> Option<String> {
    let variable = key.strip_prefix('$').map(|name| name.trim_matches(['{', '}']))?;
    match variable {
        "uri" | "request_uri" => Some("path".into()),
        "remote_addr" | "binary_remote_addr" => Some("client".into()),
        _ => match (variable.strip_prefix("cookie_"), variable.strip_prefix("http_")) {
            (Some(name), _) if is_name(name) => Some(format!("cookie:{name}")),
            (_, Some(name)) if is_name(name) => Some(format!("field:{}", name.replace('_', "-"))),
            _ => None,
        },
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Members<'_> {
    fn add(&mut self, scope: &Scope<'_>, of: &Directive) {
        let Some((address, words)) = of.words.split_first() else { return };
        let mut member = Member { address: address.clone(), weight: 1, is_backup: false, connections_max: 0 };
        for word in words {
            match (&**word, word.split_once('=')) {
                ("down", _) => return,
                ("backup", _) => member.is_backup = true,
                (_, Some(("weight", weight))) => {
                    member.weight = weight.parse().unwrap_or(1);
                    if member.weight > WEIGHT_MAX {
                        scope.left(of, format!("a weight is {WEIGHT_MAX} at most"), Paths::None);
                    }
                }
                (_, Some(("max_fails", "0"))) => {
                    let why =
                        "a server that cannot be reached is left out for a while, whatever max_fails says";
                    scope.differs(&of.source, why, Paths::None, Of::Everything);
                }
                (_, Some(("max_conns", most))) => member.connections_max = most.parse().unwrap_or(0),
                // A server that fails is left out for a time that grows, and names are always looked up again.
                ("resolve", _) | (_, Some(("max_fails" | "fail_timeout", _))) => {}
                _ => scope.left(of, format!("a server has no {word}"), Paths::None),
            }
        }
        // Flash names each once.
        match self.servers.iter_mut().find(|known| known.address == member.address) {
            Some(known) => known.weight += member.weight,
            None => self.servers.push(member),
        }
    }

    /// The only server, if there is nothing more to say of it.
    pub(super) fn only(&self) -> Option<&Member> {
        match &self.servers[..] {
            [server] if server.terms().is_empty() => Some(server),
            _ => None,
        }
    }

    /// The table of the upstream, with the addresses that `url` makes.
    pub(super) fn table(&self, of: &Directive, url: impl Fn(&str) -> String) -> Settings {
        let mut settings = Settings::new();
        let servers = self.servers.iter().map(|member| (url(&member.address), member.terms()));
        let value = match self.servers.iter().any(|member| !member.terms().is_empty()) {
            true => Value::Tables(servers.collect()),
            false => Value::Texts(servers.map(|(url, _)| url).collect()),
        };
        set(&mut settings, "servers", value, Some(of));
        match &self.balance {
            Some((of, balance)) => set(&mut settings, "balance", balance.clone(), Some(of)),
            None => set(&mut settings, "balance", Value::Text("round-robin".into()), None),
        }
        if let Some((of, hash)) = &self.hash {
            set(&mut settings, "hash", hash.clone(), Some(of));
        }
        settings
    }
}

impl Member {
    /// What the file says of it.
    fn terms(&self) -> Vec<(&'static str, Value)> {
        let weight = (self.weight != 1).then(|| ("weight", Value::Number(self.weight.clamp(1, WEIGHT_MAX))));
        let backup = self.is_backup.then_some(("backup", Value::Flag(true)));
        let most = Some(self.connections_max).filter(|most| *most > 0);
        weight
            .into_iter()
            .chain(backup)
            .chain(most.map(|most| ("max-connections", Value::Number(most))))
            .collect()
    }

    pub(super) fn is_backup(&self) -> bool {
        self.is_backup
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Imported;
    use crate::nginx::import;

    fn imported(upstreams: &str, places: &str) -> Imported {
        let text = format!(
            "http {{ {upstreams} server {{ listen 80; server_name a.example; root /srv/a; {places} }} }}"
        );
        let nothing = |_: &Path| Ok(Vec::new());
        import(Path::new("nginx.conf"), &text, &nothing).expect("its syntax is right")
    }

    fn text(upstream: &str) -> String {
        imported(&format!("upstream app {{ {upstream} }}"), "location / { proxy_pass http://app; }").text
    }

    #[test]
    fn what_differs_is_named_and_names_may_have_dots() {
        for (upstream, why) in [
            ("server a:1; server b:2; hash $request_uri;", "whatever their queries"),
            ("server a:1; server b:2; least_time header;", "nothing like it"),
            ("server a:1; server b:2; queue 100 timeout=70;", "nothing like it"),
            ("server a:1 weight=5000; server b:2;", "1000 at most"),
            ("server a:1 max_fails=0; server b:2;", "whatever max_fails says"),
        ] {
            let said =
                imported(&format!("upstream app {{ {upstream} }}"), "location / { proxy_pass http://app; }");
            assert!(said.file().contains(why), "{upstream}: {}", said.file());
        }
        let said = imported(
            "upstream app.example.org { server a:1; server b:2; zone z 64k; keepalive_timeout 5s; }",
            "location / { proxy_pass http://app.example.org; }",
        );
        assert!(said.text.contains("[upstream.\"app.example.org\"]"), "{}", said.text);
        assert!(!said.file().contains("nothing like it"), "{}", said.file());
    }

    #[test]
    fn servers_with_their_terms() {
        let said = text(
            "server a:1 weight=3 max_conns=9; server b:2; server c:3 backup; server d:4 down; keepalive 8;",
        );
        for part in [
            "[upstream.app]",
            "\"http://a:1\" = { weight = 3, max-connections = 9 }",
            "\"http://b:2\" = {}",
            "\"http://c:3\" = { backup = true }",
            "balance = \"round-robin\"",
            "proxy = \"app\"",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("d:4") && said.find("[upstream.app]") < said.find("[site."), "{said}");
        let said = text("server a:1; server b:2;");
        assert!(said.contains("servers = [\"http://a:1\", \"http://b:2\"]"), "{said}");
        // One says nothing that a table would.
        let said = text("server a:1; keepalive 8;");
        assert!(said.contains("proxy = \"http://a:1\"") && !said.contains("[upstream"), "{said}");
        assert!(text("server a:1; server a:1;").contains("weight = 2"));
        assert!(!text("server a:1 backup;").contains("proxy = "), "one server is no backup");
    }

    #[test]
    fn ways_to_choose() {
        let two = "server a:1; server b:2;";
        for (said, balance, hash) in [
            ("least_conn;", "least-requests", None),
            ("random two least_conn;", "least-requests", None),
            ("ip_hash;", "hash", Some("client")),
            ("hash $request_uri consistent;", "hash", Some("path")),
            ("hash $cookie_sid;", "hash", Some("cookie:sid")),
            ("hash $http_x_user;", "hash", Some("field:x-user")),
            ("hash $cookie_;", "round-robin", None),
            ("hash $host$uri;", "round-robin", None),
        ] {
            let text = text(&format!("{said} {two}"));
            assert!(text.contains(&format!("balance = \"{balance}\"")), "{said}: {text}");
            let is_there = hash.map(|hash| text.contains(&format!("hash = \"{hash}\"")));
            assert!(is_there.unwrap_or(!text.contains("hash = ")), "{said}: {text}");
        }
        let left = imported(
            &format!("upstream app {{ {two} sticky cookie a; hash $host; }}"),
            "location / { proxy_pass http://app; }",
        );
        assert_eq!(left.notes.iter().filter(|note| note.is_left).count(), 2, "{:?}", left.notes);
    }

    #[test]
    fn each_address_has_a_table_of_its_own() {
        let upstream = "upstream my_app+1 { server a; server b:2; }";
        let text = imported(
            upstream,
            "location / { proxy_pass http://my_app+1; } location /b/ { proxy_pass http://my_app+1; } \
             location /v2/ { proxy_pass http://my_app+1/two/; } location /s/ { proxy_pass https://my_app+1; }",
        )
        .text;
        assert_eq!(text.matches("[upstream.").count(), 3, "{text}");
        for part in [
            "[upstream.my_app-1]",
            "[upstream.my_app-1-2]",
            "\"http://a/two\", \"http://b:2/two\"",
            // A server of an upstream has port 80 if it says none.
            "\"https://a:80\", \"https://b:2\"",
            "proxy = \"my_app-1-3\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
