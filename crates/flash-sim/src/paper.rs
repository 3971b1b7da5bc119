//! `flash sim paper`: the PIPELINED paper's tables and figures, run again, and what became of its claims.
//!
//! Each exhibit is a file of its own below; this one says which there are, has their runs done together, and writes them.

mod claims;
mod exhibit;
mod made;
mod overhead;
mod panel;
mod results;
mod table;
mod traces;

use std::path::Path;

use flash_figure::Figure;

use self::exhibit::EXHIBITS;
pub(crate) use self::exhibit::Exhibit;
use self::made::Made;
use self::panel::{Cell, Effort, PANELS};
use self::results::Results;
use self::table::Table;
use crate::flags;
use crate::output;
use crate::runner::Runner;
use crate::scenario::Scenario;
use flash_cli::Failure;

/// Runs and writes what was asked for; everything, if nothing was.
pub(crate) fn run(flags: &flags::Paper) -> Result<(), Failure> {
    let wanted: &[Exhibit] = if flags.exhibits.is_empty() { &EXHIBITS } else { &flags.exhibits };
    let wants = |exhibit| wanted.contains(&exhibit);
    let effort = if flags.quick { Effort::Quick } else { Effort::Full };
    let made = Made::new(effort, &flags.settings)?;
    let runner = Runner::new(flags.jobs.jobs)?;
    let out = output::folder(&flags.out)?;

    if wants(Exhibit::Table(1)) {
        write_table(&out, &overhead::table1(made.said_of_formulas()))?;
    }
    if wants(Exhibit::Table(4)) {
        write_table(&out, &traces::table4(made.said_of_formulas()))?;
    }
    if wants(Exhibit::Table(5)) {
        write_table(&out, &traces::table5(&runner, effort, &made)?)?;
    }
    if wants(Exhibit::Figure(2)) {
        write_figures(&out, overhead::figure2(&made.said_of_formulas()))?;
    }
    if wants(Exhibit::Figure(3)) {
        write_figures(&out, overhead::figure3(&made.said_of_formulas()))?;
    }

    let panels = PANELS.iter().filter(|panel| wants(Exhibit::Figure(panel.figure)));
    let cells: Vec<Cell> = panels.clone().flat_map(|panel| panel.cells(effort, made.scenario())).collect();
    let scenarios: Vec<Scenario> = cells.iter().map(|cell| cell.scenario.clone()).collect();
    let outcomes = runner.run_all("figures", &scenarios, |_, outcome| Ok(outcome))?;
    let results = Results::new(cells, outcomes);
    write_figures(&out, panels.map(|panel| (panel.name.to_owned(), results.figure(panel, &made.said()))))?;
    claims::write(&out, &results, wanted, &made)
}

fn write_table(out: &Path, table: &Table) -> Result<(), Failure> {
    output::write(&out.join(format!("{}.md", table.name)), &table.markdown())?;
    output::write(&out.join(format!("{}.csv", table.name)), &table.csv())?;
    output::write(&out.join(format!("{}.json", table.name)), &table.json())
}

fn write_figures(out: &Path, figures: impl IntoIterator<Item = (String, Figure)>) -> Result<(), Failure> {
    for (name, figure) in figures {
        output::write(&out.join(format!("{name}.svg")), &figure.svg())?;
        output::write(&out.join(format!("{name}.csv")), &figure.csv())?;
        output::write(&out.join(format!("{name}.json")), &figure.json())?;
    }
    Ok(())
}
