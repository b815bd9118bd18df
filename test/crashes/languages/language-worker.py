"""The example's worker, with a handler that writes down every job it runs."""

import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import worker  # noqa: E402


def handle(job):
    with open(os.environ["RUNS"], "a") as runs:
        runs.write(f"python {job['id']}\n")
    time.sleep(job["payload"]["ms"] / 1000)
    return "python"


worker.run({"languages": handle})
