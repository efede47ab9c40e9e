"""The manifests of deploy/k8s are valid, as far as that can be known without a cluster."""

import hashlib
import json
import re
import shutil
import subprocess
import textwrap

import jsonschema_rs
import pytest
import yaml
from tests.support.golden import WRITES
from tests.support.manifests import (
    CORE_GROUPS,
    FOLDER,
    FOLDERS,
    PAGE,
    ROOT,
    build,
    build_monitoring,
    build_shipped,
    find,
    list_pods,
    read_documents,
    validate,
)

CUSTOM = {
    "overlays/agent-sandbox": ["SandboxTemplate", "SandboxWarmPool"],
    "overlays/kuberay": ["RayCluster"],
}
"""Resources whose schemas Kubernetes does not have."""
FIELDS = {
    "SandboxTemplate": {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "spec": {
            *("envVarsInjectionPolicy", "generatedSecrets", "networkPolicy", "networkPolicyManagement"),
            *("podTemplate", "service", "volumeClaimTemplates", "volumeClaimTemplatesPolicy"),
        },
        "spec.networkPolicy": {"egress", "ingress"},
        "spec.podTemplate": {"metadata", "spec"},
        "spec.podTemplate.metadata": {"annotations", "labels"},
    },
    "SandboxWarmPool": {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "spec": {"replicas", "sandboxTemplateRef", "updateStrategy"},
        "spec.sandboxTemplateRef": {"name"},
    },
    "SandboxClaim": {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "spec": {"additionalPodMetadata", "env", "lifecycle", "safeToEvict", "warmPoolRef"},
        "spec.warmPoolRef": {"name"},
    },
    "RayCluster": {
        "apiVersion": "ray.io/v1",
        "spec": {
            *("authOptions", "autoscalerOptions", "enableInTreeAutoscaling", "headGroupSpec"),
            *("headServiceAnnotations", "rayVersion", "suspend", "workerGroupSpecs"),
        },
        "spec.authOptions": {"enableK8sTokenAuth", "mode", "secretName"},
        "spec.autoscalerOptions": {
            *("env", "envFrom", "idleTimeoutSeconds", "image", "imagePullPolicy", "resources"),
            *("securityContext", "upscalingMode", "volumeMounts"),
        },
        "spec.headGroupSpec": {
            *("enableIngress", "headService", "rayStartParams", "serviceType", "template"),
        },
        "spec.headGroupSpec.template": {"metadata", "spec"},
        "spec.workerGroupSpecs": {
            *("groupName", "maxReplicas", "minReplicas", "numOfHosts", "rayStartParams", "replicas"),
            *("scaleStrategy", "template"),
        },
        "spec.workerGroupSpecs.template": {"metadata", "spec"},
    },
}
"""Fields that the manifests may use, written by hand from the Go types of agent-sandbox (extensions/api/v1beta1) and
KubeRay (ray-operator/apis/ray/v1). No package registry has their schemas. Pod specs and rules of network policies are
those of Kubernetes."""
CHOICES = {
    "envVarsInjectionPolicy": {"Allowed", "Overrides", "Disallowed"},
    "volumeClaimTemplatesPolicy": {"Allowed", "Overrides", "Disallowed"},
    "networkPolicyManagement": {"Managed", "Unmanaged"},
}
REQUIRED = {"headGroupSpec": {"rayStartParams", "template"}, "workerGroupSpecs": {"groupName", "template"}}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_manifest_of_kubernetes_itself_is_valid(kubernetes_tools, tmp_path, folder):
    file = tmp_path / "built.yaml"
    file.write_text(build_shipped(kubernetes_tools, folder))
    documents = read_documents(file.read_text())
    custom = [each["kind"] for each in documents if each["apiVersion"] not in CORE_GROUPS]
    assert sorted(custom) == CUSTOM.get(folder, [])
    lines = validate(kubernetes_tools, file)
    passed = [line for line in lines if line.startswith("INFO built.yaml passed for resource ")]
    unknown = [line for line in lines if line.startswith("WARN built.yaml Couldn't find schema for kind ")]
    assert (len(passed), len(unknown)) == (len(documents) - len(custom), len(custom)), lines
    assert len(lines) == len(documents)


