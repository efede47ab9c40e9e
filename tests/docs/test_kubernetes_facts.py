"""The manifests of deploy/k8s agree with Paddock: its settings, its commands, its image, and its HTTP API."""

import json
import re
import warnings
from pathlib import Path

import click
import pytest
from fastapi import FastAPI
from tests.support.manifests import (
    FOLDER,
    FOLDERS,
    PAGE,
    POD_FACTS,
    ROOT,
    build_monitoring,
    build_shipped,
    find,
    list_peers,
    list_pods,
    read_documents,
    selects,
)

from paddock.model.errors import ConfigurationError
from paddock.model.limits import MIB
from paddock.policy.settings.loader import FILE_NAME, SYSTEM_FILE, TOKEN_VARIABLE, load, user_file
from paddock.surfaces.cli.root import command as paddock_command
from paddock.surfaces.http_api import service
from paddock.surfaces.http_api.app import ROUTERS
from paddock.surfaces.http_api.openapi import build_document
from paddock.surfaces.http_api.service_routes import METRICS_PATH, OPEN_PATHS

DOCKERFILE = (ROOT / "Dockerfile").read_text()
PORT = 8700
SERVING = ("base", "overlays/agent-sandbox")
"""Folders whose pods serve the HTTP API; those of gvisor and kata are the same as those of the base."""
GIB = 1024 * MIB


@pytest.fixture(params=FOLDERS)
def documents(request, kubernetes_tools):
    """The documents of each folder."""
    return read_documents(build_shipped(kubernetes_tools, request.param))


@pytest.fixture
def pods(documents):
    """The pods of each folder."""
    found = list(list_pods(documents))
    assert found
    return found


@pytest.fixture(params=SERVING)
def server(request, kubernetes_tools):
    """Each pod that serves."""
    documents = read_documents(build_shipped(kubernetes_tools, request.param))
    [pod] = [pod for pod in list_pods(documents) if "serve" in pod.container["args"]]
    return pod


