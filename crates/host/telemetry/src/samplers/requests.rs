//! The requests of file servers, from the sockets on which `iodyno serve fs --stats` reports its counters. Each has a
//! background thread that reads it, because a server may not respond.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_model::{REQUESTS, SeriesColumn, SeriesKind, SeriesRow};
use serde::Deserialize;

use super::background::BackgroundSampler;
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::Scope;

/// The longest wait of a sample. A server that has just started answers late, and a short trial would otherwise have no
/// data.
const WAIT: Duration = Duration::from_millis(100);
/// The longest document that is read, bytes.
const LONGEST: u64 = 1 << 20;
/// The row of all opcodes.
const ALL: &str = "all";

/// In the order of [`REQUESTS`].
type Values = [u64; 8];

/// The file servers below a target. Each is read separately: if one does not respond, its counts stay unchanged, and
/// the others are still read.
struct Requests {
    servers: Vec<Server>,
    missed: Vec<String>,
}

struct Server {
    socket: PathBuf,
    sampler: BackgroundSampler,
    /// The last ones.
    readings: Readings,
    /// Why the counts are stale.
    silent: Option<String>,
}

/// `None`: no server reports statistics.
pub(crate) fn open(scope: &Scope) -> Option<Box<dyn Sampler>> {
    match &scope.stats[..] {
        [] => None,
        sockets => Some(Box::new(Requests::of(sockets))),
    }
}

impl Requests {
    fn of(sockets: &[PathBuf]) -> Requests {
        let server = |socket: &PathBuf| Server {
            socket: socket.clone(),
            sampler: BackgroundSampler::with_wait(WAIT, Counters(socket.clone())),
            readings: Readings::default(),
            silent: None,
        };
        Requests {
            servers: sockets.iter().map(server).collect(),
            missed: Vec::new(),
        }
    }
}

impl Sampler for Requests {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Requests
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let mut fresh = false;
        for server in &mut self.servers {
            let why = match server.sampler.read(&mut server.readings) {
                Ok(read) => {
                    fresh |= read == Read::Fresh;
                    server.silent.take_if(|_| read == Read::Fresh);
                    continue;
                }
                Err(why) => why,
            };
            let shown = server.socket.display();
            let text = format!("cannot read the statistics at {shown}: {why}");
            if server.silent.as_ref() != Some(&text) {
                self.missed.push(text.clone());
                server.silent = Some(text);
            }
        }
        if !fresh {
            // The gap names the first reason.
            let silent = self.servers.iter().map(|server| server.silent.clone());
            return match silent.collect::<Option<Vec<String>>>() {
                Some(silent) => {
                    self.missed.clear();
                    Err(silent.into_iter().next().unwrap_or_default())
                }
                None => Ok(Read::Nothing),
            };
        }
        let mut sums: BTreeMap<&str, Values> = BTreeMap::new();
        for Server { readings, .. } in &self.servers {
            let values = readings.values.chunks_exact(REQUESTS.len());
            for (row, values) in readings.rows.iter().zip(values) {
                let known = std::array::from_fn(|at| values[at].unwrap_or_default());
                add(sums.entry(&row.name).or_default(), &known);
            }
        }
        let all = sums.remove(ALL).unwrap_or_default();
        fill(into, all, sums.into_iter());
        Ok(Read::Fresh)
    }

    fn missed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missed)
    }

    /// A server counts from its start.
    fn began_at(&self, _row: &SeriesRow, _column: &SeriesColumn) -> Option<u64> {
        Some(0)
    }

    fn background_cpu_ns(&mut self) -> u64 {
        let servers = self.servers.iter_mut();
        servers
            .map(|server| server.sampler.background_cpu_ns())
            .sum()
    }

    fn close(&mut self) {
        for server in &mut self.servers {
            server.sampler.close();
        }
    }
}

/// Adds the row of all opcodes, and one row per opcode without batches.
fn fill<'a>(into: &mut Readings, all: Values, opcodes: impl Iterator<Item = (&'a str, Values)>) {
    let mut fill = into.fill(REQUESTS);
    fill.row(|row| row.name == ALL, || SeriesRow::new(ALL), all.map(Some));
    for (name, values) in opcodes {
        let [counts @ .., _] = values;
        let values = counts.into_iter().map(Some).chain([None]);
        fill.row(|row| row.name == name, || SeriesRow::new(name), values);
    }
    fill.done();
}

/// The statistics of one server.
struct Counters(PathBuf);

#[derive(Deserialize)]
struct Document {
    batches: Batches,
    opcodes: Vec<Opcode>,
}

#[derive(Deserialize)]
struct Batches {
    count: u64,
}

#[derive(Deserialize)]
struct Opcode {
    opcode: String,
    count: u64,
    inline: u64,
    transferred: u64,
    failed: u64,
    bytes: u64,
    queueing: Time,
    service: Time,
}

#[derive(Deserialize)]
struct Time {
    total_ns: u64,
}

impl Sampler for Counters {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Requests
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let document = document(&self.0).map_err(|error| error.to_string())?;
        let mut all: Values = [0; 8];
        all[7] = document.batches.count;
        let mut opcodes: BTreeMap<&str, Values> = BTreeMap::new();
        for of in &document.opcodes {
            let values = [
                of.count,
                of.inline,
                of.transferred,
                of.failed,
                of.bytes,
                of.queueing.total_ns,
                of.service.total_ns,
                0,
            ];
            add(&mut all, &values);
            add(opcodes.entry(&of.opcode).or_default(), &values);
        }
        fill(into, all, opcodes.into_iter());
        Ok(Read::Fresh)
    }
}

