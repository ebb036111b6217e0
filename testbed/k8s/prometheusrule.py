#!/usr/bin/env python3
"""Writes prometheusrule.yaml: `testbed/k8s/prometheusrule.py > testbed/k8s/prometheusrule.yaml`.

The rules and alerts of ../prometheus, for clusters with the Prometheus operator. Only the standard library.
"""

import os

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = """\
# For clusters with the Prometheus operator; made by prometheusrule.py of ../prometheus/rules.yml and alerts.yml.
# A Prometheus that selects rules by labels needs those labels here.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: seam
  namespace: seam
spec:
  groups:
"""


def groups(name):
    """What a file of rules holds, without its head."""
    with open(f"{HERE}/../prometheus/{name}", encoding="utf-8") as file:
        return file.read().split("groups:\n", 1)[1]


def text():
    lines = (groups("rules.yml") + groups("alerts.yml")).splitlines()
    return HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines)


if __name__ == "__main__":
    print(text(), end="")
