"""A file of the workspace that the user of programs may not read: the hint names it."""

import pytest

from paddock.confinement.sandbox.child.lockdown import JOB_UID

READ = {
    "shell": "cat 'their file.csv'",
    "python": "open('their file.csv')",
    "perl": "open(my $file, '<', 'their file.csv') or die \"their file.csv: $!\\n\"",
    "node": "require('node:fs').readFileSync('their file.csv')",
}


@pytest.mark.parametrize("runtime", READ)
@pytest.mark.parametrize("combined", [False, True])
def test_a_file_of_root_is_named_to_who_reads_it(as_root, open_programs, runtime, combined):
    programs = open_programs("landlock")
    file = programs.workspace / "their file.csv"
    file.write_text("1,2\n")
    file.chmod(0o600)
    outcome = programs.run(runtime, READ[runtime], output={"combined": combined})
    assert outcome.status == "failed"
    assert outcome.error.hint == (
        f"their file.csv belongs to user 0 and has mode 0600; programs run as user {JOB_UID}, which may not read "
        "it. Let that user read it: chmod o+r 'their file.csv'"
    )


def test_a_hidden_file_of_root_is_not_opened_to_all(as_root, open_programs):
    programs = open_programs("landlock")
    (programs.workspace / ".env").write_text("SECRET")
    (programs.workspace / ".env").chmod(0o600)
    outcome = programs.run("shell", "cat .env")
    assert outcome.error.hint == (
        ".env is hidden from programs, because it holds secrets (workspace.hide); a person can show it with `paddock "
        "exec --show .env`, or for agents with `show` under [workspace] in the user's paddock.toml"
    )


def test_a_file_that_is_not_granted_for_writing_is_another_matter(as_root, open_programs):
    programs = open_programs("landlock")
    (programs.workspace / "open.csv").write_text("1,2\n")
    outcome = programs.run("shell", "echo 3 > open.csv")
    assert outcome.error.hint == (
        "it may write only to TMPDIR; writing to the workspace needs the access workspace-write, or overlay, which "
        "keeps the changes until a person accepts them; a person grants both: `paddock exec --access overlay`, or for "
        "agents `access` under [runtimes] in paddock.toml"
    )
