//! What an application is told in other words, and what clients see of its addresses.

use std::fs;
use std::process::Command;

use flash_tests::{PROCESSES, Server, arch_settings, need};

use super::{App, folder, told};

#[test]
fn clients_see_their_own_addresses_in_place_of_the_applications() {
    let (folder, app) = (folder(), App::node());
    let config = folder.path().join("flash.toml");
    for arch in ["amped", "uring", "sped", PROCESSES] {
        let text = format!(
            "listen = '127.0.0.1:0'\nadmin = 'off'\n{}[site.'*']\nroot = '.'\n\
             '/api' = {{ proxy = '{}/v2', strip-prefix = '/api', proxy-redirect = 'on', proxy-cookies = 'on', \
             proxy-forwarded = 'on', proxy-response-header = {{ X-Powered-By = '', X-Own = 'set' }} }}\n",
            arch_settings(arch),
            app.url()
        );
        fs::write(&config, text).expect("the file is written");
        let server = Server::start_configured(&config, &[]);
        let reply = server.get("/api/moved");
        let field = |name| reply.field(name);
        assert_eq!(reply.status, 302, "{arch}");
        let location = format!("http://{}/api/login?x", server.address);
        let got = [field("Location"), field("Set-Cookie"), field("X-Own"), field("X-Powered-By")];
        // The test's request names this host.
        let location = location.replace(&server.address.to_string(), "h");
        assert_eq!(got, [Some(&*location), Some("a=b; Path=/api"), Some("set"), None], "{arch}");
        let output = Command::new(need("curl", "curl"))
            .args(["-s", "--http2-prior-knowledge", "-D", "-", "-H", "Host: other:1"])
            .arg(format!("http://{}/api/moved", server.address))
            .output()
            .expect("curl runs");
        let head = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(head.contains("location: http://other:1/api/login?x\r\n"), "{arch}: {head}");
        let told = told(&server.get("/api/a?b"));
        assert_eq!(told["url"], "/v2/a?b", "{arch}");
        let fields = told["fields"].to_string();
        assert!(fields.contains(r#""Forwarded","for=127.0.0.1;host=h;proto=http""#), "{arch}: {fields}");
        assert!(!fields.contains("X-Forwarded-"), "{arch}: {fields}");
        server.stop();
    }
}
