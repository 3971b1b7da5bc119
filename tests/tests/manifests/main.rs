//! The manifests for Kubernetes: against its schemas, against each other, and the pod's processes with the pod's rights.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::PATIENCE;
use flash_tests::systemd::{self, Systemd};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes").canonicalize().unwrap()
}

/// What `cargo xtask prepare` has fetched.
fn tools() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).expect("target/PROFILE/deps/test").join("tools")
}

/// Documents as values, and the errors that the validator prints.
fn validate(files: &[PathBuf]) -> (Vec<Value>, String) {
    let schemas = tools().join("kubernetes/kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict");
    assert!(schemas.exists(), "{} is missing: run cargo xtask prepare", schemas.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests/validate.py");
    let mut command = Command::new("/usr/bin/python3");
    let output = command.arg(script).arg(schemas).arg(tools().join("crds")).args(files).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), errors.is_empty(), "{errors}");
    let documents = String::from_utf8(output.stdout).unwrap();
    (documents.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), errors)
}

fn manifests() -> Vec<Value> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|found| found == "yaml")).collect();
    files.sort();
    let (documents, errors) = validate(&files);
    assert!(errors.is_empty(), "{errors}");
    documents
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

#[test]
fn manifests_are_what_kubernetes_takes_and_fit_each_other() {
    let documents = manifests();
    let [deployment] = of_kind(&documents, "Deployment")[..] else { panic!("one Deployment") };
    let [configuration] = of_kind(&documents, "ConfigMap")[..] else { panic!("one ConfigMap") };
    let [monitor] = of_kind(&documents, "ServiceMonitor")[..] else { panic!("one ServiceMonitor") };
    let [budget] = of_kind(&documents, "PodDisruptionBudget")[..] else { panic!("one PodDisruptionBudget") };
    let pod = &deployment["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    let services = of_kind(&documents, "Service");
    for service in &services {
        assert_eq!(&service["spec"]["selector"], labels);
        for port in service["spec"]["ports"].as_array().unwrap() {
            assert!(ports.iter().any(|of| of["name"] == port["targetPort"]), "{port}");
        }
    }
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
    let found: Vec<_> = services
        .iter()
        .filter(|service| wanted.iter().all(|(name, value)| &service["metadata"]["labels"][name] == value))
        .collect();
    assert_eq!(found.len(), 1, "Prometheus asks each pod once");
    let port = &monitor["spec"]["endpoints"][0]["port"];
    assert!(found[0]["spec"]["ports"].as_array().unwrap().iter().any(|of| &of["name"] == port));
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    assert!(volumes.iter().any(|volume| volume["configMap"]["name"] == configuration["metadata"]["name"]));
    for container in pod["spec"]["containers"].as_array().unwrap() {
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount}");
        }
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            let port = &container[probe]["httpGet"]["port"];
            assert!(port.is_null() || ports.iter().any(|of| &of["name"] == port), "{probe}");
        }
        // The profile "restricted" of the Pod Security Standards.
        let rights = &container["securityContext"];
        assert_eq!(rights["allowPrivilegeEscalation"], false);
        assert_eq!(rights["readOnlyRootFilesystem"], true);
        assert_eq!(rights["capabilities"]["drop"][0], "ALL");
    }
    let rights = &pod["spec"]["securityContext"];
    assert!(rights["runAsNonRoot"] == true && rights["seccompProfile"]["type"] == "RuntimeDefault");
}

#[test]
fn the_validator_finds_what_is_wrong() {
    let work = tempfile::tempdir().unwrap();
    for (file, right, wrong, word) in [
        ("deployment.yaml", "periodSeconds", "periodSecond", "periodSecond"),
        ("deployment.yaml", "seconds: 5", "seconds: five", "'five' is not of type 'integer'"),
        ("servicemonitor.yaml", "interval", "intervall", "intervall"),
    ] {
        let text = fs::read_to_string(folder().join(file)).unwrap();
        assert!(text.contains(right), "{file}: {right}");
        let path = work.path().join(file);
        fs::write(&path, text.replace(right, wrong)).unwrap();
        let (_, errors) = validate(&[path]);
        assert!(errors.contains(word), "{file}: {errors}");
    }
}