def load_settings(folder, variables, tmp_path, monkeypatch):
    """Return what Paddock loads in a pod with these variables, and which source each setting has."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = {name: value for name, value in variables.items() if name.startswith("PADDOCK_")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load(tmp_path, environment=own, system=FOLDER / folder / FILE_NAME)


def find_source(pod, path):
    """Return the volume at a path of the container, and the path within it; None if it is of the image."""
    mounts = [
        each for each in pod.container.get("volumeMounts", []) if path.is_relative_to(each["mountPath"])
    ]
    if not mounts:
        return None
    mount = max(mounts, key=lambda each: len(each["mountPath"]))
    [volume] = [each for each in pod.spec["volumes"] if each["name"] == mount["name"]]
    return volume, mount, path.relative_to(mount["mountPath"])


def parse(arguments):
    """Return the command that arguments name, and its parameters. Raises UsageError."""
    command, context = paddock_command, click.Context(paddock_command, info_name="paddock")
    while isinstance(command, click.Group):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, name
        command, context = found, click.Context(found, info_name=name, parent=context)
    return command.name, command.make_context(command.name, list(arguments), parent=context.parent).params


def test_settings_of_the_base_load_and_say_what_they_seem_to(kubernetes_tools, tmp_path, monkeypatch):
    documents = read_documents(build_shipped(kubernetes_tools, "base"))
    assert find(documents, "ConfigMap")["data"] == {FILE_NAME: (FOLDER / "base" / FILE_NAME).read_text()}
    [pod] = [pod for pod in list_pods(documents) if pod.owner["kind"] == "Deployment"]
    merged = load_settings("base", pod.variables, tmp_path, monkeypatch)
    own = {key: value for key, value in merged.sources.items() if value != "built in"}
    assert {key for key, where in own.items() if where.startswith("PADDOCK_")} == {
        "cluster.node",
        "cluster.node_url",
    }
    settings = merged.settings
    assert (settings.cluster.node, settings.cluster.node_url) == (
        POD_FACTS["metadata.name"],
        f"http://{POD_FACTS['status.podIP']}:{PORT}",
    )
    assert settings.cluster.url == (
        "postgresql://paddock@postgresql/paddock?service=paddock&sslmode=verify-full"
        "&sslrootcert=/secrets/database/ca.crt"
    )
    assert settings.artifacts.url == "s3://paddock/artifacts"
    assert (settings.mcp.shutdown_grace_ms, settings.telemetry.metrics) == (30_000, True)
    assert (settings.serve.max_jobs, settings.runtimes.max_jobs, settings.guest.max_workers) == (4, 4, 4)
    assert settings.runtimes.memory_bytes == GIB


@pytest.mark.parametrize("folder", ["overlays/agent-sandbox", "overlays/kuberay"])
def test_settings_of_an_overlay_load(folder, kubernetes_tools, tmp_path, monkeypatch):
    documents = read_documents(build_shipped(kubernetes_tools, folder))
    assert find(documents, "ConfigMap")["data"] == {FILE_NAME: (FOLDER / folder / FILE_NAME).read_text()}
    merged = load_settings(folder, {}, tmp_path, monkeypatch)
    settings = merged.settings
    assert (settings.cluster.url, settings.artifacts.url) == (None, None)
    assert (settings.runtimes.max_jobs, settings.guest.max_workers, settings.runtimes.memory_bytes) == (
        1,
        1,
        GIB,
    )
    if folder.endswith("kuberay"):
        assert (settings.runtimes.network, settings.runtimes.access) == ("none", "none")


def test_a_pod_needs_no_variables_of_services(pods, tmp_path):
    """With them, a Service named paddock stops each Paddock of its namespace."""
    assert {pod.spec["enableServiceLinks"] for pod in pods} == {False}
    with pytest.raises(ConfigurationError, match=r"^PADDOCK_PORT: unknown variable"):
        load(tmp_path, environment={"PADDOCK_PORT": "tcp://10.0.0.1:8700"})


def test_variables_for_paddock_are_settings_and_no_secret(pods, tmp_path):
    for pod in pods:
        assert [each["name"] for each in pod.container.get("env", []) if "secretKeyRef" in str(each)] == []
        own = {name: value for name, value in pod.variables.items() if name.startswith("PADDOCK_")}
        load(tmp_path, environment=own, system=tmp_path / FILE_NAME)
        assert all("$(" not in value for value in pod.variables.values())


def test_settings_and_tokens_are_where_paddock_reads_them(server, monkeypatch):
    volume, mount, inside = find_source(server, SYSTEM_FILE)
    assert ("configMap" in volume, mount["readOnly"], str(inside)) == (True, True, FILE_NAME)
    if "XDG_CONFIG_HOME" in server.variables:
        monkeypatch.setenv("XDG_CONFIG_HOME", server.variables["XDG_CONFIG_HOME"])
        volume, mount, inside = find_source(server, user_file())
        assert volume["secret"]["optional"] is True
        assert (volume["secret"]["secretName"], str(inside)) == ("paddock-tokens", FILE_NAME)
    assert TOKEN_VARIABLE not in server.variables
    assert read_key(server, parse(server.arguments)[1]["token_file"]) == "paddock-owner/token"


def test_files_that_settings_name_are_mounted(kubernetes_tools, tmp_path, monkeypatch):
    documents = read_documents(build_shipped(kubernetes_tools, "base"))
    [server, migrate] = sorted(list_pods(documents), key=lambda pod: pod.owner["kind"])
    settings = load_settings("base", {}, tmp_path, monkeypatch).settings
    cluster = settings.cluster
    root = Path(cluster.url.partition("sslrootcert=")[2])
    expected = {
        cluster.key_file: "paddock-keys/forwarding",
        cluster.checkpoint_key_file: "paddock-keys/checkpoint.pem",
        settings.vault.key_file: "paddock-keys/vault",
        root: "paddock-database/ca.crt",
    }
    for path, key in expected.items():
        assert read_key(server, path) == key
    assert read_key(migrate, root) == expected[root]
    for pod in (server, migrate):
        assert read_key(pod, Path(pod.variables["PGSERVICEFILE"])) == "paddock-database/service.conf"
    assert cluster.url.partition("?service=")[2].partition("&")[0] == "paddock"
    assert "printf '[paddock]\\npassword=%s\\n'" in PAGE


def read_key(pod, path):
    """Return the key of a Secret that is mounted at a path, `SECRET/KEY`."""
    volume, mount, inside = find_source(pod, path)
    assert mount["readOnly"] is True
    [item] = [each for each in volume["secret"]["items"] if each["path"] == str(inside)]
    return f"{volume['secret']['secretName']}/{item['key']}"


def test_everything_that_is_mounted_exists(documents, pods):
    made = {each["metadata"]["name"] for each in documents if each["kind"] == "ConfigMap"}
    for pod in pods:
        volumes = {each["name"]: each for each in pod.spec.get("volumes", [])}
        mounts = [each["name"] for each in pod.container.get("volumeMounts", [])]
        assert sorted(mounts) == sorted(volumes)
        named = {each["configMap"]["name"] for each in volumes.values() if "configMap" in each}
        assert named <= made
        account = pod.spec.get("serviceAccountName")
        assert account is None or find(documents, "ServiceAccount", account)


def test_the_page_makes_every_secret_and_no_other(kubernetes_tools, tmp_path):
    needed = set()
    for folder in FOLDERS:
        for pod in list_pods(read_documents(build_shipped(kubernetes_tools, folder))):
            for volume in pod.spec.get("volumes", []):
                secret = volume.get("secret", {})
                name = secret.get("secretName")
                needed |= {(name, item["key"]) for item in secret.get("items", [{"key": FILE_NAME}]) if name}
            needed |= {
                tuple(value.split("/")) for value in pod.variables.values() if value.startswith("paddock-")
            }
            needed |= {(each["secretRef"]["name"], "") for each in pod.container.get("envFrom", [])}
    needed.discard((POD_FACTS["metadata.name"],))
    credentials = find(build_monitoring(kubernetes_tools, tmp_path), "PodMonitor")["spec"][
        "podMetricsEndpoints"
    ]
    named = ["{name}/{key}".format_map(each["authorization"]["credentials"]) for each in credentials]
    needed |= {tuple(each.split("/")) for each in named}
    made = set()
    for name, rest in re.findall(r"kubectl create secret generic (\S+)((?:\s+\\\n|\s+--from-\S+)+)", PAGE):
        made |= {(name, key) for key in re.findall(r"--from-file=([\w.]+)", rest)}
        made |= {(name, "") for _ in re.findall(r"--from-env-file", rest)}
    assert made == needed
    rows = re.findall(r"^\| `(paddock-\w+)` \| (`[^|]*) \|", PAGE, re.MULTILINE)
    assert {name for name, _ in rows if (name, "") not in needed} >= {name for name, key in needed if key}


def test_commands_are_those_of_the_command_line(kubernetes_tools):
    documents = read_documents(build_shipped(kubernetes_tools, "base"))
    [server, migrate] = sorted(list_pods(documents), key=lambda pod: pod.owner["kind"])
    assert parse(migrate.arguments)[0] == "migrate"
    name, given = parse(server.arguments)
    assert (name, given["address"], given["behind_proxy"]) == ("http", f"0.0.0.0:{PORT}", True)
    assert given["hosts"] == ("paddock.example.com", "paddock", POD_FACTS["status.podIP"])
    assert given["hosts"][1] == find(documents, "Service")["metadata"]["name"]
    for line in re.findall(
        r"-- paddock (.+)$|`paddock (serve token new|cluster migrate)`", PAGE, re.MULTILINE
    ):
        words = re.split(r" [\\|]", "".join(line))[0].split()
        assert parse([*words, "alice"] if words[-1] == "new" else words)


def test_the_pod_of_an_agent_has_the_command_of_the_base(kubernetes_tools):
    documents = read_documents(build_shipped(kubernetes_tools, "overlays/agent-sandbox"))
    [pod] = list_pods(documents)
    name, given = parse(pod.arguments)
    assert (name, given["address"], given["behind_proxy"]) == ("http", f"0.0.0.0:{PORT}", True)


def test_ports_agree(server, kubernetes_tools):
    [port] = server.container["ports"]
    assert port == {"name": "http", "containerPort": PORT}
    assert re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE) == [str(PORT)]
    probes = [value for name, value in server.container.items() if name.endswith("Probe")]
    assert {probe["httpGet"]["port"] for probe in probes} == {"http"}
    service_ports = find(read_documents(build_shipped(kubernetes_tools, "base")), "Service")["spec"]["ports"]
    assert service_ports == [{"name": "http", "port": PORT, "targetPort": "http"}]


def test_probes_are_paths_of_the_api_that_need_no_token(server):
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    paths = build_document(app, OPEN_PATHS)["paths"]
    probes = {
        name: value["httpGet"]["path"] for name, value in server.container.items() if name.endswith("Probe")
    }
    assert probes["livenessProbe"] == "/livez"
    assert probes["readinessProbe"] == "/readyz"
    assert probes.get("startupProbe", "/livez") == "/livez"
    assert set(probes.values()) <= set(paths) & OPEN_PATHS


def test_a_pod_has_time_to_end(server, kubernetes_tools, tmp_path, monkeypatch):
    folder = "base" if server.owner["kind"] == "Deployment" else "overlays/agent-sandbox"
    settings = load_settings(folder, {}, tmp_path, monkeypatch).settings
    longest = (settings.serve.drain_ms + settings.mcp.shutdown_grace_ms) / 1000 + service._ANSWERS_S
    assert longest < server.spec["terminationGracePeriodSeconds"]
    if folder == "base":
        readiness = server.container["readinessProbe"]["periodSeconds"]
        assert (settings.serve.drain_ms, settings.mcp.shutdown_grace_ms) == (5_000, 30_000)
        assert settings.serve.drain_ms >= readiness * 1000
        assert f"{server.spec['terminationGracePeriodSeconds']} seconds in all" in PAGE


def test_a_pod_is_as_restricted_as_the_container_of_the_guide(server, pods):
    [user] = re.findall(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)
    for pod in [server, *pods]:
        assert "privileged" not in json.dumps(pod.spec)
        assert (
            pod.spec.keys() & {"hostNetwork", "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"}
            == set()
        )
        own, container = pod.spec["securityContext"], pod.container["securityContext"]
        assert (own["runAsNonRoot"], own["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
        assert (container["allowPrivilegeEscalation"], container["capabilities"]) == (
            False,
            {"drop": ["ALL"]},
        )
        is_head = pod.container["name"] == "ray-head"  # its autoscaler asks the API server
        assert pod.spec.get("automountServiceAccountToken") is (None if is_head else False)
        if pod.owner["kind"] != "RayCluster":
            assert container["readOnlyRootFilesystem"] is True
            assert [own[name] for name in ("runAsUser", "runAsGroup", "fsGroup")] == [int(user)] * 3


def test_what_is_written_belongs_to_one_pod(server):
    """The directories of the image's variables, and nothing that two replicas share."""
    variables = dict(re.findall(r"(HOME|XDG_STATE_HOME|XDG_CACHE_HOME)=(\S+)", DOCKERFILE))
    for path in [*variables.values(), "/tmp/program"]:
        volume, mount, _ = find_source(server, Path(path))
        assert "emptyDir" in volume
        assert "readOnly" not in mount
    writable = [each["mountPath"] for each in server.container["volumeMounts"] if not each.get("readOnly")]
    assert sorted(writable) == ["/state", "/tmp"]
    assert not any("persistentVolumeClaim" in each for each in server.spec["volumes"])


