"""The commands of deploy/k8s run here, with the volumes of their pods laid out as a kubelet does."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.support.command import PADDOCK, make_environment, run_paddock
from tests.support.http_api import TOKEN, ApiServer
from tests.support.manifests import FOLDER, POD_FACTS, build_shipped, list_pods, read_documents
from tests.support.postgres import Postgres, find_free_port

from paddock.policy.settings.loader import FILE_NAME

CI_TOKEN = "pdk_of-a-user-of-the-settings"
PASSWORD = "only-in-the-service-file"
POD_IP = "10.1.2.3"


def lay_out(folder: Path, files: dict[str, bytes]) -> None:
    """Write files as those of a Secret: links to links, and readable for the group of the pod."""
    content = folder / "..2026_11_28"
    content.mkdir(parents=True)
    for name, data in files.items():
        (content / name).write_bytes(data)
        (content / name).chmod(0o440)
        (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data").symlink_to(content.name)


def replace_each(text: str, replacements: dict[str, str]) -> str:
    """Replace texts that must each be there."""
    for old, new in replacements.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def make_key() -> bytes:
    """Return an Ed25519 key, as `openssl genpkey` writes it."""
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.usefixtures("direct")
def test_the_commands_of_the_base_make_the_tables_and_serve(
    kubernetes_tools: Path, postgres: Postgres, url: str, tmp_path: Path
) -> None:
    postgres.demand_password("paddock", PASSWORD, owns=url.rpartition("/")[2])
    documents = read_documents(build_shipped(kubernetes_tools, "base"))
    [server, migrate] = sorted(list_pods(documents), key=lambda pod: pod.owner["kind"])
    settings = replace_each(
        (FOLDER / "base" / FILE_NAME).read_text(),
        {
            "sslmode=verify-full&sslrootcert=/secrets/database/ca.crt": "sslmode=prefer",
            "postgresql://paddock@postgresql/paddock": url.replace("postgres@", "paddock@"),
            'url = "s3://paddock/artifacts"': f'directory = "{tmp_path}/artifacts"',
            "/secrets/": f"{tmp_path}/secrets/",
        },
    )
    user = f'[[serve.token]]\nname = "ci"\nsha256 = "{hashlib.sha256(CI_TOKEN.encode()).hexdigest()}"\n'
    # One file for both: no variable says where the system's settings are.
    lay_out(tmp_path / "secrets/config/paddock", {FILE_NAME: (settings + user).encode()})
    keys = {
        "forwarding": b"0123456789abcdef" * 4 + b"\n",
        "checkpoint.pem": make_key(),
        "vault": Fernet.generate_key(),
    }
    lay_out(tmp_path / "secrets/keys", keys)
    lay_out(tmp_path / "secrets/owner", {"token": TOKEN.encode()})
    lay_out(tmp_path / "secrets/database", {"service.conf": f"[paddock]\npassword={PASSWORD}\n".encode()})
    state, workspace = tmp_path / "state", tmp_path / "workspace"
    workspace.mkdir()
    state.mkdir()
    state.chmod(0o2777)  # an emptyDir with a group
    port = find_free_port()
    variables = {name: value for name, value in server.variables.items() if name.startswith("PADDOCK_")}
    node_url = replace_each(variables["PADDOCK_CLUSTER_NODE_URL"], {POD_FACTS["status.podIP"]: "127.0.0.1"})
    environment = make_environment(
        state,
        XDG_STATE_HOME=str(state),
        XDG_CONFIG_HOME=f"{tmp_path}/secrets/config",
        XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        PGSERVICEFILE=f"{tmp_path}{server.variables['PGSERVICEFILE']}",
        **{**variables, "PADDOCK_CLUSTER_NODE_URL": node_url.replace("8700", str(port))},
    )
    made = run_paddock(workspace, *migrate.arguments, environment=environment)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("applied 0001_")
    places = {"0.0.0.0:8700": f"127.0.0.1:{port}", "/secrets/": f"{tmp_path}/secrets/"}
    arguments = replace_each("\n".join(server.arguments), places).split("\n")
    process = subprocess.Popen(
        [PADDOCK, *arguments],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line == f"listening on http://127.0.0.1:{port}\n", line + process.stderr.read()
        running = ApiServer(process, line.removeprefix("listening on ").strip())
        with running.client() as owner, running.client(CI_TOKEN) as user_of_settings:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                path = server.container[probe]["httpGet"]["path"]
                assert owner.get(path, headers={"Host": f"{POD_IP}:8700"}).status_code == 200
            for name in ("paddock.example.com", f"paddock:{port}"):
                assert owner.get("/v1/server", headers={"Host": name}).status_code == 200
            for client in (owner, user_of_settings):
                once = {"Idempotency-Key": "once"}
                assert client.run(headers=once, language="javascript", code="return 6 * 7")["value"] == 42
            made = run_paddock(
                workspace,
                *("serve", "token", "new", "prometheus", "--metrics-only", "--json"),
                environment=environment,
            )
            scraper = {
                "Authorization": f"Bearer {json.loads(made.stdout)['token']}",
                "Host": f"{POD_IP}:{port}",
            }
            while (page := owner.get("/metrics", headers=scraper)).status_code == 401:
                pass
            assert page.status_code == 200
            assert "paddock_cluster_lease_age_seconds " in page.text
        running.stop()
        assert running.wait() == 0
    finally:
        process.kill()
        process.communicate()
