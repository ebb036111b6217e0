"""The running testbed, as the chaos scripts see and disturb it: its agents' API, Prometheus, docker.

A script disturbs the mesh inside `Chaos` and states what must have held. What held is read from
Prometheus and from the agents' decision records, never from logs. Only the standard library.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
PREFILL = ["p0", "p1"]
DECODE = ["d0", "d1", "d2", "d3"]
AGENTS = PREFILL + DECODE
PORTS = {name: 27980 + number for number, name in enumerate(AGENTS)}
LAST = {"p0": 10, "p1": 11, "d0": 20, "d1": 21, "d2": 22, "d3": 23}
RAILS = ["rail-a", "rail-b"]
NETWORKS = {"mesh": "10.77.0", "rail-a": "10.77.1", "rail-b": "10.77.2"}
SESSIONS = 16
STRICT = ("interactive", "release")
PROMETHEUS = "http://127.0.0.1:29090"
IMAGE = os.environ.get("SEAM_IMAGE", "seam:testbed")
# In the short form faults last as long as they must to be seen.
SHORT = bool(os.environ.get("SEAM_CHAOS_SHORT"))


def length(full, short):
    """How many seconds something lasts."""
    return short if SHORT else full


def docker(*args, check=True):
    done = subprocess.run(["docker", *args], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"docker {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout.strip()


# Nothing here lies behind a proxy, whatever the environment says.
open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

_token = None


def token():
    global _token
    if _token is None:
        _token = docker("exec", "seam-d3", "busybox", "cat", "/etc/seam/token")
    return _token


def api(name, method, path, body=None, timeout=10):
    """One call to an agent; its answer, or an HTTPError or URLError."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORTS[name]}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": f"Bearer {token()}", "content-type": "application/json"},
    )
    with open_url(request, timeout=timeout) as answer:
        return json.load(answer)


def faults(names, rails=RAILS, **how):
    """Switches faults on, or off where none are named."""
    for name in names:
        for rail in rails:
            api(name, "PUT", "/v1/faults", {"rail": rail, **how})