@pytest.mark.parametrize("folder", ["base", "overlays/agent-sandbox", "overlays/kuberay"])
def test_programs_fit_into_a_pod(folder, kubernetes_tools, tmp_path, monkeypatch):
    settings = load_settings(folder, {}, tmp_path, monkeypatch).settings
    pods = list_pods(read_documents(build_shipped(kubernetes_tools, folder)))
    [limits] = [
        pod.container["resources"]["limits"]
        for pod in pods
        if pod.owner["kind"] != "Job" and pod.container["name"] != "ray-head"
    ]
    processors = int(limits["cpu"])
    paddocks = processors if folder.endswith("kuberay") else 1
    assert settings.runtimes.max_jobs * paddocks == processors
    guest = settings.limits.script.memory_bytes
    programs = settings.runtimes.max_jobs * settings.runtimes.memory_bytes
    guests = settings.guest.max_workers * guest
    assert paddocks * max(programs, guests) < int(limits["memory"].removesuffix("Gi")) * GIB


def read_size(text):
    """Return a quantity of Kubernetes in MiB."""
    return int(text[:-2]) * {"Mi": 1, "Gi": 1024}[text[-2:]]


def test_a_pod_may_use_less_disk_than_its_volumes_alone_would_need(pods):
    for pod in pods:
        resources = pod.container["resources"]
        wanted, most = (read_size(resources[name]["ephemeral-storage"]) for name in ("requests", "limits"))
        volumes = [each["emptyDir"] for each in pod.spec.get("volumes", []) if "emptyDir" in each]
        assert wanted <= most
        assert sum(read_size(each["sizeLimit"]) for each in volumes) < most