/// A unit with the rights of a container: its user, a root that is read-only, no capability.
fn unit(container: &Value, pod: &Value) -> String {
    let words = container["command"].as_array().unwrap().iter();
    let command: Vec<_> = words.map(|word| word.as_str().unwrap()).collect();
    let user = pod["securityContext"]["runAsUser"].as_i64().unwrap();
    let volumes = pod["volumes"].as_array().unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap().iter();
    let writable: Vec<_> = mounts
        .filter(|mount| {
            volumes.iter().any(|volume| volume["name"] == mount["name"] && volume["emptyDir"].is_object())
        })
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    format!(
        "[Service]\nExecStart={}\nUser={user}\nGroup={user}\nProtectSystem=strict\nReadWritePaths={}\nNoNewPrivileges=yes\n\
         CapabilityBoundingSet=\nStandardError=append:/run/pod-errors\nStandardOutput=append:/run/pod-output\n",
        command.join(" "),
        writable.join(" "),
    )
}

#[test]
fn the_pod_serves_with_its_rights_and_takes_a_changed_configuration() {
    if let Some(missing) = systemd::missing() {
        eprintln!("NOT TESTED, the pod's processes: {missing}");
        return;
    }
    let documents = manifests();
    let pod = &of_kind(&documents, "Deployment")[0]["spec"]["template"]["spec"];
    let text = of_kind(&documents, "ConfigMap")[0]["data"]["flash.toml"].as_str().unwrap();
    let systemd = Systemd::start();
    systemd.write("/srv/www/index.html", "hello\n");
    // As the kubelet mounts a ConfigMap: files lead through a folder that is replaced at once.
    systemd.write("/etc/flash/one/flash.toml", text);
    systemd.write("/etc/flash/two/flash.toml", &format!("{text}header = {{ \"X-Second\" = \"yes\" }}\n"));
    systemd.succeed("ln -s one /etc/flash/..data && ln -s ..data/flash.toml /etc/flash/flash.toml");
    systemd.succeed("flash check --config /etc/flash/flash.toml");
    let user = pod["securityContext"]["runAsUser"].as_i64().unwrap();
    // systemd knows users by their names only.
    systemd
        .succeed(&format!("echo 'u pod {user}' | systemd-sysusers - && install -d -o pod -g pod /run/flash"));
    for container in pod["containers"].as_array().unwrap() {
        let name = container["name"].as_str().unwrap();
        systemd.write(&format!("/etc/systemd/system/pod-{name}.service"), &unit(container, pod));
    }
    systemd.succeed("systemctl daemon-reload && systemctl start pod-flash pod-reload");
    let patiently = |words: &str, wanted: &str| {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let output = systemd.run(words);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if said.contains(wanted) {
                break;
            }
            let errors = fs::read_to_string(systemd.path("/run/pod-errors")).unwrap_or_default();
            assert!(Instant::now() < give_up, "{words}: {said}\n{errors}");
            thread::sleep(Duration::from_millis(100));
        }
    };
    let container = &pod["containers"][0];
    let port = |name: &str| {
        let ports = container["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == name).unwrap()["containerPort"].clone()
    };
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let probe = &container[probe]["httpGet"];
        let path = probe["path"].as_str().unwrap();
        patiently(
            &format!("curl --silent --fail http://127.0.0.1:{}{path}", port(probe["port"].as_str().unwrap())),
            "serving",
        );
    }
    let page = format!("curl --silent --include http://127.0.0.1:{}/", port("http"));
    patiently(&page, "hello\n");
    assert!(!systemd.succeed(&page).contains("X-Second"));
    systemd.succeed("ln -s two /etc/flash/..new && mv -T /etc/flash/..new /etc/flash/..data");
    patiently(&page, "X-Second: yes");
    systemd.succeed("systemctl stop pod-flash");
    let result = systemd.succeed("systemctl show pod-flash --property Result");
    assert_eq!(result, "Result=success\n");
}
