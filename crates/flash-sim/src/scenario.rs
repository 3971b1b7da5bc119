//! One run as people describe it: a parameter file, settings on top of it, and what clients ask for.
//!
//! A scenario is the library's [`Parameters`] with a `[workload]` beside them. Settings are `KEY=VALUE`, the key a path into
//! the file: `machine.processors=16`.

use flash_sim::Parameters;
use flash_sim::parameters::{Architecture, Costs, Machine, Memory, Run, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::keys::Keys;
use crate::workload::Source;
use flash_cli::Failure;

/// Everything that a run depends on. The fields are those of [`Parameters`]; unknown ones are refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Scenario {
    /// What serves.
    pub architecture: Architecture,
    pub machine: Machine,
    pub server: Server,
    pub costs: Costs,
    pub memory: Memory,
    pub run: Run,
    pub workload: Source,
}

impl Scenario {
    /// What a parameter file may set.
    pub(crate) fn keys() -> Keys {
        Keys::of(&Scenario::default())
    }

    /// What the library simulates.
    pub(crate) fn parameters(&self) -> Parameters {
        Parameters {
            architecture: self.architecture,
            machine: self.machine.clone(),
            server: self.server.clone(),
            costs: self.costs.clone(),
            memory: self.memory.clone(),
            run: self.run.clone(),
        }
    }
}

/// A parameter file with settings being laid over it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    table: Table,
}

impl Draft {
    /// Reads a file's text; `name` is for messages.
    pub(crate) fn read(name: &str, text: &str) -> Result<Draft, Failure> {
        let refused = |error: toml::de::Error, why: String| Failure::Usage(located(name, text, &error, &why));
        // Once as it is, to be changed, and once for what it means, so that errors know their line.
        let table = text.parse().map_err(|error: toml::de::Error| {
            let why = error.message().replace('\n', " ");
            refused(error, why)
        })?;
        match toml::from_str::<Scenario>(text) {
            Ok(_) => Ok(Draft { table }),
            Err(error) => {
                let why = what_is_wrong(&error, &table);
                Err(refused(error, why))
            }
        }
    }

    /// The scenario with settings on top. Some make sense only together, so that all are laid on before any is blamed.
    pub(crate) fn with(&self, settings: &[Setting]) -> Result<Scenario, Failure> {
        let scenario = |settings: &[Setting]| {
            let mut table = self.table.clone();
            for setting in settings {
                setting.lay_on(&mut table).map_err(|why| (format!("{setting}: "), why))?;
            }
            let scenario = table.clone().try_into::<Scenario>();
            scenario.map_err(|error| (String::new(), what_is_wrong(&error, &table)))
        };
        scenario(settings).map_err(|(place, why)| {
            // The first setting that brings the message about is the one to name.
            let blamed = (0..=settings.len())
                .find(|&count| scenario(&settings[..count]).is_err_and(|(_, earlier)| earlier == why));
            let place = match blamed.and_then(|count| settings.get(count.checked_sub(1)?)) {
                Some(setting) if place.is_empty() => format!("{setting}: "),
                _ => place,
            };
            Failure::Usage(format!("{place}{why}"))
        })
    }
}

impl From<&Scenario> for Draft {
    fn from(scenario: &Scenario) -> Draft {
        let table = Table::try_from(scenario).expect("a scenario has the shape of a file");
        Draft { table }
    }
}

/// `KEY=VALUE`. The value is TOML, or else text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub key: String,
    pub text: String,
}

impl Setting {
    pub(crate) fn parse(text: &str) -> Result<Setting, String> {
        match text.split_once('=') {
            Some((key, value))
                if !key.is_empty() && !value.is_empty() && !key.split('.').any(str::is_empty) =>
            {
                Ok(Setting { key: key.into(), text: value.into() })
            }
            _ => Err("expected KEY=VALUE, such as machine.processors=16".into()),
        }
    }

    fn lay_on(&self, table: &mut Table) -> Result<(), String> {
        // A workload is of one kind: another one takes the place of what was there.
        if let (Some(kind), Some(Value::Table(kinds))) =
            (self.key.strip_prefix("workload."), table.get_mut("workload"))
        {
            kinds.retain(|key, _| kind.split('.').next() == Some(key));
        }
        let (path, last) = self.key.rsplit_once('.').unwrap_or(("", &self.key));
        let mut table = table;
        for part in path.split('.').filter(|part| !part.is_empty()) {
            let below = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            table = below.as_table_mut().ok_or("it lies below something that has a value")?;
        }
        table.insert(last.to_owned(), self.value());
        Ok(())
    }

    fn value(&self) -> Value {
        let parsed = format!("value = {}", self.text).parse::<Table>().ok();
        parsed.and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(self.text.clone()))
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.text)
    }
}

/// What does not fit: a key that does not exist, with the nearest one, or what was expected of a value.
fn what_is_wrong(error: &toml::de::Error, table: &Table) -> String {
    Scenario::keys().unknown(table, error.message()).unwrap_or_else(|| error.message().replace('\n', " "))
}

/// What is wrong with a file, on one line: where, what stands there, and why. Keys end in their unit.
fn located(name: &str, text: &str, error: &toml::de::Error, why: &str) -> String {
    let Some(span) = error.span() else { return format!("{name}: {why}") };
    let before = text.get(..span.start).unwrap_or_default();
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    format!("{name}, line {number}: '{line}': {why}")
}

#[cfg(test)]
mod tests;