def test_replicas_are_spread_over_zones_and_nodes(kubernetes_tools):
    documents = read_documents(build_shipped(kubernetes_tools, "base"))
    [pod] = [pod for pod in list_pods(documents) if pod.owner["kind"] == "Deployment"]
    found = pod.spec["topologySpreadConstraints"]
    assert [(each["topologyKey"], each["maxSkew"], each["whenUnsatisfiable"]) for each in found] == [
        ("topology.kubernetes.io/zone", 1, "ScheduleAnyway"),
        ("kubernetes.io/hostname", 1, "ScheduleAnyway"),
    ]
    assert all(selects(each["labelSelector"], pod.metadata["labels"]) for each in found)


def test_the_migration_can_be_applied_before_the_replicas(kubernetes_tools):
    [selector] = {*re.findall(r"^kubectl apply -k \. --selector '(.+)'$", PAGE, re.MULTILINE)}
    label, _, value = selector.partition("!=")
    documents = read_documents(build_shipped(kubernetes_tools, "base"))
    first = [each for each in documents if each["metadata"].get("labels", {}).get(label) != value]
    kinds = {each["kind"] for each in documents} - {each["kind"] for each in first}
    assert kinds == {"Deployment", "Service"}
    [migrate] = list_pods(first)
    assert parse(migrate.arguments)[0] == "migrate"
    named = {each["configMap"]["name"] for each in migrate.spec["volumes"] if "configMap" in each}
    assert named == {each["metadata"]["name"] for each in first if each["kind"] == "ConfigMap"}
    assert find(first, "ServiceAccount", migrate.spec["serviceAccountName"])
    steps = re.findall(r"^kubectl (apply -k \.|wait|rollout)(?= |$)", PAGE, re.MULTILINE)
    assert steps == ["apply -k .", "wait", "apply -k .", "rollout"] * 2


