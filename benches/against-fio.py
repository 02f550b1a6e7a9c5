#!/usr/bin/env python3
"""What an op costs, and what the storage gives, beside fio: `make bench`.

The contestants take turns (A B A B) on the same file, under the same words: `iodyno fio` and fio get
the same options. CPU is what the kernel charges to the whole process tree of a contestant, start
and end included, divided by the ops that its JSON tells. Figures are medians of the rounds; behind
a ratio stands the range of the rounds' own ratios.

    benches/against-fio.py IODYNO

Environment: FIO (fio's program), T_IO_URING (fio's t/io_uring, if there is one), BENCH_DIR (where
the 1 GiB file is made and removed), BENCH_ROUNDS (5), BENCH_SECONDS (5, of each measurement),
BENCH_ONLY (a word: only the sections whose title has it).
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
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SECONDS = int(os.environ.get("BENCH_SECONDS", "5"))
ONLY = os.environ.get("BENCH_ONLY", "")
FIO = os.environ.get("FIO", "fio")
T_IO_URING = os.environ.get("T_IO_URING")
FILE_BYTES = 1 << 30
MIB = 1 << 20


@dataclass
class Measured:
    """One run of one contestant."""

    ops: float
    iops: float
    user_s: float
    system_s: float
    start_ms: float | None = None  # from its launch to its first job's start; fio before 3.36 does not tell it
    resident: int = 0  # peak bytes of all its processes together; only if asked for

    @property
    def cpu_ns(self):
        return (self.user_s + self.system_s) * 1e9 / self.ops

    @property
    def user_ns(self):
        return self.user_s * 1e9 / self.ops


class Tree(threading.Thread):
    """Watches the resident memory of a process and its descendants until it ends."""

    def __init__(self, root):
        super().__init__(daemon=True)
        self.root, self.peaks, self.ended = root, {}, threading.Event()

    def run(self):
        while not self.ended.wait(0.1):
            parents = {}
            for stat in Path("/proc").glob("[0-9]*/stat"):
                try:
                    behind_name = stat.read_text().rpartition(")")[2].split()
                    parents[int(stat.parent.name)] = int(behind_name[1])
                except OSError:
                    pass
            for pid in parents:
                ancestor = pid
                while ancestor not in (0, self.root):
                    ancestor = parents.get(ancestor, 0)
                if ancestor == self.root:
                    self.note(pid)

    def note(self, pid):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        if peak := re.search(r"VmHWM:\s+(\d+) kB", status):
            self.peaks[pid] = int(peak[1]) * 1024


def carry_out(command, watch_memory=False):
    """Runs a command to its end: its output, its rusage, its wall clock and its resident peak."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began, began_unix = time.monotonic(), time.time()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        tree = Tree(child.pid)
        if watch_memory:
            tree.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.terminate()
            child.wait()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        tree.ended.set()
        out.seek(0), err.seek(0)
        text = out.read().decode()
        if child.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\nended with {child.returncode}:\n{err.read().decode()}")
    return text, usage, wall, began_unix, sum(tree.peaks.values())


@dataclass
class Fio:
    """A program that speaks fio's language."""

    name: str
    command: list
    extra: list = field(default_factory=list)

    def run(self, options, watch_memory=False):
        arguments = [f"--{option}" for option in ["name=bench", *options, *self.extra]]
        command = [*self.command, *arguments, "--output-format=json", "--eta=never"]
        text, usage, _, began_unix, resident = carry_out(command, watch_memory)
        jobs = json.loads(text)["jobs"]
        sides = [job[side] for job in jobs for side in ("read", "write")]
        if any(job["error"] for job in jobs):
            sys.exit(f"{' '.join(command)}\nended with an I/O error")
        starts = [job["job_start"] for job in jobs if "job_start" in job]
        return Measured(
            ops=sum(side["total_ios"] for side in sides),
            iops=sum(side["iops"] for side in sides),
            user_s=usage.ru_utime,
            system_s=usage.ru_stime,
            start_ms=min(starts) - began_unix * 1000 if starts else None,
            resident=resident,
        )


@dataclass
class Floor:
    """fio's t/io_uring. It tells a rate each second and no sum: ops are its mean rate times the time."""

    name: str
    file: Path

    def run(self, _options):
        words = "-d32 -s32 -c32 -b4096 -p0 -B1 -F1 -O0 -n1 -t1".split()
        # Its last second goes untold.
        text, usage, wall, *_ = carry_out([T_IO_URING, *words, f"-r{SECONDS + 1}", self.file])
        unit = {"": 1, "K": 1e3, "M": 1e6}
        rates = [float(n) * unit[u] for n, u in re.findall(r"^IOPS=([\d.]+)([KM]?),", text, re.M)]
        rate = statistics.mean(rates)
        return Measured(rate * wall, rate, usage.ru_utime, usage.ru_stime)


