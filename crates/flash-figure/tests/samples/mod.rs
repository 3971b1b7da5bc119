//! Figures of every kind, from synthetic numbers.

use flash_figure::{Axis, Figure, Series};

pub(crate) fn all() -> Vec<(&'static str, Figure)> {
    vec![
        ("bandwidth", bandwidth()),
        ("hot-wait", hot_wait()),
        ("distribution", distribution()),
        ("histogram", histogram()),
        ("connections", connections()),
        ("traces", traces()),
        ("memory", memory()),
        ("waits-by-server", waits()),
        ("many", many()),
        ("odd", odd()),
        (
            "empty",
            Figure::lines("Nothing yet", Axis::linear("clients", ""), Axis::linear("throughput", "/s")),
        ),
        ("empty-bars", Figure::bars("No bars", ["a", "b"], Axis::linear("throughput", "/s"))),
        ("one", one()),
    ]
}

const SERVERS: [(&str, f64); 8] = [
    ("amped", 1.0),
    ("uring", 1.02),
    ("sped", 1.03),
    ("pipelined", 0.82),
    ("mt", 0.93),
    ("mp", 0.88),
    ("nginx", 0.97),
    ("apache", 0.4),
];

fn bandwidth() -> Figure {
    let mut figure = Figure::lines(
        "One cached file, asked for again and again",
        Axis::linear("file size", "KB"),
        Axis::linear("bandwidth", "Mb/s"),
    )
    .about("Bandwidth rises with the size of the file. The architectures differ little; Apache needs twice the time.");
    for (name, factor) in SERVERS {
        let mut series = Series::new(name);
        for size in [1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 150.0, 200.0f64] {
            let y = factor * 9000.0 * size / (size + 22.0);
            series = series.spread(size, y, y * 0.96, y * 1.03);
        }
        figure = figure.with(series);
    }
    figure.with(Series::reference("AMPED, 1999").point(1.0, 300.0).point(50.0, 2100.0).point(200.0, 2600.0))
}

fn hot_wait() -> Figure {
    let mut figure = Figure::lines(
        "How long a hot file waits while cold ones are fetched",
        Axis::log("cold clients", ""),
        Axis::log("99th percentile of the wait", "s"),
    )
    .about("Event loops that wait for the disk keep the hot file for seconds.");
    for (name, factor) in
        [("amped", 0.5), ("uring", 0.4), ("sped", 60.0), ("mt", 900.0), ("nginx", 300.0), ("floor", 0.2)]
    {
        let mut series = Series::new(name);
        for clients in [1.0, 4.0, 16.0, 64.0, 256.0f64] {
            let y = 1e-3 * (factor * clients.powf(if factor > 1.0 { 0.6 } else { 0.1 }));
            series = series.spread(clients, y, y / 1.8, y * 1.7);
        }
        figure = figure.with(series);
    }
    figure
}

fn distribution() -> Figure {
    let samples = |mean: f64, spread: f64| {
        (1..2000).map(move |n| {
            let u = f64::from(n) / 2000.0;
            mean * ((u / (1.0 - u)).ln() * spread).exp()
        })
    };
    Figure::lines("Response times", Axis::log("response time", "s"), Axis::linear("share of responses", "%"))
        .about("Half of the responses take less than a millisecond with amped, and sixty with sped.")
        .with(Series::cumulative("amped", samples(0.8e-3, 0.5)))
        .with(Series::cumulative("sped", samples(60e-3, 0.7)))
        .with(Series::cumulative("apache", samples(7e-3, 1.1)))
}

fn histogram() -> Figure {
    let edges: Vec<f64> = (0..=20).map(f64::from).collect();
    let counts = |middle: f64| {
        (0..20)
            .map(move |n| (1000.0 * (-(f64::from(n) - middle).powi(2) / 8.0).exp()) as u64)
            .collect::<Vec<_>>()
    };
    Figure::lines(
        "Ready events a turn",
        Axis::linear("ready events", ""),
        Axis::linear("share of turns", "%"),
    )
    .with(Series::histogram("amped", &edges, &counts(2.0)))
    .with(Series::histogram("sped", &edges, &counts(11.0)))
}