def test_prometheus_finds_the_replicas_under_the_job_of_the_rules(kubernetes_tools, tmp_path):
    documents = build_monitoring(kubernetes_tools, tmp_path)
    [pod] = [pod for pod in list_pods(documents) if pod.owner["kind"] == "Deployment"]
    monitor = find(documents, "PodMonitor")
    assert selects(monitor["spec"]["selector"], pod.metadata["labels"])
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == (pod.container["ports"][0]["name"], METRICS_PATH)
    jobs = set(re.findall(r'job="(\w+)"', str(find(documents, "PrometheusRule"))))
    assert jobs == {pod.metadata["labels"][monitor["spec"]["jobLabel"]]}


def test_selectors_select_the_pods_of_the_base(kubernetes_tools):
    documents = read_documents(build_shipped(kubernetes_tools, "base"))
    [server, migrate] = sorted(list_pods(documents), key=lambda pod: pod.owner["kind"])
    labels = server.metadata["labels"]
    for selector in (
        server.owner["spec"]["selector"],
        find(documents, "PodDisruptionBudget")["spec"]["selector"],
        {"matchLabels": find(documents, "Service")["spec"]["selector"]},
        server.spec["topologySpreadConstraints"][0]["labelSelector"],
    ):
        assert selects(selector, labels)
        assert not selects(selector, migrate.metadata["labels"])
    scaler = find(documents, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "paddock"}
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 12)
    assert "keeps 3 to 12 replicas" in PAGE
    assert "replicas" not in server.owner["spec"]
    assert "cpu" in server.container["resources"]["requests"]


