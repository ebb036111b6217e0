#!/usr/bin/env python3
"""Writes seam.json, the dashboard: `testbed/grafana/dashboard.py > testbed/grafana/seam.json`.

Its rows are the questions of whoever is called at night, in their order. A panel of what seldom
happens says what it means that it has no data. Only the standard library.
"""

import json


def news(by, counter):
    """What a counter has counted in a minute. Its series is born when it first counts, and `increase` takes what it
    is born with for old: of a series that was nowhere in the minute before that, all is new."""
    return (f"sum by ({by}) (({counter} unless last_over_time({counter}[1m] offset 1m)) "
            f"or increase({counter}[1m]))")


ROWS = [
    ("Is the mesh well?", [
        ("stat", "Agents that answer", [('sum(up{job="seam"})', "")], {}),
        ("stat", "Members that every agent sees", [('min(seam_members{state="alive"})', "")], {}),
        ("stat", "Healthy paths", [('sum(seam_paths{state="healthy"}) / sum(seam_paths)', "")], {"unit": "percentunit"}),
        ("stat", "Alerts that fire", [('count(ALERTS{alertstate="firing"}) or vector(0)', "")], {"red": 1}),
        ("timeseries", "GFS of every node", [("max by (node, perspective) (seam_node_gfs)", "{{node}} as {{perspective}}")],
         {"max": 1}),
        ("timeseries", "Members by state", [("sum by (state) (seam_members)", "{{state}}")], {}),
        ("table", "Alerts", [('ALERTS{alertstate="firing"}', "")], {"none": "none fires"}),
        ("table", "What runs", [("sum by (node, version, profile) (seam_build_info)", "")], {}),
    ]),
    ("Which paths are not, since when, whose fault?", [
        ("heatline", "Severity of every path", [("seam:path_severity:max", "{{node}} to {{peer}} {{rail}}")], {}),
        ("table", "Gray for how many seconds",
         [('time() - ALERTS_FOR_STATE{alertname=~"SeamPathGray|SeamPathQuarantined"}', "")], {"none": "none is gray"}),
        ("timeseries", "Share of a source's paths that are gray: the fault is its own if all are",
         [("seam:source_gray:ratio", "{{node}}")], {"unit": "percentunit", "max": 1}),
        ("timeseries", "Share of a destination's paths that are gray: its own if all are, else it lies between",
         [("seam:destination_gray:ratio", "{{peer}}")], {"unit": "percentunit", "max": 1}),
        ("timeseries", "GFS of every path", [("seam_path_gfs", "{{node}} to {{peer}} {{rail}}")], {"max": 1}),
        ("timeseries", "Latency p99 of every path", [("seam_path_latency_p99_seconds", "{{node}} to {{peer}} {{rail}}")],
         {"unit": "s"}),
        ("timeseries", "Jitter of every path", [("seam_path_jitter_seconds", "{{node}} to {{peer}} {{rail}}")], {"unit": "s"}),
        ("timeseries", "Drops of every path", [("seam_path_drop_ratio", "{{node}} to {{peer}} {{rail}}")],
         {"unit": "percentunit"}),
        ("timeseries", "Bandwidth that paths achieve of what is expected",
         [("seam_path_bandwidth_ratio", "{{node}} to {{peer}} {{rail}}")], {"unit": "percentunit", "none": "not measured"}),
        ("timeseries", "Changes of state",
         [(news("from, to", "seam_state_transitions_total"), "{{from}} to {{to}}")], {"none": "0"}),
    ]),
    ("What did policy do about it, per class?", [
        ("timeseries", "Decisions by class and outcome", [("seam:decisions:rate1m", "{{workload}} {{outcome}}")],
         {"unit": "reqps"}),
        ("timeseries", "Why candidates were refused",
         [("seam:rejections:rate1m", "{{workload}} {{code}}")], {"unit": "reqps", "none": "0"}),
        ("timeseries", "Share of a pool's paths that are excluded",
         [("max by (node, pool) (seam_excluded_fraction)", "{{pool}} for {{node}}")], {"unit": "percentunit", "max": 1}),
        ("timeseries", "Paths by state", [("sum by (state) (seam_paths)", "{{state}}")], {}),
        ("timeseries", "Time of a route, p99", [("seam:route_seconds:p99", "{{node}}")], {"unit": "s"}),
        ("timeseries", "Time of a decision alone, p99",
         [("histogram_quantile(0.99, sum by (node, le) (rate(seam_decision_seconds_bucket[1m])))", "{{node}}")], {"unit": "s"}),
    ]),
    ("How much headroom is left?", [
        ("timeseries", "Sessions free in each pool", [("seam:headroom_sessions:max", "{{pool}}")], {}),
        ("timeseries", "KV bytes free in each pool", [("max by (pool) (seam_headroom_kv_bytes)", "{{pool}}")],
         {"unit": "bytes"}),
        ("timeseries", "Sessions given away by each decode host", [("seam:sessions_used:sum", "{{node}}")], {}),
        ("timeseries", "Leases by state", [("sum by (state) (seam_leases)", "{{state}}")], {}),
        ("timeseries", "Answers to requests for a lease",
         [("sum by (result) (rate(seam_lease_requests_total[1m]))", "{{result}}")], {"unit": "reqps"}),
        ("timeseries", "Grants nothing yet", [("max by (node) (seam_recovering)", "{{node}}")], {"max": 1}),
    ]),
    ("What did transfers feel?", [
        ("timeseries", "Time of an attempt, p99", [("seam:transfer_seconds:p99", "{{node}}")], {"unit": "s"}),
        ("timeseries", "Time of an attempt, p50",
         [("histogram_quantile(0.5, sum by (node, le) (rate(seam_transfer_seconds_bucket[1m])))", "{{node}}")], {"unit": "s"}),
        ("timeseries", "Attempts by result", [("sum by (result) (rate(seam_transfers_total[1m]))", "{{result}}")],
         {"unit": "reqps"}),
        ("timeseries", "Bytes moved", [("sum by (direction) (rate(seam_transfer_bytes_total[1m]))", "{{direction}}")],
         {"unit": "Bps"}),
        ("timeseries", "Time of a probe, p99",
         [("histogram_quantile(0.99, sum by (node, le) (rate(seam_probe_seconds_bucket[1m])))", "{{node}}")], {"unit": "s"}),
        ("timeseries", "Probes by result", [("sum by (result) (rate(seam_probes_total[1m]))", "{{result}}")], {"unit": "reqps"}),
        ("timeseries", "Bytes of bulk probes",
         [("sum by (node) (rate(seam_bulk_probe_bytes_total[1m]))", "{{node}}")], {"unit": "Bps", "none": "0"}),
    ]),
    ("Can these numbers be trusted?", [
        ("timeseries", "How late each host itself is", [("max by (node) (seam_node_late_ratio)", "{{node}}")],
         {"unit": "percentunit", "max": 1}),
        ("timeseries", "Frozen: too late to judge", [("max by (node) (seam_node_frozen)", "{{node}}")], {"max": 1, "none": "0"}),
        ("timeseries", "Samples not used",
         [("sum by (node, reason) (rate(seam_samples_discarded_total[1m]))", "{{node}} {{reason}}")], {"none": "0"}),
        ("timeseries", "Age of the oldest record", [("max by (node, kind) (seam_record_age_seconds)", "{{node}} {{kind}}")],
         {"unit": "s"}),
        ("timeseries", "Records held", [("max by (kind) (seam_records)", "{{kind}}")], {}),
        ("timeseries", "Bytes of gossip",
         [("sum by (direction, kind) (rate(seam_gossip_bytes_total[1m]))", "{{direction}} {{kind}}")], {"unit": "Bps"}),
        ("timeseries", "Refused by the mesh and by rails",
         [(news("node, reason", "seam_mesh_refused_total"), "mesh {{node}} {{reason}}"),
          (news("node, reason", "seam_rail_refused_total"), "rail {{node}} {{reason}}")], {"none": "0"}),
        ("timeseries", "Errors of RDMA devices and ports",
         [(news("node, rail, counter", "seam_rail_device_errors_total"), "{{node}} {{rail}} {{counter}}")],
         {"none": "0"}),
        ("timeseries", "Turned away by queues",
         [(news("node, queue", "seam_queue_dropped_total"), "{{node}} {{queue}}")], {"none": "0"}),
        ("timeseries", "Journal, bytes", [("sum by (node) (rate(seam_journal_bytes_total[1m]))", "{{node}}")], {"unit": "Bps"}),
        ("timeseries", "Journal, gaps", [("sum by (node) (seam_journal_gaps_total)", "{{node}}")], {}),
        ("timeseries", "Configuration read anew",
         [("sum by (node, result) (seam_config_reloads_total)", "{{node}} {{result}}")], {"none": "0"}),
        ("timeseries", "Different configurations", [("count by (config_hash) (seam_config_info)", "{{config_hash}}")], {}),
        ("timeseries", "Paths without series of their own",
         [("sum by (node) (rate(seam_path_series_omitted_total[1m]))", "{{node}}")], {"none": "0"}),
    ]),
]

