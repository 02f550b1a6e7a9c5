#!/usr/bin/env python3
"""Whether `iodyno explain` names the right cause first: ten differences made on purpose.

Each is an experiment in experiments/explain. The result is a table with the part of the ratio that was named first, its share of the
ratio's logarithm, the candidate causes, and the parts that were named besides. The cause counts as right if the part, or a candidate beside
it, is one of those that the script expects. Needs root, and the tools that the experiments name.

    benches/explain.py IODYNO [NAME...]

Environment: BENCH_DIR (where everything is done, in a folder of its own that is removed; a file system in memory keeps the host's own disk
out of the results), DISK_DIR (the same for the two that need a disk), BENCH_STORE (a store that keeps the results: a pair that it has is not
measured again).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments" / "explain"
GROUP = Path("/sys/fs/cgroup/memory/iodyno-explain")

# Name, and for each the parts that are right: a part alone, or a part with a candidate beside it.
PAIRS = {
    "throttled": [("other_waits", "io_limit"), ("other_waits", "throttle.read_iops"), ("read_await", "throttle.read_iops")],
    "half-the-cpus": [("wait_for_cpu", "cpus_allowed")],
    "buffered": [("device_read_time", "direct"), ("read_requests", "direct"), ("read_amplification", "direct")],
    "compressed": [("limit_waits", "write_amplification"), ("write_amplification", "btrfs.mount"), ("write_requests", "btrfs.mount")],
    "small-blocks": [("device_read_time", "bs"), ("read_requests", "bs")],
    "fsync": [("time_in_syncs", "sync")],
    "other-io": [("read_await", "other_bytes")],
    "delayed": [("read_await", "delay.read"), ("layers_read_time", "delay.read")],
    "memory": [("device_read_time", "memory"), ("read_requests", "memory"), ("read_amplification", "memory"), ("read_amplification", "refaults"), ("read_requests", "refaults")],
    "busy-cpu": [("wait_for_cpu", "other_cpus"), ("read_await", "other_cpus")],
}


def run(program, *arguments, group=None):
    """Runs the program, in the control group of memory if there is one, and fails with it."""
    command = [str(program), *map(str, arguments)]
    if group:
        command = ["sh", "-c", f'echo $$ > {group}/tasks && exec "$@"', "sh", *command]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}")
    return ended.stdout


def names(cause):
    """The name of a candidate cause."""
    return cause["fact"]["name"] if "fact" in cause else cause["series"]["name"]


def known(program, *arguments):
    """The explanation of a pair that the store has; `None` if it has not."""
    ended = subprocess.run([str(program), "explain", *arguments, "--json"], capture_output=True, text=True)
    return json.loads(ended.stdout) if ended.returncode == 0 else None


def measure(program, name, folder):
    """The explanation of one pair."""
    experiment = EXPERIMENTS / f"{name}.toml"
    start = ["run", experiment, "--set", f"folder={folder}"]
    asked = ["little", "--against", "much"] if name == "memory" else [f"explain-{name}"]
    found = known(program, *asked)
    if found:
        return found
    if name != "memory":
        run(program, *start)
        return known(program, *asked)
    GROUP.mkdir(exist_ok=True)
    try:
        (GROUP / "memory.limit_in_bytes").write_text(str(96 << 20))
        run(program, *start, "--name", "much")
        run(program, *start, "--name", "little", group=GROUP)
    finally:
        # Processes that undo the storage may end a little later.
        for _ in range(100):
            try:
                GROUP.rmdir()
                break
            except OSError:
                time.sleep(0.1)
    return known(program, *asked)


def main():
    program, chosen = Path(sys.argv[1]).resolve(), sys.argv[2:] or list(PAIRS)
    right = 0
    print("| difference | speed | named first | share | candidate causes | also named | right |")
    print("|---|---|---|---|---|---|---|")
    for name in chosen:
        where = os.environ.get("DISK_DIR" if name in ("other-io", "memory") else "BENCH_DIR", "/tmp")
        folder = Path(tempfile.mkdtemp(prefix="iodyno-explain-", dir=where))
        os.environ["IODYNO_STORE"] = os.environ.get("BENCH_STORE", str(folder / "store.db"))
        try:
            (found,) = measure(program, name, folder)["comparisons"]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        named = [part for part in found["parts"] if part["explains"]]
        first = named[0] if named else None
        causes = [names(cause) for cause in first["candidate_causes"]] if first else []
        part = first["quantity"]["name"] if first else ""
        fits = any(part == right_part and cause in causes for right_part, cause in PAIRS[name])
        right += fits
        cells = [
            name,
            f"{found['speed']['value']:.3g}×" if found["speed"] else "",
            first["quantity"]["words"] if first else f"unexplained: {found['headline']}",
            f"{first['share'] * 100:.0f} %" if first else "",
            ", ".join(causes),
            "; ".join(f"{it['quantity']['words']} ({it['share'] * 100:.0f} %)" for it in named[1:]),
            "yes" if fits else "no",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\n{right} of {len(chosen)} name the right cause first")


if __name__ == "__main__":
    main()
