//! What an administrator installs: the unit, its examples, its user and log rotation, under a systemd that really runs them.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use flash_rig::Php;
use flash_tests::ARCHITECTURES;
use flash_tests::systemd::{self, Systemd};

/// Ten times the highest exposure level that is accepted.
const EXPOSURE_MAX: u32 = 20;

/// The drop-ins that leave the unit no more exposed than that.
const CONFINED: [&str; 2] = ["php.conf", "socket.conf"];

const SITE: &str = "root = \"/srv/www\"\nlisten = [\":80\"]\n";

/// A systemd with a site, where one can run.
fn systemd() -> Option<Systemd> {
    if let Some(missing) = systemd::missing() {
        eprintln!("NOT TESTED, the unit under systemd: {missing}");
        return None;
    }
    let systemd = Systemd::start();
    systemd.write("/srv/www/index.html", "hello\n");
    Some(systemd)
}

fn script(systemd: &Systemd, name: &str, text: &str) {
    let path = format!("/usr/lib/cgi-bin/{name}");
    systemd.write(&path, &format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n{text}"));
    systemd.succeed(&format!("chmod 755 {path}"));
}

const FETCH: &str = "curl --silent --show-error --fail http://127.0.0.1";

#[test]
fn systemd_has_nothing_to_say_about_the_unit_and_finds_it_confined() {
    let Some(systemd) = systemd() else { return };
    let man = "mkdir -p /usr/share/man/man1 && flash man > /usr/share/man/man1/flash.1 && \
               flash man serve > /usr/share/man/man1/flash-serve.1";
    systemd.succeed(man);
    let examples = fs::read_dir(systemd::deploy().join("examples")).unwrap();
    let mut examples: Vec<String> =
        examples.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    examples.sort();
    systemd.write(
        "/etc/systemd/system/flash.socket",
        &fs::read_to_string(systemd::deploy().join("examples/flash.socket")).unwrap(),
    );
    let mut confined = 0;
    for example in [""].into_iter().chain(examples.iter().map(String::as_str)) {
        let unit = if example.ends_with(".socket") { "flash.socket" } else { "flash.service" };
        if example.ends_with(".conf") {
            systemd.install(example);
        }
        let output = systemd.run(&format!("systemd-analyze verify {unit} 2>&1"));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.is_empty(), "{example}: {said}");
        if example.is_empty() || CONFINED.contains(&example) {
            let judge = format!("systemd-analyze security --offline=true --threshold={EXPOSURE_MAX} {unit}");
            let said = systemd.succeed(&judge);
            println!("{example}: {}", said.lines().last().unwrap_or_default());
            confined += 1;
        }
        systemd.run(&format!("rm /etc/systemd/system/flash.service.d/{example}"));
    }
    assert_eq!(confined, 1 + CONFINED.len());
}

#[test]
fn every_architecture_serves_reloads_and_stops_in_the_unit() {
    let Some(systemd) = systemd() else { return };
    for arch in ARCHITECTURES.into_iter().chain(["amped --helpers process --sandbox required"]) {
        let mut words = arch.split(' ');
        let mut keys = format!(
            "{SITE}access-log = \"/var/log/flash/access.log\"\narch = \"{}\"\n",
            words.next().unwrap()
        );
        while let (Some(flag), Some(value)) = (words.next(), words.next()) {
            keys.push_str(&format!("{} = \"{value}\"\n", flag.trim_start_matches('-')));
        }
        systemd.serve(&keys);
        assert_eq!(systemd.succeed(&format!("{FETCH}/")), "hello\n", "{arch}");
        systemd.succeed("systemctl reload flash");
        let status = systemd.succeed("systemctl show flash --property StatusText");
        let second = ["serves configuration 2", "generation=2"];
        assert!(second.iter().any(|number| status.contains(number)), "{arch}: {status}");
        systemd.succeed("flash reopen");
        systemd.write("/etc/flash/flash.toml", "lisen = [\":80\"]\n");
        assert!(!systemd.run("systemctl reload flash").status.success(), "{arch}: a wrong file is refused");
        assert!(systemd.said().contains("did you mean `listen`?"), "{arch}: {}", systemd.said());
        assert_eq!(systemd.succeed(&format!("{FETCH}/")), "hello\n", "{arch}");
        systemd.succeed("systemctl stop flash");
        let result = systemd.succeed("systemctl show flash --property Result,ExecMainStatus");
        assert!(result.contains("Result=success") && result.contains("ExecMainStatus=0"), "{arch}: {result}");
    }
}