WIDTH = {"stat": 6, "timeseries": 12, "heatline": 12, "table": 12}
HEIGHT = {"stat": 4, "timeseries": 8, "heatline": 8, "table": 8}
SOURCE = {"type": "prometheus", "uid": "seam-prometheus"}
SEVERITY = [(None, "green"), (0.1, "blue"), (0.2, "yellow"), (0.55, "orange"), (0.8, "red")]


def panel(kind, title, queries, look):
    defaults = {"unit": look.get("unit", "short"), "min": 0}
    if "max" in look:
        defaults["max"] = look["max"]
    if "none" in look:
        defaults["noValue"] = look["none"]
    steps = SEVERITY if kind == "heatline" else [(None, "green"), (look["red"], "red")] if "red" in look else []
    if steps:
        defaults["thresholds"] = {"mode": "absolute", "steps": [{"value": at, "color": colour} for at, colour in steps]}
        defaults["color"] = {"mode": "thresholds"}
    at_once = kind in ("table", "stat")
    targets = [{"refId": "ABC"[number], "expr": text, "legendFormat": legend or "__auto", "instant": at_once,
                "range": not at_once, "format": "table" if kind == "table" else "time_series"}
               for number, (text, legend) in enumerate(queries)]
    return {"type": "state-timeline" if kind == "heatline" else kind, "title": title, "datasource": SOURCE,
            "fieldConfig": {"defaults": defaults, "overrides": []}, "targets": targets}


def dashboard():
    panels, y = [], 0
    for title, row in ROWS:
        panels.append({"type": "row", "title": title, "collapsed": False, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y, x, tallest = y + 1, 0, 0
        for kind, *rest in row:
            if x + WIDTH[kind] > 24:
                x, y, tallest = 0, y + tallest, 0
            panels.append({**panel(kind, *rest), "gridPos": {"x": x, "y": y, "w": WIDTH[kind], "h": HEIGHT[kind]}})
            x, tallest = x + WIDTH[kind], max(tallest, HEIGHT[kind])
        y += tallest
    for number, one in enumerate(panels, 1):
        one["id"] = number
    return {"uid": "seam", "title": "Seam", "tags": ["seam"], "schemaVersion": 39, "refresh": "5s",
            "time": {"from": "now-15m", "to": "now"}, "panels": panels}


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
