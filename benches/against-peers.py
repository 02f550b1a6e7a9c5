#!/usr/bin/env python3
"""File operations beside pebble's `bench fs`, and `iodyno fileio` beside sysbench: part of `make bench`.

The contestants take turns (A B A B) on the same folder and, for fileio, on the same files, which sysbench
makes. Figures are medians of the rounds; behind a ratio stands the range of the rounds' own ratios. CPU is
what the kernel charges to the whole process tree, start and end included, divided by the ops. A peer that
is not installed is left out aloud.

    benches/against-peers.py IODYNO

Environment: PEBBLE and SYSBENCH (the peers' programs), BENCH_DIR (where everything is done, in a folder
of its own that is removed), BENCH_ROUNDS (5), BENCH_SECONDS (5, of each measurement), BENCH_ONLY (a word:
only the sections whose title has it), BENCH_CELLS (1: all five modes of fileio, sync and async, with 1 and 8
threads, in place of the selected ones).
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SECONDS = int(os.environ.get("BENCH_SECONDS", "5"))
ONLY = os.environ.get("BENCH_ONLY", "")
CELLS = os.environ.get("BENCH_CELLS") == "1"
PEBBLE = os.environ.get("PEBBLE", "pebble")
SYSBENCH = os.environ.get("SYSBENCH", "sysbench")


@dataclass
class Figure:
    """What is compared: how it is printed, and whether more of it is better."""

    name: str
    unit: str
    more_is_better: bool = False


OP_MEAN = Figure("mean op", "µs")
OP_P50 = Figure("p50 op", "µs")
RATE = Figure("rate", "/s", True)
CPU = Figure("CPU per op", "µs")
SET_UP = Figure("set-up", "s")


def run(command, folder):
    """Runs a command to its end: its output, its CPU time and its wall clock, in seconds."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        text = out.read().decode()
        if child.returncode != 0:
            told = err.read().decode()
            sys.exit(f"{' '.join(map(str, command))}\nended with {child.returncode}:\n{text}{told}")
    return text, usage.ru_utime + usage.ru_stime, time.monotonic() - began


def show(title, contestants, figures, notes=()):
    """Rounds of all contestants in turn, each with the host at rest, and a line a figure."""
    if ONLY not in title:
        return
    results = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, measure in contestants.items():
            os.sync()
            results[name].append(measure())
    print(f"\n{title}")
    first, *others = contestants
    for figure in figures:
        mine = [result[figure.name] for result in results[first]]
        texts = [f"  {figure.name:<12} {first} {statistics.median(mine):10.4g} {figure.unit:<3}"]
        for other in others:
            theirs = [result[figure.name] for result in results[other]]
            ratios = [a / b for a, b in zip(mine, theirs)]
            better = "more" if figure.more_is_better else "less"
            texts.append(
                f"{other} {statistics.median(theirs):10.4g} {figure.unit:<3}"
                f"  {statistics.median(ratios):.3f} × [{min(ratios):.3f}, {max(ratios):.3f}], {better} is better"
            )
        print("   ".join(texts))
    for note in notes:
        print(f"  {note}")
    sys.stdout.flush()


def operations(iodyno, folder, name, arguments):
    """One trial of file operations: figures from its JSON."""
    store = folder / "store.db"
    command = [iodyno, "--store", store, "fs", "run", name, "--dir", folder, "--json", "--quiet", *arguments]
    text, cpu, _ = run(command, folder)
    store.unlink()
    trial = json.loads(text)["trials"][0]
    op = next(row for row in trial["groups"][0]["rows"] if row["direction"] == "op")
    percentiles = {entry["percent"]: entry["ns"] for entry in op["service"]["percentiles"]}
    set_up = [step["span_ns"] for step in trial["steps"] if step["step"] == "lay_out"]
    return {
        RATE.name: op["iops"],
        OP_MEAN.name: op["service"]["mean_ns"] / 1e3,
        OP_P50.name: percentiles[50.0] / 1e3,
        CPU.name: cpu / op["ops"] * 1e6,
        SET_UP.name: set_up[0] / 1e9 if set_up else float("nan"),
    }


def pebble(folder, name, arguments):
    """One benchmark of pebble's: figures from its closing row."""
    work = folder / "pebble"
    text, cpu, wall = run([PEBBLE, "bench", "fs", work, "--bench-name", name, *arguments], folder)
    shutil.rmtree(work, ignore_errors=True)
    closing = text[text.rindex("ops(total)") :].splitlines()[1].split()
    elapsed, ops, rate, mean, p50 = closing[1:6]
    return {
        RATE.name: float(rate),
        OP_MEAN.name: float(mean) * 1e3,
        OP_P50.name: float(p50) * 1e3,
        CPU.name: cpu / int(ops) * 1e6,
        # All that is neither measured nor the start of the program.
        SET_UP.name: wall - float(elapsed.rstrip("s")),
    }