/// The first example of each page for administrators names a user.
#[test]
fn the_unit_takes_its_own_user_and_says_what_to_do_about_another() {
    let Some(systemd) = systemd() else { return };
    for arch in ARCHITECTURES {
        let arch = flash_tests::arch_settings(arch);
        systemd.serve(&format!("user = \"flash\"\n{SITE}{arch}"));
        assert_eq!(systemd.succeed(&format!("{FETCH}/")), "hello\n", "{arch}");
        systemd.succeed("systemctl reload flash");
    }
    systemd.write("/etc/flash/flash.toml", &format!("user = \"www-data\"\n{SITE}"));
    assert!(!systemd.run("systemctl restart flash").status.success());
    assert!(systemd.said().contains("Leave `user` out"), "{}", systemd.said());
}

#[test]
fn programs_run_in_the_unit_and_get_no_further() {
    let Some(systemd) = systemd() else { return };
    // Without the unit, each would succeed for this user.
    let attempts = [
        "echo x > /srv/www/mine/page",
        "echo x > /usr/local/mine/program",
        "ls /home/user",
        "cat /proc/meminfo",
        "ls /proc/1/",
        "unshare --user true",
        "cat /tmp/of-others",
    ];
    systemd.succeed(
        "install -d -o flash /srv/www/mine /usr/local/mine && install -d -m 755 /home/user && echo x > /tmp/of-others && \
         chmod 644 /tmp/of-others",
    );
    let tests: String =
        attempts.map(|attempt| format!("({attempt}) >/dev/null 2>&1 && echo 'got: {attempt}'\n")).concat();
    let text = format!(
        "{tests}echo x > /var/tmp/x && rm /var/tmp/x && echo scratch\ngrep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status\n"
    );
    script(&systemd, "attempts", &text);
    script(&systemd, "keeps", "echo x > /var/lib/flash/data && cat /var/lib/flash/data\n");
    systemd.serve(&format!("{SITE}cgi = {{ \"/cgi-bin\" = \"/usr/lib/cgi-bin\" }}\n"));
    let said = systemd.succeed(&format!("{FETCH}/cgi-bin/attempts"));
    assert!(!said.contains("got: "), "{said}");
    for line in ["scratch", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(said.lines().any(|found| found == line), "{line}: {said}");
    }
    assert!(systemd.succeed(&format!("{FETCH}/cgi-bin/keeps")).is_empty());
    systemd.install("programs.conf");
    systemd.succeed("systemctl restart flash");
    assert_eq!(systemd.succeed(&format!("{FETCH}/cgi-bin/keeps")), "x\n");
    let said = systemd.succeed(&format!("{FETCH}/cgi-bin/attempts"));
    assert!(said.contains("got: cat /proc/meminfo") && said.contains("got: ls /home/user"), "{said}");
    assert!(!said.contains("/srv/www/mine"), "{said}");
}