def test_pods_of_the_base_reach_only_what_a_policy_names(kubernetes_tools):
    documents = read_documents(build_shipped(kubernetes_tools, "base"))
    policies = [each for each in documents if each["kind"] == "NetworkPolicy"]
    dns = "kubernetes.io/metadata.name=kube-system k8s-app=kube-dns:53,53"
    server = "app.kubernetes.io/component=server,app.kubernetes.io/name=paddock:http"
    database = "app.kubernetes.io/name=postgresql:5432"
    expected = {
        "server": (
            {"paddock-clients=allowed:http", "paddock-metrics=allowed:http", server},
            {dns, server, database, "192.0.2.10/32:443", "192.0.2.20/32:443"},
        ),
        "migrate": (set(), {dns, database}),
    }
    for pod in list_pods(documents):
        own = [each for each in policies if selects(each["spec"]["podSelector"], pod.metadata["labels"])]
        allowed = tuple(
            {peer for each in own for peer in list_peers(each, side)} for side in ("ingress", "egress")
        )
        assert allowed == expected[pod.metadata["labels"]["app.kubernetes.io/component"]]
        denied = {side for each in own for side in each["spec"]["policyTypes"]}
        assert denied == {"Ingress", "Egress"}
    for each in policies:
        sides = {name.capitalize() for name in ("ingress", "egress") if name in each["spec"]}
        assert sides <= set(each["spec"]["policyTypes"])
    rows = set(re.findall(r"^\| `(paddock-\w+)` \| ", PAGE.partition("## Network\n")[2], re.MULTILINE))
    assert rows == {each["metadata"]["name"] for each in policies} - {"paddock-deny"}


def test_a_pod_of_an_agent_reaches_nothing(kubernetes_tools):
    template = find(
        read_documents(build_shipped(kubernetes_tools, "overlays/agent-sandbox")), "SandboxTemplate"
    )
    spec = template["spec"]
    assert list_peers({"spec": spec["networkPolicy"]}, "ingress") == [f"app=sandbox-router:{PORT}"]
    assert spec["networkPolicy"]["egress"] == []
    assert [spec[name] for name in ("networkPolicyManagement", "envVarsInjectionPolicy")] == [
        "Managed",
        "Disallowed",
    ]


def test_workers_of_ray_reach_only_their_cluster(kubernetes_tools):
    documents = read_documents(build_shipped(kubernetes_tools, "overlays/kuberay"))
    cluster = find(documents, "RayCluster")
    name = cluster["metadata"]["name"]
    access, workers = (
        find(documents, "NetworkPolicy", each) for each in ("paddock-ray", "paddock-ray-workers")
    )
    assert access["spec"]["podSelector"] == {"matchLabels": {"ray.io/cluster": name}}
    assert list_peers(access, "ingress") == [
        f"ray.io/cluster={name}:*",
        "paddock-ray-clients=allowed:8265,10001",
    ]
    assert workers["spec"]["podSelector"]["matchLabels"]["ray.io/node-type"] == "worker"
    assert list_peers(workers, "egress") == [
        f"ray.io/cluster={name}:*",
        "kubernetes.io/metadata.name=kube-system k8s-app=kube-dns:53,53",
    ]
    spec = cluster["spec"]
    assert spec["authOptions"] == {"mode": "token"}
    assert tuple(int(part) for part in spec["rayVersion"].split(".")) >= (2, 52, 0)
    assert f"FROM rayproject/ray:{spec['rayVersion']}-" in PAGE
    assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    [group] = spec["workerGroupSpecs"]
    assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"] == 20
