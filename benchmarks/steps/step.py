"""Times one configuration on one shape, in a process of its own; prints a line of JSON.

    python -m benchmarks.steps.step posenc-torch train minilm 4 512

Every library gets the same sizes, the same kind of step (classification, AdamW) and random weights,
on which the time of dense float32 arithmetic does not depend.
"""

import json
import os
import resource
import sys
import time

from benchmarks.steps import libraries, rows

WARM_UP = 2
# Steps are timed until there are LEAST of them and they took SHORT seconds, or until LONG seconds.
LEAST, SHORT, LONG = 3, 1.5, 20.0
DROPOUT = 0.1  # of the checkpoint's config: hidden layers and attention weights


def main():
    name, mode, model, batch, length = sys.argv[1:]
    row = rows.NAMES[name]
    if mode == "limit":
        line = {"gflops": round(libraries.matmul_gflops(row.backend), 1), "others": 0.0}
        print(json.dumps(line))
        return
    task = libraries.Task(row, mode, model, int(batch), int(length), DROPOUT)
    step = libraries.LIBRARIES[row.library](task)
    for _ in range(WARM_UP):
        output = step()
    expected = task.output_shape
    if tuple(output.shape) != expected:
        raise ValueError(f"{name}: the output has shape {output.shape}, not {expected}.")
    seconds, began, used, busy = [], time.perf_counter(), time.process_time(), busy_seconds()
    while (len(seconds) < LEAST and sum(seconds) < LONG) or sum(seconds) < SHORT:
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    passed, process_seconds = time.perf_counter() - began, time.process_time() - used
    others = (busy_seconds() - busy - process_seconds) / passed
    line = {
        "seconds": [round(s, 5) for s in seconds],
        "cpu_seconds": round(process_seconds / len(seconds), 5),
        "peak_mb": round(peak_mb()),
        "others": round(max(0.0, others), 2),
    }
    print(json.dumps(line))


def busy_seconds():
    """Processor seconds that the whole machine has used, where the system says so."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, *rest = (int(n) for n in file.readline().split()[1:])
    except OSError:
        return time.process_time()
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


def peak_mb():
    """Peak resident memory of this program alone: `ru_maxrss` may be the parent's."""
    try:
        return status_mb("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def status_mb(field):
    """A size that Linux tells of this process: "VmHWM", the peak of "VmRSS", what it holds now."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


if __name__ == "__main__":
    main()
