//! The requests of file servers, from the sockets on which `iodyno serve fs --stats` tells what it counted. A background thread reads
//! them, because a server may not respond.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_model::{REQUESTS, SeriesKind, SeriesRow};
use serde::Deserialize;

use super::background::BackgroundSampler;
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::Scope;

/// The longest wait of a sample. A server that has just been started answers late, and without its first answer nothing is known of a short
/// trial.
const WAIT: Duration = Duration::from_millis(100);
/// The longest document that is read, bytes.
const LONGEST: u64 = 1 << 20;
/// The row of all opcodes.
const ALL: &str = "all";

/// In the order of [`REQUESTS`].
type Values = [u64; 8];

/// The file servers below a target.
struct Requests {
    sockets: Vec<PathBuf>,
}

/// `None`: no server tells what it counted.
pub(crate) fn open(scope: &Scope) -> Option<Box<dyn Sampler>> {
    let sockets = scope.stats.clone();
    let requests = (!sockets.is_empty()).then_some(Requests { sockets })?;
    // A server counts from its start.
    let sampler = BackgroundSampler::with_wait(WAIT, requests);
    Some(Box::new(sampler.beginning_at(0)))
}

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

impl Sampler for Requests {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Requests
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let mut all: Values = [0; 8];
        let mut opcodes: Vec<(String, Values)> = Vec::new();
        for socket in &self.sockets {
            let document = document(socket).map_err(|error| {
                format!(
                    "cannot read the statistics at {}: {error}",
                    socket.display()
                )
            })?;
            all[7] += document.batches.count;
            for of in document.opcodes {
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
                match opcodes.iter_mut().find(|(name, _)| *name == of.opcode) {
                    Some((_, sum)) => add(sum, &values),
                    None => opcodes.push((of.opcode, values)),
                }
            }
        }
        opcodes.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut fill = into.fill(REQUESTS);
        fill.row(|row| row.name == ALL, || SeriesRow::new(ALL), all.map(Some));
        for (name, values) in opcodes {
            let [counts @ .., _] = values;
            let values = counts.into_iter().map(Some).chain([None]);
            fill.row(|row| row.name == name, || SeriesRow::new(&name), values);
        }
        fill.done();
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
    let stream = UnixStream::connect(socket)?;
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

    /// Reads sockets at which servers tell this.
    fn told(servers: &[&str]) -> (Result<Read, String>, Readings) {
        let folder = tempfile::tempdir().unwrap();
        let mut sockets = Vec::new();
        let mut threads = Vec::new();
        for (number, text) in servers.iter().enumerate() {
            let socket = folder.path().join(number.to_string());
            let listener = UnixListener::bind(&socket).unwrap();
            sockets.push(socket);
            let text = (*text).to_owned();
            threads.push(std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(text.as_bytes()).unwrap();
            }));
        }
        let mut readings = Readings::default();
        let read = Requests { sockets }.read(&mut readings);
        for thread in threads {
            thread.join().unwrap();
        }
        (read, readings)
    }

    #[test]
    fn requests_are_added_by_opcode_over_all_servers() {
        let one = counted(&[("WRITE", 10), ("READ", 3)], 4);
        let other = counted(&[("READ", 5)], 1);
        let (read, readings) = told(&[&one, &other]);
        assert_eq!(read, Ok(Read::Fresh));
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
    fn a_server_that_tells_nothing_is_an_error_with_its_socket() {
        let (read, _) = told(&["{}"]);
        let error = read.unwrap_err();
        assert!(
            error.starts_with("cannot read the statistics at /"),
            "{error}"
        );
        let mut gone = Requests {
            sockets: vec![PathBuf::from("/nonexistent/share.stats")],
        };
        let error = gone.read(&mut Readings::default()).unwrap_err();
        assert!(
            error.contains("/nonexistent/share.stats: No such file"),
            "{error}"
        );
    }
}
