//! Texts similar to the formats that the readers know.

/// Fragments of these formats.
pub(crate) const PIECES: [&str; 48] = [
    "{",
    "}",
    "[",
    "\"fio version\" : \"fio-3.33\",",
    "\"jobs\" : [",
    "\"jobname\" : \"a\",",
    "\"read\" : {\"iops\" : 5, \"runtime\" : 1}",
    "\n",
    "\n",
    "\n",
    "\n",
    " ",
    "  ",
    "\t",
    "\r",
    "|",
    "| ",
    "||",
    "|===",
    "|---|---|",
    "---+---",
    "-----",
    "=====",
    "# a",
    "== b",
    "**c**",
    "1. d",
    "```",
    "----",
    "3;fio-3.33;a;0;0;1;2;3;4",
    "a: (groupid=0, jobs=1): err= 0: pid=1: now",
    "  read: IOPS=1k, BW=1MiB/s (1MB/s)(1MiB/1001msec)",
    "    clat percentiles (usec):",
    "     |  1.00th=[    5],  5.00th=[    5]",
    "    lat (usec): min=1, max=2, avg=1.5, stdev=0",
    "config,iops",
    "ext4,5",
    "a  b  MB/s",
    "x  y  7",
    "12 MiB/s",
    "1,234",
    "\u{1b}[31m",
    "µ",
    "🦀",
    "\u{feff}",
    "[cols=\"1,1\"]",
    "fsbench/a 10 5 ops/sec",
    "host load average: 1, 2, 3",
];

/// Texts of about this many bytes that repeat one fragment, to find costs that grow with the square of the size.
pub(crate) fn large_texts(bytes: usize) -> Vec<String> {
    let filled = |piece: &str| piece.repeat(bytes / piece.len() + 1);
    let mut texts: Vec<String> = PIECES
        .iter()
        .map(|piece| format!("{piece}\n").repeat(bytes / 8 / piece.len()))
        .collect();
    texts.extend(
        [
            "{\"a\":[\n",
            "[\n1,\n",
            "{\n\"a\": 1\n}\n",
            "a,b\n1,2\nx,y\n",
            "a,b\n1,x\n",
            "| a | b |\n| 1 | 2 |\n",
            "|a\n|1 MB/s\n",
            "1. a\n# b\n**c**\n",
            "a  MB/s\n\n",
            "fio:\n{\n",
            "{\nfio: x\n",
            "read: IOPS=1k, BW=1MiB/s (1MB/s)(1MiB/1001msec)\n\n",
            "node,MB/s,fs\na,1,x\nb,2,x\n",
        ]
        .map(filled),
    );
    let jobs = "{\"jobname\":\"a\",\"groupid\":0,\"read\":{\"iops\":5,\"bw\":1,\"io_bytes\":9,\"runtime\":7}},\n";
    texts.push(format!(
        "{{\"fio version\":\"fio-3.1\",\"jobs\":[\n{}{{}}]}}",
        filled(jobs)
    ));
    let named: String = (0..bytes / 87)
        .map(|n| format!("{{\"jobname\":\"{n}\",\"read\":{{\"iops\":5,\"bw\":1,\"io_bytes\":9,\"runtime\":{n}}}}},\n"))
        .collect();
    texts.push(format!(
        "{{\"fio version\":\"fio-3.1\",\"jobs\":[\n{named}{{}}]}}"
    ));
    texts
}
