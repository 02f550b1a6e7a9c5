//! The data that the server of a mirror has sent to its legs, as reported on its control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server that does not answer within this time has no counts in the sample.
const WITHIN: Duration = Duration::from_millis(100);

/// The server of a mirror.
#[derive(Debug)]
pub(super) struct Mirror(PathBuf);

impl Mirror {
    /// The server with this process id, among those with sockets in this folder.
    pub(super) fn of(sockets: &Path, pid: u32) -> Option<Mirror> {
        let found = std::fs::read_dir(sockets).ok()?.flatten();
        let mut paths = found.map(|entry| entry.path());
        let own = |path: &PathBuf| {
            let stream = iodyno_sys::socket::connect(path).ok();
            stream.and_then(|stream| iodyno_sys::host::peer(stream.as_fd())) == Some(pid)
        };
        paths.find(own).map(Mirror)
    }

    /// Requests for its legs so far, and commands that contained them.
    pub(super) fn counts(&self) -> Option<[u64; 2]> {
        let mut stream = iodyno_sys::socket::connect(&self.0).ok()?;
        stream.set_read_timeout(Some(WITHIN)).ok()?;
        stream.write_all(b"\"Counts\"\n").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        let answer: serde_json::Value = serde_json::from_str(&line).ok()?;
        let count = |name: &str| answer["Counts"][name].as_u64();
        Some([count("requests")?, count("commands")?])
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_socket_of_a_process_is_found_and_asked() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let listener = UnixListener::bind(folder.path().join("mirror-x.sock")).unwrap();
        let own = std::process::id();
        assert!(Mirror::of(folder.path(), own + 1).is_none());
        let mirror = Mirror::of(folder.path(), own).unwrap();
        for (answer, counts) in [
            (
                "{\"Counts\":{\"requests\":7,\"commands\":3}}\n\"Done\"\n",
                Some([7, 3]),
            ),
            ("{\"Failed\":{\"faults\":[],\"by_guard\":false}}\n", None),
            ("", None),
        ] {
            // Connections that only search for the server come first.
            let server = std::thread::spawn({
                let listener = listener.try_clone().unwrap();
                move || loop {
                    let (stream, _) = listener.accept().unwrap();
                    let mut asked = String::new();
                    let mut stream = BufReader::new(stream);
                    stream.read_line(&mut asked).unwrap();
                    if !asked.is_empty() {
                        assert_eq!(asked, "\"Counts\"\n");
                        stream.get_mut().write_all(answer.as_bytes()).unwrap();
                        return;
                    }
                }
            });
            assert_eq!(mirror.counts(), counts, "{answer}");
            server.join().unwrap();
        }
    }
}
