"""`paddock cluster reseal`: a key of `cluster.key_file` can be replaced, and tokens stay."""

import json
from pathlib import Path

from tests.support.command import Ended, make_environment, run_paddock
from tests.support.postgres import Postgres

OLD, NEW = "o" * 32, "n" * 32


def test_a_key_is_replaced_and_only_sound_rows_stay(url: str, postgres: Postgres, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    environment = {
        **make_environment(tmp_path),
        "PADDOCK_CLUSTER_URL": url,
        "PADDOCK_CLUSTER_KEY_FILE": str(keys),
    }

    def paddock(*arguments: str, lines: tuple[str, ...]) -> Ended:
        keys.write_text("\n".join(lines))
        keys.chmod(0o600)
        return run_paddock(tmp_path, *arguments, environment=environment)

    def list_tokens(*lines: str) -> list[str]:
        return [
            each["name"]
            for each in json.loads(paddock("serve", "token", "list", "--json", lines=lines).stdout)
        ]

    assert paddock("cluster", "migrate", lines=(OLD,)).returncode == 0
    for name in ("ada", "bob"):
        assert paddock("serve", "token", "new", name, lines=(OLD,)).returncode == 0
    both = (NEW, OLD)
    assert (list_tokens(*both), list_tokens(NEW)) == (["ada", "bob"], [])

    for _ in range(2):  # a second time changes nothing
        done = paddock("cluster", "reseal", lines=both)
        assert (done.returncode, done.stdout, done.stderr) == (0, "2 rows sealed with the first key\n", "")
    assert (list_tokens(NEW), list_tokens(OLD)) == (["ada", "bob"], [])

    database = url.rpartition("/")[2]
    postgres.query("update kept set body = jsonb_set(body, '{token}', '\"{}\"') where name = 'bob'", database)
    done = paddock("cluster", "reseal", lines=both)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "1 row sealed with the first key\n",
        "no key of cluster.key_file sealed these rows, so no replica accepts them: token bob; remove a token with: "
        "paddock serve token revoke NAME, and another row from the table kept\n",
    )
    assert list_tokens(NEW) == ["ada"]


def test_without_a_key_there_is_nothing_to_seal(url: str, tmp_path: Path) -> None:
    environment = {**make_environment(tmp_path), "PADDOCK_CLUSTER_URL": url}
    done = run_paddock(tmp_path, "cluster", "reseal", environment=environment)
    assert (done.returncode, done.stderr) == (
        1,
        "cluster.key_file is not set, so rows have no seal; set it as on the replicas\n",
    )
