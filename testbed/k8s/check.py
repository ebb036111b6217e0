"""What a schema cannot say of the manifests: that their names meet, and that their configurations are good.

Run by testbed/k8s/check, with PyYAML, and the agent that is to read them.
"""

import os
import re
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = sys.argv[1]

with open(f"{HERE}/seam.yaml", encoding="utf-8") as file:
    text = file.read()
objects = list(yaml.safe_load_all(text))
# What the commands at its head make, in the words of the file.
made = set(re.findall(r"^#   kubectl -n seam create secret generic (\S+)", text, re.M))
with open(f"{HERE}/podmonitor.yaml", encoding="utf-8") as file:
    monitor = yaml.safe_load(file)

wrong = []
of_kind = {}
for one in objects:
    of_kind.setdefault(one["kind"], []).append(one)
for kind in ("DaemonSet", "Service", "ConfigMap", "NetworkPolicy"):
    if kind not in of_kind:
        wrong.append(f"no {kind}")
if "Secret" in of_kind:
    wrong.append("a Secret lies in the file: everyone who applies it would have the same one")
config = of_kind["ConfigMap"][0]["data"]

for daemons in of_kind["DaemonSet"]:
    name, pod = daemons["metadata"]["name"], daemons["spec"]["template"]
    spec, labels = pod["spec"], pod["metadata"]["labels"]
    if daemons["spec"]["selector"]["matchLabels"] != labels:
        wrong.append(f"{name}: its selector is not its pods' labels")
    if not spec["securityContext"].get("runAsNonRoot"):
        wrong.append(f"{name}: may run as root")
    volumes = {volume["name"] for volume in spec["volumes"]}
    wrong += [f"{name}: nothing makes the secret {volume['secret']['secretName']}"
              for volume in spec["volumes"] if "secret" in volume and volume["secret"]["secretName"] not in made]
    for container in spec["initContainers"] + spec["containers"]:
        confined = container["securityContext"]
        if confined["allowPrivilegeEscalation"] or not confined["readOnlyRootFilesystem"]:
            wrong.append(f"{name}/{container['name']}: not confined")
        wrong += [f"{name}/{container['name']}: no volume {mount['name']}"
                  for mount in container["volumeMounts"] if mount["name"] not in volumes]
    ports = {port["name"] for port in spec["containers"][0]["ports"]}
    wrong += [f"PodMonitor: {name} has no port {end['port']}"
              for end in monitor["spec"]["podMetricsEndpoints"] if end["port"] not in ports]
    if not monitor["spec"]["selector"]["matchLabels"].items() <= labels.items():
        wrong.append(f"PodMonitor: does not select {name}")

    text = config[f"{labels['seam.role']}.toml"] + config["common.toml"]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text.replace("@NODE@", "node-0").replace("@IP@", "192.0.2.1"))
        file.flush()
        done = subprocess.run([AGENT, "--config", file.name, "--check"], capture_output=True, text=True)
        if done.returncode != 0:
            wrong.append(f"{name}: {done.stderr.strip()}")

if wrong:
    sys.exit("\n".join(wrong))
print(f"{len(objects) + 1} manifests are valid")
