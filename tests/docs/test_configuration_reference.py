"""docs/configuration.md says what the settings say."""

import re
import subprocess
import sys
from pathlib import Path

from paddock.model.command import SdkCommand
from paddock.model.keys import leaves
from paddock.model.rules import Rule
from paddock.model.settings import RedactionPattern, Settings

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_current():
    command = [sys.executable, ROOT / "scripts" / "reference.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_setting_is_described():
    text = (ROOT / "docs" / "configuration.md").read_text()
    described = set()
    for heading, section in re.findall(
        r"^## `\[+([\w.]+)\]+`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    ):
        rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]* \| ([^|]{10,}) \|$", section, re.MULTILINE)
        described |= {f"{heading}.{name}" for name, _ in rows}
    listed = {"policy.rule": Rule, "redaction.patterns": RedactionPattern, "sdk.commands": SdkCommand}
    members = {f"{key}.{name}" for key, kind in listed.items() for name in kind.model_fields} - {
        "policy.rule.origin"
    }
    assert described == set(leaves(Settings())) - set(listed) | members