def _prometheus(text, at=None):
    parameters = {"query": text, **({"time": at} if at else {})}
    url = f"{PROMETHEUS}/api/v1/query?{urllib.parse.urlencode(parameters)}"
    with open_url(url, timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def query(text, at=None):
    """An instant query: [(labels, value)]."""
    return [(line["metric"], float(line["value"][1])) for line in _prometheus(text, at)]


def value(text, at=None):
    """The one value of a query; None where it has none."""
    found = query(text, at)
    return found[0][1] if found else None


def counted(counters, since):
    """What counters have counted since a time. One that was absent began at 0, and so did one that fell:
    `increase` would miss what a counter is born with."""
    now, total = time.time(), 0
    # A scrape from before that time is among these.
    for line in _prometheus(f"{counters}[{int(now - since) + 5}s]", now):
        samples = [(float(at), float(count)) for at, count in line["values"]]
        last = max((sample for sample in samples if sample[0] <= since), default=(0, 0))[1]
        for count in (count for at, count in samples if at > since):
            total += count - last if count >= last else count
            last = count
    return total


def down(span, agents=".*"):
    """How many members any of these agents held for down at once. A suspicion that passes is none."""
    return value(f'max(max_over_time(seam_members{{state="down",node=~"{agents}"}}[{span}]))')


def wait(what, ask, patience=90):
    """Waits for something that must become true; how many seconds it took."""
    begun = time.time()
    while True:
        try:
            if ask():
                return time.time() - begun
            if _records.due():
                _records.collect()
        except (urllib.error.URLError, OSError, RuntimeError):
            pass
        if time.time() - begun > patience:
            raise TimeoutError(f"still not true after {patience} s: {what}")
        time.sleep(0.5)


VOID = "02:00:00:00:00:01"


def cut(name, others, networks=NETWORKS):
    """From now on `name` sends into the void what it sends to `others`."""
    _neighbours(name, others, networks, f"busybox arp -s {{address}} {VOID}")


def heal(name, others, networks=NETWORKS):
    """Undoes `cut`, as far as it was done."""
    _neighbours(name, others, networks,
                f"! busybox grep -q '^{{address}} .* {VOID} ' /proc/net/arp || busybox arp -d {{address}}")


def _neighbours(name, others, networks, command):
    # The containers themselves may do nothing of the kind: a helper in the same network, with the one
    # capability that it needs, sets who the neighbours are.
    addresses = [f"{NETWORKS[network]}.{LAST[other]}" for network in networks for other in others]
    script = "\n".join(["set -e", *(command.format(address=address) for address in addresses)])
    docker("run", "--rm", "--user", "0", "--cap-drop", "ALL", "--cap-add", "NET_ADMIN",
           "--network", f"container:seam-{name}", IMAGE, "busybox", "sh", "-c", script)


def disconnect(network, names):
    for name in names:
        docker("network", "disconnect", f"seam-{network}", f"seam-{name}")


def connect(network, names):
    for name in names:
        docker("network", "connect", "--ip", f"{NETWORKS[network]}.{LAST[name]}", f"seam-{network}", f"seam-{name}")


def alive_everywhere(names=AGENTS):
    """Whether each of these agents sees every agent alive, now and as Prometheus has it."""
    seen = dict((labels["node"], count) for labels, count in query('seam_members{state="alive"}'))
    return all(seen.get(name) == len(AGENTS) for name in names) and value('sum(up{job="seam"})') == len(AGENTS)


def calm(share=0.75):
    """Whether the mesh is whole and most paths are healthy. All of them need not be: on a busy machine
    one is unsteady now and then."""
    healthy = value('sum(seam_paths{state="healthy"})') or 0
    return alive_everywhere() and healthy >= share * len(PREFILL) * len(DECODE) * len(RAILS)


class Records:
    """The decision records of every prefill host. One answer holds 1,000, which are made in two minutes:
    whoever waits collects them meanwhile."""

    LIMIT, EVERY_S = 1000, 20

    def __init__(self):
        self.collected = None

    def begin(self, at):
        self.found, self.newest, self.collected = {}, dict.fromkeys(PREFILL, int(at * 1000)), at

    def due(self):
        return self.collected is not None and time.time() - self.collected > self.EVERY_S

    def collect(self):
        self.collected = time.time()
        for name in PREFILL:
            # Some again: records are told a moment after they are made.
            since = self.newest[name] - 1000
            records = api(name, "GET", f"/v1/decisions?limit={self.LIMIT}&since={since}")
            if len(records) == self.LIMIT:
                raise RuntimeError(f"{name} made {self.LIMIT} decisions or more since they were collected")
            self.found.update((record["id"], record) for record in records)
            self.newest[name] = max([self.newest[name], *(record["ts"] for record in records)])


_records = Records()


def decisions(since):
    """The decision records of every prefill host since a time, in seconds, within a disturbance."""
    _records.collect()
    return [record for record in _records.found.values() if record["ts"] >= since * 1000]


class Overlaps(threading.Thread):
    """Looks at the leases of every decode host each second: pairs of one host whose extents overlap."""

    EVERY_S = 1

    def __init__(self):
        super().__init__(daemon=True)
        self.found, self.looks, self.over = set(), 0, threading.Event()

    def run(self):
        while not self.over.wait(self.EVERY_S):
            for name in DECODE:
                try:
                    self.look(name, timeout=1)
                except (RuntimeError, ValueError, OSError, http.client.HTTPException):
                    # It may be the one that is disturbed.
                    pass

    def look(self, name, timeout=10):
        extents = sorted((extent["offset"], extent["offset"] + extent["bytes"], lease["id"])
                         for lease in api(name, "GET", "/v1/leases", timeout=timeout) if lease["state"] != "held"
                         for extent in lease["extents"])
        self.looks += 1
        self.found |= {(name, one[2], two[2]) for one, two in zip(extents, extents[1:])
                       if two[0] < one[1] and one[2] != two[2]}

    def end(self):
        """Looks once more, where every host must answer; what was found, in how many looks."""
        self.over.set()
        self.join()
        for name in DECODE:
            self.look(name)
        return self.found, self.looks


def path_of(candidate):
    return candidate["path"] or ""


class Chaos:
    """One disturbance: waits for calm, then counts what held until its end.

    Leaving it judges, undoes what was registered with `undo`, and ends the program: 0 if all held.
    """

    def __init__(self, title, disturbed=(), lost_at_most=0, strict=True):
        # `disturbed`: agents that others may lose. `lost_at_most`: how many members anyone else may
        # hold for down. `strict`: whether critical work was asked for.
        self.title, self.disturbed, self.lost_at_most, self.strict = title, set(disturbed), lost_at_most, strict
        self.failed, self.undoing, self.overlaps = [], [], Overlaps()

    def undo(self, action):
        """To be done whatever happens, in an action of its own for each agent: one that fails ends there."""
        self.undoing.append(action)

    def _undo(self):
        while self.undoing:
            try:
                self.undoing.pop()()
            except (RuntimeError, subprocess.SubprocessError, urllib.error.URLError, OSError) as problem:
                self.check("what was disturbed is undone", False, problem)

    def check(self, what, holds, seen=""):
        print(f"  {'ok  ' if holds else 'FAIL'} {what}{f': {seen}' if seen != '' else ''}", flush=True)
        if not holds:
            self.failed.append(what)

    def __enter__(self):
        print(f"== {self.title}", flush=True)
        wait("the mesh is calm and under load", lambda: calm() and value("sum(rate(seam_decisions_total[10s]))"))
        self.begun = time.time()
        _records.begin(self.begun)
        self.overlaps.start()
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            # A mesh that is still disturbed can tell nothing of what must hold without load.
            self._undo()
            self.check("the script came to its end", False, error if str(error) else kind.__name__)
        try:
            self._always()
        except (TimeoutError, RuntimeError, urllib.error.URLError, OSError) as problem:
            self.check("what must always hold could be judged", False, problem)
        finally:
            # Not before: an undo may take away what is judged, as one does that replaces agents.
            self._undo()
        seconds = time.time() - self.begun
        verdict = f"FAILED: {', '.join(self.failed)}" if self.failed else "passed"
        print(f"  {verdict}, {seconds:.0f} s\n", flush=True)
        sys.exit(1 if self.failed else 0)

    def recovered(self, what, ask, within):
        """How long until all is well again, as Prometheus has it."""
        try:
            self.check(f"{what} within {within} s", True, f"{wait(what, ask, within):.0f} s")
        except TimeoutError as late:
            self.check(f"{what} within {within} s", False, late)

    def span(self):
        return f"{max(5, int(time.time() - self.begun) + 1)}s"

    def strict_on_healthy(self, since=None, least=0.99):
        """Critical work went over a healthy path wherever an admissible one was healthy."""
        good = bad = 0
        for record in decisions(since or self.begun):
            if record["workload"]["name"] not in STRICT:
                continue
            healthy = [c for c in record["candidates"] if c["path_state"] == "healthy" and c["admissible"]]
            if not healthy:
                continue
            chosen = [c for c in record["candidates"] if c["chosen"]]
            if chosen and chosen[0]["path_state"] == "healthy":
                good += 1
            else:
                bad += 1
        total = good + bad
        self.check(f"strict on healthy paths, where one exists: at least {least:.0%}",
                   total > 0 and good >= least * total, f"{good} of {total}")

    def _always(self):
        # What was true a moment ago is scraped, and the rules have been evaluated.
        time.sleep(2)
        span = self.span()
        used = query(f"max_over_time(seam:sessions_used:sum[{span}])")
        most = {labels["node"]: int(count) for labels, count in used if labels["node"] in DECODE}
        self.check(f"no over-commit: at most {SESSIONS} sessions a decode host", most and max(most.values()) <= SESSIONS,
                   most)
        overlaps, looks = self.overlaps.end()
        self.check("no two leases share memory", not overlaps, f"{len(overlaps)} pairs, {looks} looks")
        if others := [name for name in AGENTS if name not in self.disturbed]:
            most = down(span, "|".join(others))
            self.check(f"no healthy node was declared down: at most {self.lost_at_most} at any time",
                       most is not None and most <= self.lost_at_most, most)
        if self.strict:
            self.strict_on_healthy()
        self._nothing_is_lost()

    def _nothing_is_lost(self):
        """Without load every lease ends and every session is free again."""
        docker("stop", "seam-load")
        held = 'sum(seam_leases) == 0'
        free = f"sum(max by (pool) (seam_headroom_sessions)) == {SESSIONS * len(DECODE)}"
        try:
            # A lease of a holder that is gone ends with its time to live and its fence: 4 + 5 s, and what
            # a killed host's recovery adds.
            took = wait("every lease has ended", lambda: bool(query(held)) and bool(query(free)), 60)
            self.check("no lost lease: without load all end and all sessions are free", True, f"after {took:.0f} s")
        except TimeoutError:
            self.check("no lost lease: without load all end and all sessions are free", False,
                       {labels.get("node", "?") + " " + labels.get("state", ""): count
                        for labels, count in query("seam_leases > 0")} or query("seam_headroom_sessions"))
        docker("start", "seam-load")