def test_the_base_is_valid_from_the_version_of_the_page_on(kubernetes_tools, tmp_path):
    [version] = re.findall(r"^\* Kubernetes (1\.\d+) or later", PAGE, re.MULTILINE)
    file = tmp_path / "built.yaml"
    file.write_text(build_shipped(kubernetes_tools, "base"))
    assert [line for line in validate(kubernetes_tools, file, version) if not line.startswith("INFO")] == []


def test_the_base_has_every_part():
    """Against an overlay that lost its resources, and would be valid."""
    overlays = ("agent-sandbox", "gvisor", "kata", "kuberay")
    assert ("base", *(f"overlays/{name}" for name in overlays)) == FOLDERS
    kinds = re.findall(
        r"^kind: (\w+)$", "\n".join(path.read_text() for path in (FOLDER / "base").iterdir()), re.MULTILINE
    )
    assert sorted(set(kinds) - {"Kustomization"}) == [
        *("Deployment", "HorizontalPodAutoscaler", "Job", "NetworkPolicy", "PodDisruptionBudget"),
        *("Service", "ServiceAccount"),
    ]


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("scaling.yaml", "minReplicas", "minReplicaz"),
        ("deployment.yaml", "readOnlyRootFilesystem", "readonlyRootFilesystem"),
        ("network.yaml", "policyTypes", "policytypes"),
        ("migrate.yaml", "backoffLimit", "backOffLimit"),
    ],
)
def test_a_wrong_key_is_found(kubernetes_tools, tmp_path, file, right, wrong):
    shutil.copytree(FOLDER / "base", tmp_path / "base")
    place = tmp_path / "base" / file
    assert right in place.read_text()
    place.write_text(place.read_text().replace(right, wrong))
    built = tmp_path / "built.yaml"
    built.write_text(build(kubernetes_tools, tmp_path / "base"))
    faults = [line for line in validate(kubernetes_tools, built) if line.startswith("ERROR")]
    assert faults
    assert all(f"'{wrong}' was unexpected" in line for line in faults), faults


def test_a_wrong_key_of_kustomize_is_found(kubernetes_tools, tmp_path):
    shutil.copytree(FOLDER / "base", tmp_path / "base")
    place = tmp_path / "base" / "kustomization.yaml"
    place.write_text(place.read_text().replace("resources:", "resourcez:"))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        build(kubernetes_tools, tmp_path / "base")
    assert 'unknown field "resourcez"' in caught.value.stderr


def find_unknown_fields(document, path="spec", value=None):
    """Return the fields of a custom resource that its type does not have."""
    kind = FIELDS[document["kind"]]
    value = document["spec"] if value is None else value
    items = value if isinstance(value, list) else [value]
    if path not in kind:
        return []
    unknown = [f"{path}.{name}" for item in items for name in item if name not in kind[path]]
    below = [
        found
        for item in items
        for name, each in item.items()
        for found in find_unknown_fields(document, f"{path}.{name}", each)
    ]
    return unknown + below


@pytest.mark.parametrize("folder", CUSTOM)
def test_custom_resources_have_only_fields_of_their_types(kubernetes_tools, folder):
    for document in read_documents(build_shipped(kubernetes_tools, folder)):
        if document["kind"] in FIELDS:
            assert document["apiVersion"] == FIELDS[document["kind"]]["apiVersion"]
            assert document.keys() == {"apiVersion", "kind", "metadata", "spec"}
            assert find_unknown_fields(document) == []
            spec = document["spec"]
            assert all(spec[name] in allowed for name, allowed in CHOICES.items() if name in spec)
            for name, required in REQUIRED.items():
                groups = spec.get(name, [])
                for group in groups if isinstance(groups, list) else [groups]:
                    assert required <= group.keys()


def test_an_unknown_field_of_a_custom_resource_is_found(kubernetes_tools):
    documents = read_documents(build_shipped(kubernetes_tools, "overlays/kuberay"))
    cluster = find(documents, "RayCluster")
    cluster["spec"]["workerGroupSpecs"][0]["minReplica"] = 1
    cluster["spec"]["authOption"] = {"mode": "token"}
    assert find_unknown_fields(cluster) == ["spec.authOption", "spec.workerGroupSpecs.minReplica"]


