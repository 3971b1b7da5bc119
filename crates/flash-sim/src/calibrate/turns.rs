//! What it takes to turn from one thread or process to another on one processor, and to look something up under a lock.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use flash_rig::Cpus;

const TURNS: u32 = 20_000;
const LOOK_UPS: u32 = 1_000_000;
/// As many as the pathname cache has.
const NAMES: u32 = 6_000;

/// Microseconds for turning from one thread to another.
///
/// A byte goes there and back through two pipes; what writing and reading it takes without anybody turning is taken off.
pub(crate) fn thread_switch_us(cpus: &Cpus) -> Result<f64> {
    cpus.on_server(|| -> Result<f64> {
        let (their_input, mut there) = pipe()?;
        let (mut back, their_output) = pipe()?;
        let other = thread::spawn(move || echo(their_input, their_output));
        let us = turns_us(&mut there, &mut back)?;
        drop(there);
        other.join().expect("an echo does not panic")?;
        Ok(us - pipe_us()?)
    })?
}

/// The same for processes: the other one is cat(1), which does nothing else.
pub(crate) fn process_switch_us(cpus: &Cpus) -> Result<f64> {
    cpus.on_server(|| -> Result<f64> {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let cat = cat.as_mut().map_err(|error| anyhow::anyhow!("starting cat: {error}"))?;
        let mut there = cat.stdin.take().context("it is piped")?;
        let mut back = cat.stdout.take().context("it is piped")?;
        let us = turns_us(&mut there, &mut back);
        drop(there);
        cat.wait()?;
        Ok(us? - pipe_us()?)
    })?
}

/// Microseconds a look-up, for one thread alone and for two that do nothing else, on two processors.
pub(crate) fn look_up_us(cpus: &Cpus) -> Result<(f64, f64)> {
    let names: Vec<String> = (0..NAMES).map(|n| format!("/{:04}/{n:06}.html", n % 12)).collect();
    let table: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let table = Mutex::new(table);
    let look_up = || {
        let begun = Instant::now();
        for n in 0..LOOK_UPS {
            // In an order in which neighbours do not lie together.
            let name = &*names[(n.wrapping_mul(2_654_435_761) % NAMES) as usize];
            let table = table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            black_box(table.get(black_box(name)));
        }
        begun.elapsed().as_secs_f64() * 1e6 / f64::from(LOOK_UPS)
    };
    let alone = cpus.on_server(look_up)?;
    let contended = thread::scope(|scope| -> Result<f64> {
        let other = scope.spawn(|| cpus.on_clients(look_up));
        let ours = cpus.on_server(look_up)?;
        let theirs = other.join().expect("looking up does not panic")?;
        Ok((ours + theirs) / 2.0)
    })?;
    Ok((alone, contended))
}

/// Half a round.
fn turns_us(there: &mut impl Write, back: &mut impl Read) -> Result<f64> {
    let mut byte = [0];
    let begun = Instant::now();
    for _ in 0..TURNS {
        there.write_all(&byte)?;
        back.read_exact(&mut byte)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(TURNS) / 2.0)
}

/// Writing a byte into a pipe and reading it again.
fn pipe_us() -> Result<f64> {
    let (mut back, mut there) = pipe()?;
    Ok(turns_us(&mut there, &mut back)? * 2.0)
}

fn echo(mut input: PipeReader, mut output: PipeWriter) -> Result<()> {
    let mut byte = [0];
    while input.read(&mut byte)? > 0 {
        output.write_all(&byte)?;
    }
    Ok(())
}