def interleaved(contestants, options, **how):
    """Runs every contestant in each round; the measurements by name, in order of rounds."""
    found = {contestant.name: [] for contestant in contestants}
    for number in range(ROUNDS):
        for contestant in contestants:
            note(f"round {number + 1} of {ROUNDS}: {contestant.name}")
            found[contestant.name].append(contestant.run(options, **how))
    note("")
    return found


def note(text):
    """Says on a terminal what is going on, in a line that the table then replaces."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def row(what, mine, other="", ratio="", target="", met=None, agreed=True):
    verdict = {None: "", True: "met", False: "MISSED"}[met] + ("" if agreed else ", rounds differ")
    print(f"  {what:<42} {mine:>9} {other:>9}  {ratio:<22} {target:<11} {verdict}".rstrip(), flush=True)


def title(text):
    print(f"\n{text}")
    row("", "iodyno", "other", "ratio [rounds]", "target")


def human(value):
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.4g}k" if value >= 1e4 else f"{value:.4g}"


def compare(what, found, other, figure, at_most=None, at_least=None):
    """A row: the medians of both, and their ratio against its target."""
    mine = [getattr(measured, figure) for measured in found["iodyno"]]
    if other not in found:
        return row(what, human(statistics.median(mine)), "–", "not measured", bound(at_most, at_least))
    theirs = [getattr(measured, figure) for measured in found[other]]
    ratio = statistics.median(mine) / statistics.median(theirs)
    rounds = [one / two for one, two in zip(mine, theirs)]
    met, agreed = None, True
    if at_most or at_least:
        met, *each = [one <= at_most if at_most else one >= at_least for one in (ratio, *rounds)]
        agreed = all(one == met for one in each)
    row(
        what,
        human(statistics.median(mine)),
        human(statistics.median(theirs)),
        f"{ratio:.3f} [{min(rounds):.3f}, {max(rounds):.3f}]",
        bound(at_most, at_least),
        met,
        agreed,
    )


def bound(at_most, at_least):
    return f"≤ {at_most:.2f}" if at_most else f"≥ {at_least:.2f}" if at_least else ""


def absolute(what, values, unit, at_most=None, other=""):
    """A row: a figure of iodyno's alone against its target; beside it, untargeted, fio's."""
    middle = statistics.median(values)
    target = f"≤ {at_most} {unit}" if at_most else ""
    row(f"{what}, {unit}", f"{middle:.3g}", other, "", target, middle <= at_most if at_most else None)


def middle(values):
    """The median as text; a dash if there are no values."""
    return f"{statistics.median(values):.3g}" if values else "–"


def timed(*options):
    return [*options, "bs=4k", f"runtime={SECONDS}", "time_based", "thread"]


def cached(iodyno, fio, file):
    """What an op costs where the storage costs nothing."""
    with file.open("rb", buffering=0) as whole:
        while whole.read(MIB):
            pass
    batched = ["fixedbufs", "registerfiles", "iodepth_batch=32", "iodepth_batch_complete_min=32"]
    contestants = [iodyno, fio, Fio("fio, batched", fio.command, batched)]
    if T_IO_URING:
        contestants.append(Floor("t/io_uring", file))
    options = timed(
        f"filename={file}", "ioengine=io_uring", "rw=randread", "iodepth=32", "norandommap", "invalidate=0"
    )
    found = interleaved(contestants, options)
    title("4 KiB random reads of a cached file, buffered, io_uring, depth 32, one thread")
    compare("all CPU, ns/op: fio", found, "fio", "cpu_ns", at_most=0.55)
    compare("all CPU, ns/op: fio, batched, registered", found, "fio, batched", "cpu_ns")
    compare("all CPU, ns/op: t/io_uring", found, "t/io_uring", "cpu_ns", at_most=1.0)
    compare("user CPU, ns/op: fio", found, "fio", "user_ns")
    compare("user CPU, ns/op: t/io_uring", found, "t/io_uring", "user_ns")
    compare("IOPS: fio", found, "fio", "iops")
    compare("IOPS: t/io_uring", found, "t/io_uring", "iops")


def harness(iodyno, fio, _file):
    """What is left when an op is nothing. Each block once a pass, as by default."""
    for depth in (32, 1):
        found = interleaved(
            [iodyno, fio], timed("ioengine=null", "rw=randread", f"iodepth={depth}", "size=64g")
        )
        title(f"null engine, depth {depth}, random map")
        compare("user CPU, ns/op: fio", found, "fio", "user_ns")
        compare("all CPU, ns/op: fio", found, "fio", "cpu_ns", at_most=0.3 if depth == 1 else None)
        if depth == 32:
            absolute("user CPU of its own", [one.user_ns for one in found["iodyno"]], "ns/op", 40)


def direct(engine, depth, cpu):
    """What the storage gives to both."""

    def section(iodyno, fio, file):
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        options = timed(
            f"filename={file}", f"ioengine={engine}", "rw=randread", "direct=1", "invalidate=0", f"iodepth={depth}"
        )
        found = interleaved([iodyno, fio], options)
        title(f"4 KiB random reads, O_DIRECT, {engine}, depth {depth}")
        compare("IOPS: fio", found, "fio", "iops", at_least=1.0)
        compare("user CPU, ns/op: fio", found, "fio", "user_ns", at_most=0.6 if cpu else None)
        compare("all CPU, ns/op: fio", found, "fio", "cpu_ns")

    return section


def many(iodyno, fio, file):
    """What a job takes before it does anything, and beside its buffers."""
    jobs, depth = 64, 32
    options = [f"filename={file}", "ioengine=io_uring", "rw=randread", "invalidate=0", "thread", "bs=4k"]
    together = [*options, f"iodepth={depth}", f"numjobs={jobs}", f"runtime={SECONDS}", "time_based"]
    alone = [*options, "iodepth=1", "number_ios=1"]
    contestants = [iodyno, fio]
    memory = interleaved(contestants, together, watch_memory=True)
    start = interleaved(contestants, alone)

    def mib_a_job(name):
        return [(one.resident - jobs * depth * 4096) / jobs / MIB for one in memory[name]]

    def starts(runs, name):
        return [one.start_ms for one in runs[name] if one.start_ms is not None]

    def spent(name):
        return [(one.user_s + one.system_s) * 1000 for one in start[name]]

    title(f"{jobs} jobs of depth {depth}; one job of one op")
    theirs = [middle(figures) for figures in (mib_a_job("fio"), starts(start, "fio"))]
    absolute("resident beyond buffers, a job", mib_a_job("iodyno"), "MiB", 2, theirs[0])
    absolute("launch to start, one job", starts(start, "iodyno"), "ms", 20, theirs[1])
    theirs = [middle(figures) for figures in (starts(memory, "fio"), spent("fio"))]
    absolute(f"launch to start, {jobs} jobs", starts(memory, "iodyno"), "ms", None, theirs[0])
    absolute("CPU of starting and ending", spent("iodyno"), "ms", None, theirs[1])


SECTIONS = {
    "cached": cached,
    "null": harness,
    "psync": direct("psync", 1, cpu=True),
    "io_uring": direct("io_uring", 32, cpu=True),
    "libaio": direct("libaio", 32, cpu=False),
    "posixaio": direct("posixaio", 8, cpu=False),
    "jobs": many,
}


def main():
    program = Path(sys.argv[1]).resolve() if len(sys.argv) == 2 else sys.exit(__doc__)
    if not shutil.which(FIO):
        sys.exit(f"no fio to measure against (`{FIO}`): install it, or name it in the variable FIO")
    folder = os.environ.get("BENCH_DIR", program.parent)
    with tempfile.TemporaryDirectory(prefix="bench.", dir=folder) as scratch:
        # The results of a bench are no user's results.
        os.environ["IODYNO_STORE"] = str(Path(scratch, "bench.db"))
        file = Path(scratch, "file")
        iodyno, fio = Fio("iodyno", [program, "fio"]), Fio("fio", [FIO])
        versions = [subprocess.check_output([program, "--version"]), subprocess.check_output([FIO, "--version"])]
        print(" against ".join(version.decode().strip() for version in versions), end="")
        print(f": medians of {ROUNDS} rounds of {SECONDS} s, interleaved; {os.cpu_count()} CPUs")
        iodyno.run([f"filename={file}", "rw=write", "bs=1m", f"size={FILE_BYTES}", "end_fsync=1"])
        for name, section in SECTIONS.items():
            if ONLY in name:
                section(iodyno, fio, file)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
