#!/usr/bin/env python3
"""Whether `iodyno explain` names the right cause first: eighteen differences made on purpose.

Each is an experiment in experiments/explain. The result is a table with the sentence of the explanation, the part of the time that was named
first, the candidate causes, and how good they are. A result is right if the part and the first cause are among those that the script expects,
plausible if a right cause, or the command that made the difference, is among the candidates, "part only" if the part is right and no cause is
named, undecided if neither is, and otherwise wrong. Needs root, and the tools that the experiments name.

    benches/explain.py IODYNO [NAME...]

Environment: BENCH_DIR (where everything is done, in a folder of its own that is removed; a file system in memory keeps the host's own disk
out of the results), DISK_DIR (the same for the two that need a disk), BENCH_STORE (a store that keeps the results: a pair that it has is not
measured again).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments" / "explain"
GROUP = Path("/sys/fs/cgroup/memory/iodyno-explain")

# Name, and for each the parts and the causes that are right.
AT_DEVICE = {"device", "layers"}
IN_SYNCS = {"syncs_device", "syncs_above_device"}
PAIRS = {
    "throttled": (AT_DEVICE | {"unknown"}, {"throttle.read_iops", "layers", "io_limit"}),
    "half-the-cpus": ({"wait_for_cpu"}, {"cpus_allowed"}),
    "buffered": (AT_DEVICE, {"direct"}),
    "compressed": (IN_SYNCS, {"btrfs.mount", "btrfs options", "device_written_bytes"}),
    "small-blocks": (AT_DEVICE, {"bs"}),
    "fsync": (IN_SYNCS, {"sync"}),
    "other-io": (AT_DEVICE, {"other_bytes"}),
    "delayed": (AT_DEVICE, {"delay.read"}),
    "memory": (AT_DEVICE, {"memory", "refaults", "memory_limit"}),
    "busy-cpu": ({"wait_for_cpu"}, {"other_cpus"}),
    "read-ahead": (AT_DEVICE, {"read_ahead_kb"}),
    "few-requests": ({"above_device", "queue"}, {"nr_requests"}),
    "data-journal": (IN_SYNCS, {"ext4.mount", "ext4 options", "device_written_bytes"}),
    "dsync": (AT_DEVICE | {"unknown", "above_device"}, {"sync"}),
    "zipf": (AT_DEVICE, {"random_distribution"}),
    "neighbour": ({"above_device"}, {"other_cpus"}),
    "misaligned": (AT_DEVICE, {"blockalign"}),
    "inode-lock": ({"unknown", "kernel_cpu", "wait_for_cpu"}, {"filename_format", "shared files"}),
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
    found = {"right": 0, "plausible": 0, "part only": 0, "undecided": 0, "wrong": 0}
    print("| difference | sentence | first part | certainty | candidate causes | result |")
    print("|---|---|---|---|---|---|")
    for name in chosen:
        where = os.environ.get("DISK_DIR" if name in ("other-io", "memory") else "BENCH_DIR", "/tmp")
        folder = Path(tempfile.mkdtemp(prefix="iodyno-explain-", dir=where))
        os.environ["IODYNO_STORE"] = os.environ.get("BENCH_STORE", str(folder / "store.db"))
        try:
            (comparison,) = measure(program, name, folder)["comparisons"]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        reasons = comparison["reasons"] or {"most": [], "candidate_causes": [], "stacks": []}
        causes = [names(cause) for cause in reasons["candidate_causes"]]
        part = (reasons["most"] or [""])[0]
        parts = {it["part"]: it["quantity"] for stack in reasons["stacks"][:1] for it in stack["parts"]}
        result = judged(name, part, causes)
        found[result] += 1
        cells = [name, comparison["headline"], part, parts[part]["certainty"] if part else "", ", ".join(causes), result]
        print("| " + " | ".join(cells) + " |", flush=True)
    print("\n" + ", ".join(f"{count} {result}" for result, count in found.items()))


def judged(name, part, causes):
    """How good an explanation is."""
    parts, right = PAIRS[name]
    if not part and not causes:
        return "undecided"
    if part in parts and not causes:
        return "part only"
    if part in parts and causes[0] in right:
        return "right"
    return "plausible" if (right | {"setup"}) & set(causes) else "wrong"


if __name__ == "__main__":
    # The folders are removed if the benchmark is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
