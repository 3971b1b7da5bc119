//! What a server tells of itself, as JSON.

use serde_json::{Map, Value, json};

/// The state of a server.
pub(crate) struct Status {
    /// The process to send signals to.
    pub(crate) pid: u32,
    /// The number of the configuration that new requests get.
    pub(crate) generation: u64,
    /// The numbers of all configurations that requests hold.
    pub(crate) generations_in_use: Vec<u64>,
    pub(crate) is_draining: bool,
    /// Open connections. `None` if they are not counted here.
    pub(crate) connections: Option<usize>,
    /// `requests=1 connections=2`: totals since the start.
    pub(crate) counters: String,
    /// A line of the same form for each loop, with its name before it.
    pub(crate) loops: Vec<String>,
}

impl Status {
    pub(super) fn json(&self) -> String {
        let loops: Vec<Value> = self.loops.iter().map(|line| of_loop(line)).collect();
        let status = json!({
            "pid": self.pid,
            "version": env!("CARGO_PKG_VERSION"),
            "generation": self.generation,
            "generations_in_use": self.generations_in_use,
            "draining": self.is_draining,
            "open_connections": self.connections,
            "totals": pairs(&self.counters),
            "loops": loops,
        });
        format!("{status:#}\n")
    }
}

/// `NAME: turns=1`, and so on.
fn of_loop(line: &str) -> Value {
    let (name, line) = line.split_once(": ").unwrap_or(("", line));
    let mut pairs = pairs(line);
    pairs.insert("name".into(), name.into());
    pairs.into()
}

/// The pairs of a log line. Values are numbers, or else texts.
fn pairs(line: &str) -> Map<String, Value> {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let value = value.parse::<u64>().map_or_else(|_| value.into(), Value::from);
        Some((name.to_owned(), value))
    };
    line.split_whitespace().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_become_objects() {
        let status = Status {
            pid: 7,
            generation: 3,
            generations_in_use: vec![2, 3],
            is_draining: false,
            connections: Some(1),
            counters: "requests=5 shed=0".into(),
            loops: vec!["loop-0: turns=7 ready=1:2".into()],
        };
        let value: Value = serde_json::from_str(&status.json()).unwrap();
        assert_eq!(value["generations_in_use"], json!([2, 3]));
        assert_eq!((&value["totals"]["requests"], &value["pid"]), (&json!(5), &json!(7)));
        assert_eq!(value["loops"][0], json!({ "name": "loop-0", "turns": 7, "ready": "1:2" }));
    }
}