fn add(sum: &mut Values, values: &Values) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum = sum.saturating_add(*value);
    }
}

fn document(socket: &Path) -> io::Result<Document> {
    let mut text = String::new();
    let stream = iodyno_sys::socket::connect(socket)?;
    stream.take(LONGEST).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn counted(opcodes: &[(&str, u64)], batches: u64) -> String {
        let opcodes = opcodes.iter().map(|(name, count)| {
            let (bytes, service) = (count * 4096, count * 1000);
            format!(
                r#"{{"opcode": "{name}", "number": 1, "count": {count}, "inline": 2, "transferred": 1, "failed": 0, "bytes": {bytes},
                "queueing": {{"total_ns": 7}}, "service": {{"total_ns": {service}, "p50_ns": 3}}}}"#
            )
        });
        let opcodes: Vec<String> = opcodes.collect();
        format!(
            r#"{{"schema": 1, "batches": {{"count": {batches}, "mean": 2.0}}, "opcodes": [{}]}}"#,
            opcodes.join(", ")
        )
    }

    /// Ends a test that hangs.
    const WATCHDOG: Duration = Duration::from_secs(120);

    /// Servers with this answer to each connection, and their sockets. Without an answer, a server accepts no
    /// connection.
    fn servers(folder: &Path, texts: &[&str]) -> (Vec<PathBuf>, Vec<UnixListener>) {
        let mut sockets = Vec::new();
        let mut silent = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let socket = folder.join(number.to_string());
            let listener = UnixListener::bind(&socket).unwrap();
            sockets.push(socket);
            let text = (*text).to_owned();
            match text.is_empty() {
                true => silent.push(listener),
                false => drop(std::thread::spawn(move || {
                    for stream in listener.incoming() {
                        let _ = stream.unwrap().write_all(text.as_bytes());
                    }
                })),
            }
        }
        (sockets, silent)
    }

    /// Reads until the result is the expected one.
    fn until(
        requests: &mut Requests,
        expected: impl Fn(&Result<Read, String>, &Readings) -> bool,
    ) -> (Option<String>, Readings) {
        let begun = std::time::Instant::now();
        let mut readings = Readings::default();
        loop {
            let read = requests.read(&mut readings);
            if expected(&read, &readings) {
                return (read.err(), readings);
            }
            assert!(begun.elapsed() < WATCHDOG, "{read:?} {readings:?}");
        }
    }

    #[test]
    fn requests_are_added_by_opcode_over_all_servers() {
        let one = counted(&[("WRITE", 10), ("READ", 3)], 4);
        let other = counted(&[("READ", 5)], 1);
        let folder = tempfile::tempdir().unwrap();
        let (sockets, _) = servers(folder.path(), &[&one, &other]);
        let both = |readings: &Readings| readings.values.first() == Some(&Some(18));
        let mut requests = Requests::of(&sockets);
        let (_, readings) = until(&mut requests, |_, readings| both(readings));
        let names: Vec<&str> = readings.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["all", "READ", "WRITE"]);
        let known = |row: usize| {
            let values = readings.values[row * 8..][..8].iter();
            values.map(|value| value.map_or(-1, |value| value as i64))
        };
        let rows: Vec<Vec<i64>> = (0..3).map(|row| known(row).collect()).collect();
        assert_eq!(
            rows,
            [
                [18, 6, 3, 0, 18 * 4096, 21, 18_000, 5],
                [8, 4, 2, 0, 8 * 4096, 14, 8000, -1],
                [10, 2, 1, 0, 10 * 4096, 7, 10_000, -1],
            ]
        );
    }

    #[test]
    fn a_server_that_hangs_is_reported_and_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let text = counted(&[("READ", 5)], 1);
        for texts in [["", &text], [&text, ""]] {
            let folder = tempfile::tempdir_in(folder.path()).unwrap();
            let (sockets, _silent) = servers(folder.path(), &texts);
            let mut requests = Requests::of(&sockets);
            let (_, readings) = until(&mut requests, |read, _| *read == Ok(Read::Fresh));
            assert_eq!(readings.rows.len(), 2);
            assert_eq!(readings.values[0], Some(5));
            let mut missed = Vec::new();
            let begun = std::time::Instant::now();
            while missed.is_empty() {
                until(&mut requests, |read, _| *read == Ok(Read::Fresh));
                missed = requests.missed();
                assert!(begun.elapsed() < WATCHDOG);
            }
            let hung = &sockets[texts.iter().position(|text| text.is_empty()).unwrap()];
            assert_eq!(
                missed,
                [format!(
                    "cannot read the statistics at {}: does not respond",
                    hung.display()
                )]
            );
            // It is reported once.
            until(&mut requests, |read, _| *read == Ok(Read::Fresh));
            assert!(requests.missed().is_empty());
        }
    }

    #[test]
    fn servers_that_tell_nothing_are_an_error_with_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let (sockets, _) = servers(folder.path(), &["{}"]);
        let mut requests = Requests::of(&sockets);
        let (read, _) = until(&mut requests, |read, _| read.is_err());
        let error = read.unwrap();
        assert!(
            error.starts_with("cannot read the statistics at /"),
            "{error}"
        );
        assert!(error.contains("missing field"), "{error}");
        assert!(requests.missed().is_empty());
        let mut gone = Requests::of(&[PathBuf::from("/nonexistent/share.stats")]);
        let (read, _) = until(&mut gone, |read, _| read.is_err());
        let error = read.unwrap();
        assert!(
            error.contains("/nonexistent/share.stats: No such file"),
            "{error}"
        );
    }
}