#[test]
fn programs_have_a_user_of_their_own_in_the_unit() {
    let Some(systemd) = systemd() else { return };
    systemd.succeed("systemd-sysusers --inline 'u flash-cgi - \"Programs of Flash\"'");
    systemd.write("/etc/flash/tls/key.pem", "a key\n");
    systemd.succeed("chown root:flash /etc/flash/tls/key.pem && chmod 640 /etc/flash/tls/key.pem");
    systemd.install("cgi-user.conf");
    let text = "id -un\ncat /etc/flash/tls/key.pem 2>/dev/null\nkill -0 $QUERY_STRING 2>/dev/null && echo reached\n\
                grep -E '^(CapEff|NoNewPrivs):' /proc/self/status\n";
    script(&systemd, "who", text);
    for arch in ["amped", "mp"] {
        systemd.serve(&format!(
            "{SITE}arch = \"{arch}\"\nuser = \"flash\"\ncgi-user = \"flash-cgi\"\n\
             access-log = \"/var/log/flash/access.log\"\ncgi = {{ \"/cgi-bin\" = \"/usr/lib/cgi-bin\" }}\n"
        ));
        let server = || systemd.succeed("systemctl show flash --property MainPID --value");
        let said = systemd.succeed(&format!("{FETCH}/cgi-bin/who?{}", server().trim()));
        assert_eq!(said, "flash-cgi\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n", "{arch}");
        let ids = systemd.succeed(&format!("stat --format %U /proc/{}", server().trim()));
        assert_eq!(ids, "flash\n", "{arch}");
        let before = server();
        systemd.succeed("flash upgrade");
        assert_ne!(server(), before, "{arch}");
        assert!(systemd.succeed(&format!("{FETCH}/cgi-bin/who")).starts_with("flash-cgi\n"), "{arch}");
        systemd.succeed("systemctl reload flash && systemctl stop flash");
    }
}

#[test]
fn php_answers_in_the_unit() {
    let Some(systemd) = systemd() else { return };
    let php = match Php::find() {
        Ok(php) => php,
        Err(missing) => panic!("{missing}"),
    };
    systemd.write("/srv/www/fpm.php", "<?php echo 'from ', PHP_SAPI, \"\\n\";");
    systemd
        .write("/srv/www/app.phtml", "<?php echo 'from ', PHP_SAPI, preg_match('/^a+b/', 'aab'), \"\\n\";");
    let pool = "[global]\nerror_log = /dev/null\n[www]\nuser = www-data\ngroup = www-data\nlisten = /run/php/php-fpm.sock\n\
                listen.owner = www-data\nlisten.group = www-data\npm = static\npm.max_children = 2\n";
    systemd.write("/run/php/fpm.conf", pool);
    systemd.succeed(&format!("{} --daemonize --fpm-config /run/php/fpm.conf", php.display()));
    systemd.install("php.conf");
    systemd.serve(&format!(
        "{SITE}fastcgi = {{ \".php\" = \"unix:/run/php/php-fpm.sock\" }}\napp = {{ \".phtml\" = \"php-cgi\" }}\n"
    ));
    assert_eq!(systemd.succeed(&format!("{FETCH}/fpm.php")), "from fpm-fcgi\n");
    assert_eq!(systemd.succeed(&format!("{FETCH}/app.phtml")), "from cgi-fcgi1\n");
}

#[test]
fn systemd_opens_the_ports_and_the_server_has_no_right_to_any() {
    let Some(systemd) = systemd() else { return };
    let socket = fs::read_to_string(systemd::deploy().join("examples/flash.socket")).unwrap();
    systemd.write("/etc/systemd/system/flash.socket", &socket);
    systemd.write("/etc/flash/flash.toml", SITE);
    systemd.install("socket.conf");
    systemd.succeed("systemctl start flash.socket");
    assert!(!systemd.run("systemctl is-active flash.service").status.success());
    assert_eq!(systemd.succeed(&format!("{FETCH}/")), "hello\n");
    let rights = systemd.succeed("cat /proc/$(systemctl show flash --property MainPID --value)/status");
    assert!(rights.contains("CapEff:\t0000000000000000\n"), "{rights}");
    // No client is refused while the server restarts.
    let mut clients = systemd.command(&format!("{FETCH}/?[1-300] --no-keepalive --rate 100/s"));
    let mut clients = clients.stdout(Stdio::piped()).spawn().unwrap();
    systemd.succeed("systemctl restart flash && systemctl restart flash");
    let mut answers = String::new();
    clients.stdout.take().unwrap().read_to_string(&mut answers).unwrap();
    assert!(clients.wait().unwrap().success(), "{}", systemd.said());
    let others = answers.replace("hello\n", "");
    assert_eq!((answers.matches("hello\n").count(), &*others), (300, ""), "{}", systemd.said());
}