@pytest.mark.parametrize("folder", CUSTOM)
def test_the_pods_of_custom_resources_are_valid(kubernetes_tools, tmp_path, folder):
    """Their templates contain pod specs and network policies of Kubernetes, which are validated as such."""
    documents = read_documents(build_shipped(kubernetes_tools, folder))
    custom = [each for each in documents if each["apiVersion"] not in CORE_GROUPS]
    parts = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", **pod.metadata}, "spec": pod.spec}
        for pod in list_pods(custom)
    ]
    parts += [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "policy"},
            "spec": {"podSelector": {}, **each["spec"]["networkPolicy"]},
        }
        for each in custom
        if "networkPolicy" in each["spec"]
    ]
    file = tmp_path / "parts.yaml"
    file.write_text(yaml.safe_dump_all(parts))
    lines = validate(kubernetes_tools, file)
    assert [line for line in lines if not line.startswith("INFO")] == []
    assert len(lines) == 2
    parts[0]["spec"]["enableServiceLink"] = False
    file.write_text(yaml.safe_dump_all(parts))
    [fault] = [line for line in validate(kubernetes_tools, file) if line.startswith("ERROR")]
    assert "'enableServiceLink' was unexpected" in fault


def read_blocks():
    """Return the blocks of the page that are documents of YAML."""
    blocks = re.findall(r"^```text\n(apiVersion: .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return {block["kind"]: (text, block) for text in blocks for block in [yaml.safe_load(text)]}


def test_the_overlay_of_the_page_builds_and_changes_what_it_says(kubernetes_tools, tmp_path):
    text, _ = read_blocks()["Kustomization"]
    shutil.copytree(FOLDER, tmp_path / "deploy" / "k8s")
    own = tmp_path / "own"
    own.mkdir()
    (own / "kustomization.yaml").write_text(text)
    settings = (FOLDER / "base" / "paddock.toml").read_text().replace("s3://paddock", "s3://ours")
    (own / "paddock.toml").write_text(settings)
    built = tmp_path / "built.yaml"
    built.write_text(build(kubernetes_tools, own))
    assert [line for line in validate(kubernetes_tools, built) if not line.startswith("INFO")] == []
    documents = read_documents(built.read_text())
    assert {each["metadata"]["namespace"] for each in documents} == {"paddock"}
    pods = list(list_pods(documents))
    [image] = {pod.container["image"] for pod in pods}
    assert re.fullmatch(r"registry\.example\.com/paddock@sha256:[0-9a-f]{64}", image)
    server = next(pod for pod in pods if pod.owner["kind"] == "Deployment")
    base = find(read_documents(build_shipped(kubernetes_tools, "base")), "Deployment")
    names = [each["name"] for each in base["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert server.variables["PUBLIC_HOST"] == "sandbox.example.com"
    assert set(server.variables) == set(names)
    assert "--allowed-host=sandbox.example.com" in server.arguments
    assert find(documents, "ConfigMap")["data"] == {"paddock.toml": settings}
    bucket = find(documents, "NetworkPolicy", "paddock-bucket")
    assert bucket["spec"]["egress"][0]["to"] == [{"ipBlock": {"cidr": "203.0.113.0/24"}}]


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_image_can_be_replaced_everywhere(kubernetes_tools, tmp_path, folder):
    shutil.copytree(FOLDER, tmp_path / "k8s")
    own = tmp_path / "own"
    own.mkdir()
    images = "".join(f"  - name: {name}\n    newName: ours\n" for name in ("paddock", "paddock-ray"))
    (own / "kustomization.yaml").write_text(f"resources:\n  - ../k8s/{folder}\nimages:\n{images}")
    pods = list(list_pods(read_documents(build(kubernetes_tools, own))))
    assert {pod.container["image"] for pod in pods} == {"ours:latest"}


def test_the_claim_of_the_page_is_one_of_the_overlay(kubernetes_tools):
    _, claim = read_blocks()["SandboxClaim"]
    assert (claim["apiVersion"], find_unknown_fields(claim)) == (FIELDS["SandboxClaim"]["apiVersion"], [])
    documents = read_documents(build_shipped(kubernetes_tools, "overlays/agent-sandbox"))
    pool, template = find(documents, "SandboxWarmPool"), find(documents, "SandboxTemplate")
    assert claim["spec"]["warmPoolRef"]["name"] == pool["metadata"]["name"]
    assert pool["spec"]["sandboxTemplateRef"]["name"] == template["metadata"]["name"]


@pytest.mark.parametrize(("folder", "runtime"), [("gvisor", "gvisor"), ("kata", "kata")])
def test_a_runtime_class_is_all_that_an_overlay_adds(kubernetes_tools, folder, runtime):
    base = read_documents(build_shipped(kubernetes_tools, "base"))
    built = read_documents(build_shipped(kubernetes_tools, f"overlays/{folder}"))
    pod = find(base, "Deployment")["spec"]["template"]["spec"]
    assert "runtimeClassName" not in pod
    pod["runtimeClassName"] = runtime
    assert built == base


SCHEMAS = ROOT / "tests" / "kubernetes" / "prometheus-operator.json"
"""JSON Schemas of the resources of the Prometheus Operator; README.md beside it says where they come from."""


def close_objects(schema):
    """Return a schema with which an object has no other fields than those that are listed."""
    if isinstance(schema, list):
        return [close_objects(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close_objects(each) for name, each in schema.items()}
    return {"additionalProperties": False, **closed} if isinstance(schema.get("properties"), dict) else closed


def find_operator_faults(document):
    """Return what is wrong with a resource of the Prometheus Operator."""
    schema = close_objects(json.loads(SCHEMAS.read_text())[document["kind"]])
    errors = jsonschema_rs.validator_for(schema).iter_errors(document)
    return [f"{'.'.join(map(str, each.instance_path))}: {each.message}" for each in errors]


def test_the_schemas_of_the_operator_are_those_of_the_readme():
    digest = hashlib.sha256(SCHEMAS.read_bytes()).hexdigest()
    assert f"SHA-256 of `{SCHEMAS.name}`: `{digest}`" in SCHEMAS.with_name("README.md").read_text()


def test_resources_of_the_operator_follow_its_definitions(kubernetes_tools, tmp_path):
    documents = build_monitoring(kubernetes_tools, tmp_path)
    custom = [each for each in documents if each["apiVersion"] not in CORE_GROUPS]
    assert sorted(each["kind"] for each in custom) == ["PodMonitor", "PrometheusRule"]
    for each in custom:
        assert find_operator_faults(each) == []


@pytest.mark.parametrize(
    ("kind", "change", "fault"),
    [
        (
            "PodMonitor",
            lambda spec: spec["podMetricsEndpoints"][0].update(intervall="30s"),
            "spec.podMetricsEndpoints.0: Additional properties are not allowed ('intervall' was unexpected)",
        ),
        (
            "PodMonitor",
            lambda spec: spec["podMetricsEndpoints"][0].update(interval="half a minute"),
            'spec.podMetricsEndpoints.0.interval: "half a minute" does not match ',
        ),
        ("PodMonitor", lambda spec: spec.pop("selector"), 'spec: "selector" is a required property'),
        (
            "PrometheusRule",
            lambda spec: spec["groups"][0]["rules"][0].pop("expr"),
            'spec.groups.0.rules.0: "expr" is a required property',
        ),
    ],
)
def test_a_fault_of_a_resource_of_the_operator_is_found(kubernetes_tools, tmp_path, kind, change, fault):
    document = find(build_monitoring(kubernetes_tools, tmp_path), kind)
    change(document["spec"])
    [found] = find_operator_faults(document)
    assert found.startswith(fault)


def test_the_rules_of_the_operator_are_those_of_prometheus():
    """`GOLDEN_FILES=write` writes them again."""
    file = FOLDER / "components" / "monitoring" / "rules.yaml"
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text()
    head, _, rules = file.read_text().partition("spec:\n")
    _, _, groups = alerts.partition("\n")  # after the comment
    expected = textwrap.indent(groups, "  ")
    if WRITES:
        file.write_text(f"{head}spec:\n{expected}")
    else:
        assert rules.splitlines() == expected.splitlines()
