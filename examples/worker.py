#!/usr/bin/env python3
"""A Signalbox worker in Python, with nothing but the standard library.

    npm start                                          # or: signalbox serve
    SIGNALBOX_TOKEN=... python3 examples/worker.py     # a token only where the server wants one
    curl -s http://127.0.0.1:7420/v1/jobs -H 'content-type: application/json' \
         -d '{"kind":"hello","payload":{"name":"Ada"}}'

It claims one job at a time and waits at the server while there is none. Start as many of it as you like, on as many
machines: each job goes to one of them. SIGTERM or Ctrl+C stops it: what it has begun gets ten seconds, and is then
handed back for another worker, at no cost to the job.

In your own program: `import worker` and `worker.run({"kind": function})`. A function gets the job, a dict; what it
returns (anything that JSON can hold) is kept as the job's result, and what it raises as its error: the job is then
tried again after a while, until its attempts are used up. It must bear being run twice for one job: a worker may die
after the work and before its ack. A long one looks at `job["stop"].is_set()` now and then, and gives up when it is.
"""

import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("SIGNALBOX_URL", "http://127.0.0.1:7420").rstrip("/")
TOKEN = os.environ.get("SIGNALBOX_TOKEN")
QUEUE = os.environ.get("SIGNALBOX_QUEUE", "default")
WORKER = f"{socket.gethostname()}-{os.getpid()}"

LEASE = 30.0  # seconds: if we die, another worker may have the job after so long
WAIT = 5.0  # how long a claim waits at the server; also how long a stop may take when idle
GRACE = 10.0  # how long a job may go on after a stop was asked for

stopping = threading.Event()


def hello(job):
    time.sleep(0.1)
    return f"Hello, {job['payload']['name']}!"


class Refused(Exception):
    """The server's definite no: a problem document. Asking again would not help."""

    def __init__(self, problem):
        super().__init__(problem.get("detail", "no reason given"))
        self.code = problem.get("code", "unknown")


# Cut off, turned away, timed out, half an answer: whether it was done is not known.
UNKNOWN = (OSError, ValueError, http.client.HTTPException)


def ask(path, body, key=None, timeout=10.0):
    """One POST: its answer, or Refused, or one of UNKNOWN."""
    headers = {"content-type": "application/json"}
    if key:
        headers["idempotency-key"] = key
    if TOKEN:
        headers["authorization"] = f"Bearer {TOKEN}"
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code in (408, 429) or error.code >= 500:
            raise  # too busy or not ready: later it may be taken
        problem = json.load(error)
        if problem.get("code") == "in_progress":
            raise  # the same request is still under way
        raise Refused(problem) from None


def insist(path, body, gives_up, timeout=10.0):
    """Asks until there is an answer. The key makes that safe: what was done the first time is answered again."""
    key, pause = str(uuid.uuid4()), 0.1
    while True:
        try:
            return ask(path, body, key, timeout)
        except UNKNOWN as error:
            if gives_up():
                raise
            print(f"{path}: {error}; asking again", file=sys.stderr, flush=True)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 5.0)


def work(job, handlers):
    """Runs the handler in a second thread, while this one renews the lease."""
    stop, ended, outcome = threading.Event(), threading.Event(), {}

    def handle():
        try:
            result = handlers[job["kind"]]({**job, "stop": stop})
            json.dumps(result)  # better to fail here than when it is sent
            outcome["result"] = result
        except Exception as error:
            outcome["error"] = {"name": type(error).__name__, "message": str(error) or repr(error)}
        finally:
            ended.set()

    begun = time.monotonic()
    threading.Thread(target=handle, daemon=True).start()
    renews_at, gives_up_at = begun + LEASE / 3, None
    while not ended.wait(0.1):
        now = time.monotonic()
        if stopping.is_set() and gives_up_at is None:
            stop.set()
            gives_up_at = now + GRACE
        if gives_up_at is not None and now >= gives_up_at:
            break  # the thread ends with this process; what it has not finished is handed back
        if now >= renews_at:
            renews_at = now + LEASE / 3
            if not renew(job):
                stop.set()

    settle(job, dict(outcome), int((time.monotonic() - begun) * 1000))


def renew(job):
    """Renews the lease; False when the job is lost or its cancellation was requested."""
    try:
        body = {"token": job["token"], "leaseMs": int(LEASE * 1000)}
        return not ask(f"/v1/jobs/{job['id']}/renew", body, timeout=LEASE / 3)["cancelRequested"]
    except Refused as error:
        print(f"job {job['id']} is no longer ours: {error}", file=sys.stderr, flush=True)
        return False
    except UNKNOWN:
        return True  # there is time for another try before the lease ends


def settle(job, outcome, ran_ms):
    """Tells the server how it ended: an ack, a nack, or a job handed back unfinished."""
    body = {"token": job["token"], "ranMs": ran_ms}
    if "result" in outcome:
        verb, body["result"] = "ack", outcome["result"]
    elif "error" in outcome and not stopping.is_set():
        verb, body["error"] = "nack", outcome["error"]
    else:
        verb, body["handBack"] = "nack", True
    # After the lease another worker may have the job, so it is useless to ask much longer.
    gives_up_at = time.monotonic() + (GRACE if stopping.is_set() else LEASE)
    try:
        insist(f"/v1/jobs/{job['id']}/{verb}", body, lambda: time.monotonic() > gives_up_at)
    except (Refused, *UNKNOWN) as error:
        # lease_lost: we were too slow, and another worker has it. The job is still completed once.
        print(f"{verb} of job {job['id']}: {error}", file=sys.stderr, flush=True)


def run(handlers):
    """Works until SIGTERM or SIGINT."""
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: stopping.set())
    claim = {
        "queues": [QUEUE],
        "kinds": list(handlers),
        "workerId": WORKER,
        "leaseMs": int(LEASE * 1000),
        "waitMs": int(WAIT * 1000),
    }
    print(f"{WORKER} works for {URL}", flush=True)
    while not stopping.is_set():
        try:
            jobs = insist("/v1/jobs/claim", claim, stopping.is_set, timeout=WAIT + 10)["items"]
        except UNKNOWN:
            break  # the server is away, and we were told to stop
        for job in jobs:
            if stopping.is_set():
                settle(job, {}, 0)  # told to stop while we waited for it: back it goes, untouched
            else:
                work(job, handlers)


if __name__ == "__main__":
    try:
        run({"hello": hello})
    except Refused as error:
        sys.exit(f"worker.py: {error.code}: {error}")