fn connections() -> Figure {
    let mut figure = Figure::lines(
        "Persistent connections, and what they cost",
        Axis::linear("connections", ""),
        Axis::linear("requests a second", "/s"),
    );
    for (name, factor) in [("amped", 0.0), ("mt", 0.35), ("mp", 0.7)] {
        let mut series = Series::new(name);
        for n in 0..=50 {
            let clients = f64::from(n * 10);
            let y = 1.4e6 * (1.0 - factor * clients / 700.0) * (1.0 - (-(clients + 5.0) / 30.0).exp());
            series = series.spread(clients, y, y * 0.93, y * 1.05);
        }
        figure = figure.with(series);
    }
    figure
}

fn traces() -> Figure {
    let mut figure = Figure::bars(
        "Two real traces",
        ["WorldCup98, 110 MB", "Penn State CSE"],
        Axis::linear("bandwidth", "Mb/s"),
    );
    for (name, factor) in SERVERS {
        let y = 6000.0 * factor;
        figure = figure.with(Series::new(name).spread(0.0, y, y * 0.9, y * 1.05).spread(
            1.0,
            y / 3.0,
            y / 4.0,
            y / 2.5,
        ));
    }
    figure.with(Series::reference("Flash, 1999").point(0.0, 2400.0).point(1.0, 1100.0))
}

fn memory() -> Figure {
    let names = ["amped", "uring", "nginx", "h2o", "lighttpd", "caddy"];
    let mut series = Series::new("memory");
    for (at, bytes) in [412.0, 540.0, 527.0, 1057.0, 3991.0, 23915.0].into_iter().enumerate() {
        series = series.point(at as f64, bytes);
    }
    Figure::bars("Memory of an idle connection", names, Axis::linear("memory", "B")).with(series)
}

fn waits() -> Figure {
    let mut figure =
        Figure::bars("The hot file's wait", ["median", "99th percentile"], Axis::log("wait", "s"));
    for (name, median, tail) in
        [("amped", 15e-5, 9.2e-3), ("sped", 22e-3, 1.45), ("nginx", 2.9, 5.5), ("mp", 8.0, 15.8)]
    {
        let series = Series::new(name).spread(0.0, median, median / 1.5, median * 1.5);
        figure = figure.with(series.spread(1.0, tail, tail / 2.0, tail * 1.2));
        if name == "sped" {
            figure = figure.with(Series::reference("sped, 1999").point(0.0, median * 2.0));
        }
    }
    figure
}

fn many() -> Figure {
    let mut figure = Figure::lines(
        "Many that are alike",
        Axis::linear("processors", ""),
        Axis::linear("throughput", "/s"),
    );
    for n in 0..12 {
        let mut series = Series::new(format!("caches {n:04b}"));
        for processors in 1..=16 {
            series = series.point(f64::from(processors), f64::from(processors) * (100.0 + f64::from(n)));
        }
        figure = figure.with(series);
    }
    figure
}

fn odd() -> Figure {
    Figure::lines("Odd <names> & \"marks\", 名前", Axis::log("size", "B"), Axis::linear("below zero", "°C"))
        .about("Gaps & <tags>; nothing breaks.")
        .with(
            Series::new("a <b> & \"c\"")
                .point(1.0, -5.0)
                .point(10.0, f64::NAN)
                .point(1e3, 12.5)
                .point(1e9, -80.0),
        )
        .with(Series::new("zero").point(0.0, 1.0).point(100.0, 40.0))
        .with(Series::new("nothing"))
        .with(Series::new("infinite").point(5.0, f64::INFINITY))
}

fn one() -> Figure {
    Figure::lines("A single point", Axis::linear("clients", ""), Axis::linear("wait", "s"))
        .with(Series::new("amped").point(64.0, 0.000_15))
}