def beside_pebble(iodyno, folder):
    if not shutil.which(PEBBLE):
        print("pebble is not installed: file operations are not compared (PEBBLE chooses it)")
        return
    timed = ["--duration", f"{SECONDS}s"]
    # As pebble writes: 1 KiB with each call, from one thread. Its histograms begin at 10 µs. It deletes a file that is
    # still open in delete_small_dir and delete_large_dir, so that those are not compared.
    alike = ["--set", "setup=original", "--no-settle", "--no-drain"]
    for ours, theirs in [
        ("create_empty", "create_empty"),
        ("write_sync_1MB", "write_sync_1MiB"),
        ("write_sync_16MiB", "write_sync_16MiB"),
        ("disk_usage_many_files", "disk_usage_many_files"),
        ("disk_usage_128MB", "disk_usage_128MB"),
    ]:
        show(
            f"{ours}, {SECONDS} s",
            {
                "iodyno": lambda ours=ours: operations(iodyno, folder, ours, timed + alike),
                "pebble": lambda theirs=theirs: pebble(folder, theirs, timed),
            },
            [OP_MEAN, OP_P50, RATE, CPU],
        )


def fileio(command, folder, arguments):
    """One `fileio … run` of either program: they print the same words."""
    text, cpu, _ = run([*command, "fileio", *arguments, "run"], folder)
    of = {label: float(value) for label, value in re.findall(r"(\w+)/s: +([\d.]+)", text)}
    events = int(re.search(r"total number of events: +(\d+)", text)[1])
    return {
        RATE.name: of["reads"] + of["writes"],
        CPU.name: cpu / events * 1e6,
        "reads": of["reads"],
        "writes": of["writes"],
        "fsyncs": of["fsyncs"],
    }


def beside_sysbench(iodyno, folder):
    if not shutil.which(SYSBENCH):
        print("sysbench is not installed: fileio is not compared (SYSBENCH chooses it)")
        return
    files = folder / "files"
    files.mkdir()
    size = "--file-total-size=512M"
    run([SYSBENCH, "fileio", size, "prepare"], files)
    store = folder / "fileio.db"
    ours = [iodyno, "--store", store]
    kinds = [Figure(name, "/s", True) for name in ("reads", "writes", "fsyncs")]
    direct, never = "--file-extra-flags=direct", "--file-fsync-freq=0"
    selected = [
        ("rndrd, 1 thread, cached", ["--file-test-mode=rndrd"], [RATE, CPU]),
        ("rndrd, 4 threads, direct", ["--file-test-mode=rndrd", "--threads=4", direct], [RATE, CPU]),
        ("seqrd, 1 thread, cached", ["--file-test-mode=seqrd"], [RATE, CPU]),
        ("rndrw, 1 thread, fsync-freq 100", ["--file-test-mode=rndrw"], [RATE, CPU, *kinds]),
        ("rndrw, 4 threads, no fsync", ["--file-test-mode=rndrw", "--threads=4", never], [RATE, CPU]),
        ("rndwr, 4 threads, direct", ["--file-test-mode=rndwr", "--threads=4", direct, never], [RATE, CPU]),
    ]
    # A sequential write empties the files: it is the last.
    modes = ["rndrd", "rndwr", "rndrw", "seqrd", "seqwr"]
    cells = [
        (f"{mode}, {io}, {threads} threads", [f"--file-test-mode={mode}", f"--file-io-mode={io}", f"--threads={threads}"], [RATE, CPU])
        for mode in modes
        for io in ["sync", "async"]
        for threads in [1, 8]
    ]
    for title, arguments, figures in cells if CELLS else selected:
        words = [size, f"--time={SECONDS}", *arguments]
        show(
            f"fileio {title}, {SECONDS} s",
            {
                "iodyno": lambda words=words: fileio(ours, files, words),
                "sysbench": lambda words=words: fileio([SYSBENCH], files, words),
            },
            figures,
        )
    run([*ours, "fileio", size, "cleanup"], files)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    iodyno = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="iodyno-bench-", dir=os.environ.get("BENCH_DIR", ".")) as name:
        folder = Path(name).resolve()
        beside_pebble(iodyno, folder)
        beside_sysbench(iodyno, folder)


# The folder is removed if the benchmark is ended.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
main()