#[test]
fn logs_are_rotated_and_no_line_is_lost() {
    const REQUESTS: usize = 3000;
    let Some(systemd) = systemd() else { return };
    systemd.serve(&format!(
        "{SITE}access-log = \"/var/log/flash/access.log\"\nerror-log = \"/var/log/flash/error.log\"\n"
    ));
    let mut clients = systemd.command(&format!("{FETCH}/?[1-{REQUESTS}] --rate 1000/s"));
    let mut clients = clients.stdout(Stdio::null()).spawn().unwrap();
    // The shipped file keeps 14 old logs.
    for rotation in 1..=8 {
        thread::sleep(Duration::from_millis(250));
        assert!(clients.try_wait().unwrap().is_none(), "requests come during rotation {rotation}");
        systemd.succeed("logrotate --force --state /run/rotated /etc/logrotate.d/flash");
    }
    assert!(clients.wait().unwrap().success());
    systemd.succeed("systemctl stop flash");
    let lines = systemd.succeed("zcat --force /var/log/flash/access.log*");
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    for line in lines.lines() {
        let number = line.split("GET /?").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        *seen.entry(number.parse().unwrap()).or_default() += 1;
    }
    assert_eq!(seen.len(), REQUESTS);
    assert!(seen.values().all(|&count| count == 1));
    let files = systemd.succeed("stat --format '%n %a %U %G' /var/log/flash/*");
    assert!(files.lines().all(|line| line.ends_with(" 640 flash adm")), "{files}");
    assert!(files.contains("access.log.2.gz "), "{files}");
}

/// The scripts of both packages, as dpkg and rpm run them after the new files are there.
#[test]
fn a_newer_package_takes_the_place_of_the_server_and_cuts_no_download() {
    const BYTES: usize = 20_000_000;
    let Some(systemd) = systemd() else { return };
    let packages = systemd::deploy().join("../packages");
    let postinst = fs::read_to_string(packages.join("debian/postinst")).unwrap();
    let manifest = fs::read_to_string(packages.join("../../crates/flash/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let of_rpm = |name: &str| {
        let script = &manifest["package"]["metadata"]["generate-rpm"][name];
        script.as_str().expect("a script").to_owned()
    };
    let scripts = [("postinst", postinst)].into_iter().chain(
        ["post_install_script", "pre_uninstall_script", "post_uninstall_script"]
            .map(|name| (name, of_rpm(name))),
    );
    scripts.for_each(|(name, script)| systemd.write(&format!("/run/{name}"), &script));
    // The numbers say how many versions are installed then.
    let of_rpm =
        "sh /run/post_install_script 2 && sh /run/pre_uninstall_script 1 && sh /run/post_uninstall_script 1";
    systemd.succeed(&format!("truncate --size {BYTES} /srv/www/large"));
    systemd.serve(&format!("{SITE}drain = \"1ms\"\n"));
    let main = || systemd.succeed("systemctl show --property MainPID --value flash");
    for upgrade in ["sh /run/postinst configure 0.1.0-1", of_rpm] {
        let before = main();
        let got = systemd.succeed(&format!(
            "bash -c 'exec 3<>/dev/tcp/127.0.0.1/80; printf \"GET /large HTTP/1.0\\r\\n\\r\\n\" >&3; head -c 1 <&3 >/dev/null; \
             {{ {upgrade}; }} >/dev/null; wc -c <&3'"
        ));
        assert!(got.trim().parse::<usize>().is_ok_and(|got| got > BYTES), "{got}: {}", systemd.said());
        assert_ne!(main(), before, "{upgrade}");
        systemd.succeed(&format!("{FETCH}/"));
    }
    // One that does not run is not started.
    systemd.succeed("systemctl stop flash");
    for upgrade in ["sh /run/postinst configure 0.1.0-1", of_rpm] {
        systemd.succeed(upgrade);
        assert!(!systemd.run("systemctl is-active flash").status.success(), "{upgrade}");
    }
    // A removal ends it for good.
    systemd.succeed("systemctl enable --now flash");
    systemd.succeed("sh /run/pre_uninstall_script 0");
    assert!(!systemd.run("systemctl is-active flash").status.success());
    assert!(!systemd.run("systemctl is-enabled flash").status.success());
}
