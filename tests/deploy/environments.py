"""Prints what the environment of each of three nodes is, as `NODE NAME=VALUE` lines: by a compose file that compose-go has read,
or by the StatefulSet among manifests of Kubernetes. Of a `restore`, the arguments of its Job, one a line."""

import sys

import yaml

kind, path = sys.argv[1:]
with open(path) as file:
    documents = [document for document in yaml.safe_load_all(file) if document]


def of_compose():
    nodes = {name: service for name, service in documents[0]["services"].items() if name.startswith("mintleaf-")}
    for name, service in sorted(nodes.items()):
        yield name.rsplit("-", 1)[1], service["environment"]


def of_kubernetes():
    [stateful] = [document for document in documents if document["kind"] == "StatefulSet"]
    [container] = stateful["spec"]["template"]["spec"]["containers"]
    first = stateful["spec"]["ordinals"]["start"]
    for ordinal in range(first, first + stateful["spec"]["replicas"]):
        environment = {}
        for variable in container["env"]:
            # The one value that is none is the number of the pod.
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            assert field in (None, "metadata.labels['apps.kubernetes.io/pod-index']"), field
            environment[variable["name"]] = variable.get("value", str(ordinal))
        yield str(ordinal), environment


def of_restore():
    [job] = [document for document in documents if document["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    [disk] = [volume for volume in pod["volumes"] if volume["name"] == "data"]
    assert disk["persistentVolumeClaim"]["claimName"] == "data-mintleaf-1", disk
    for document in documents:
        assert document["kind"] != "StatefulSet" or document["spec"]["replicas"] == 0, "nodes run during a restore"
    [container] = pod["containers"]
    return container["args"]


if kind == "restore":
    print("\n".join(of_restore()))
    sys.exit()
for node, environment in of_compose() if kind == "compose" else of_kubernetes():
    for name, value in environment.items():
        assert "\n" not in value, name
        print(node, f"{name}={value}")
