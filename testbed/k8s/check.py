"""What a schema cannot say of the manifests: that their names meet, and that their configurations are good.

Run by testbed/k8s/check, with PyYAML, and the agent that is to read them.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib

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

with open(f"{HERE}/prometheusrule.yaml", encoding="utf-8") as file:
    rule = yaml.safe_load(file)

wrong = []
groups = [group["name"] for group in rule["spec"]["groups"]]
if len(set(groups)) < len(groups):
    wrong.append(f"PrometheusRule: groups of one name: {groups}")
of_kind = {}
for one in objects:
    of_kind.setdefault(one["kind"], []).append(one)
for kind in ("DaemonSet", "Service", "ConfigMap", "NetworkPolicy"):
    if kind not in of_kind:
        wrong.append(f"no {kind}")
if "Secret" in of_kind:
    wrong.append("a Secret lies in the file: everyone who applies it would have the same one")
config = of_kind["ConfigMap"][0]["data"]


def selected(selector):
    """The DaemonSets whose pods have these labels."""
    return [one for one in of_kind["DaemonSet"]
            if selector.items() <= one["spec"]["template"]["metadata"]["labels"].items()]


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def volume_of(path, container):
    """The deepest mount on which a path of a container lies; none if it lies in the image."""
    mounts = [mount for mount in container["volumeMounts"]
              if os.path.commonpath([path, mount["mountPath"]]) == mount["mountPath"]]
    return max(mounts, key=lambda mount: len(mount["mountPath"]), default=None)


def agent_of(daemons):
    """The agent's container and its configuration."""
    spec = daemons["spec"]["template"]
    role = spec["metadata"]["labels"]["seam.role"]
    text = config[f"{role}.toml"] + config["common.toml"]
    return spec["spec"]["containers"][0], text.replace("@NODE@", "node-0").replace("@IP@", "192.0.2.1")


def bound(toml):
    """The ports that a configuration binds, each with its protocol."""
    udp = [toml["mesh"]["bind"], *(rail["bind"] for rail in toml["rails"])]
    return {(port_of(toml["api"]["bind"]), "TCP"), *((port_of(bind), "UDP") for bind in udp)}


for service in of_kind["Service"]:
    name, targets = service["metadata"]["name"], selected(service["spec"]["selector"])
    if not targets:
        wrong.append(f"Service {name}: selects no pods")
    for daemons in targets:
        ports = {(port["containerPort"], port.get("protocol", "TCP")) for port in agent_of(daemons)[0]["ports"]}
        wrong += [f"Service {name}: {daemons['metadata']['name']} has no port {port['port']}"
                  for port in service["spec"]["ports"]
                  if (port.get("targetPort", port["port"]), port.get("protocol", "TCP")) not in ports]

for policy in of_kind["NetworkPolicy"]:
    targets = selected(policy["spec"]["podSelector"]["matchLabels"])
    if len(targets) < len(of_kind["DaemonSet"]):
        wrong.append("NetworkPolicy: does not select every agent")

    def opened(rules):
        return {(port["port"], port["protocol"]) for rule in rules for port in rule["ports"]}

    among_agents = [rule for rule in policy["spec"]["egress"] if "namespaceSelector" not in rule["to"][0]]
    for daemons in targets:
        ports = bound(tomllib.loads(agent_of(daemons)[1]))
        if opened(policy["spec"]["ingress"]) != ports:
            wrong.append(f"NetworkPolicy: lets in what {daemons['metadata']['name']} does not bind, or not all of it")
        if opened(among_agents) != {port for port in ports if port[1] == "UDP"}:
            wrong.append(f"NetworkPolicy: {daemons['metadata']['name']} does not reach the others' UDP ports alone")

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
        if confined["allowPrivilegeEscalation"] or not confined["readOnlyRootFilesystem"] \
                or confined["capabilities"]["drop"] != ["ALL"]:
            wrong.append(f"{name}/{container['name']}: not confined")
        # Root is who prepares the folder of the node, with one capability and before anything listens.
        root = confined.get("runAsUser", spec["securityContext"]["runAsUser"]) == 0
        added = confined["capabilities"].get("add", [])
        if (root or added) and (container["name"] != "own" or added != ["CHOWN"] or container in spec["containers"]):
            wrong.append(f"{name}/{container['name']}: is root, or may more than a user")
        wrong += [f"{name}/{container['name']}: no volume {mount['name']}"
                  for mount in container["volumeMounts"] if mount["name"] not in volumes]
    agent, text = agent_of(daemons)
    toml = tomllib.loads(text)
    ports = {port["name"] for port in agent["ports"]}
    wrong += [f"{name}: no port {agent[probe]['httpGet']['port']}, named by its {probe}"
              for probe in ("startupProbe", "readinessProbe", "livenessProbe")
              if agent[probe]["httpGet"]["port"] not in ports]
    if {(port["containerPort"], port.get("protocol", "TCP")) for port in agent["ports"]} != bound(toml):
        wrong.append(f"{name}: its ports are not those that its configuration binds")
    services = {(f"{one['metadata']['name']}.{one['metadata']['namespace']}.svc", port["port"])
                for one in of_kind["Service"] for port in one["spec"]["ports"]}
    wrong += [f"{name}: no service is its seed {seed}"
              for seed in toml["mesh"]["seeds"] if (seed.rsplit(":", 1)[0], port_of(seed)) not in services]
    written = [toml["node"]["data_dir"], toml["journal"]["dir"], toml["arena"]["path"]]
    for path in written:
        mount = volume_of(path, agent)
        if mount is None or mount.get("readOnly"):
            wrong.append(f"{name}: {path} cannot be written")
    # The file `leases` must live as long as the arena.
    kinds = {mount["name"]: next(kind for kind in volume if kind != "name")
             for path in (toml["node"]["data_dir"], toml["arena"]["path"]) if (mount := volume_of(path, agent))
             for volume in spec["volumes"] if volume["name"] == mount["name"]}
    if set(kinds.values()) != {"hostPath"}:
        wrong.append(f"{name}: node.data_dir and arena.path do not live equally long: {kinds}")
    wrong += [f"{name}: {path} lies on no volume"
              for path in (*toml["tls"].values(), toml["api"]["token_file"]) if volume_of(path, agent) is None]
    wrong += [f"PodMonitor: {name} has no port {end['port']}"
              for end in monitor["spec"]["podMetricsEndpoints"] if end["port"] not in ports]
    if not monitor["spec"]["selector"]["matchLabels"].items() <= labels.items():
        wrong.append(f"PodMonitor: does not select {name}")

    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([AGENT, "--config", file.name, "--check"], capture_output=True, text=True)
        if done.returncode != 0:
            wrong.append(f"{name}: {done.stderr.strip()}")

if wrong:
    sys.exit("\n".join(wrong))
print(f"{len(objects) + 2} manifests are valid")
