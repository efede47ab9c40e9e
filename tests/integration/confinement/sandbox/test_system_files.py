"""What programs read of /etc: certificates, and no private keys, also where they run as root."""

import asyncio

import pytest

from paddock import Paddock
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts

READ = """
import os, ssl
print(os.getuid())
print(len(ssl.create_default_context().get_ca_certs()) > 50)
try:
    print(os.listdir("/etc/ssl/private"))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("tier", "error"), [("namespaces", "FileNotFoundError"), ("landlock", "PermissionError")]
)
def test_programs_of_root_read_certificates_and_no_private_keys(as_root, tmp_path, tier, error):
    async def run():
        async with (
            KernelSandbox(SandboxFacts(tier=tier), tier, job_user=0) as sandbox,
            Paddock(tmp_path, sandbox=sandbox) as paddock,
        ):
            return await paddock.exec("python", READ)

    assert asyncio.run(run()).text == f"0\nTrue\n{error}\n"
