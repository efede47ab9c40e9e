"""From grants and limits to an order: what is refused, and what the order says."""

import os
import tempfile
from pathlib import Path

import pytest

from paddock.confinement.sandbox import spec
from paddock.confinement.sandbox.child import lockdown
from paddock.confinement.sandbox.child.messages import Ceilings, GuardedFolder, JobSpec
from paddock.confinement.sandbox.child.protection import ProtectionRules
from paddock.confinement.sandbox.state_paths import StateFile
from paddock.engines.programs import safe_copy
from paddock.model.process import ProcessGrants, ProcessLimits

OTHER = 54321
"""A user that nobody is."""
LIMITS = ProcessLimits(
    timeout_ms=1, cpu_ms=2, memory_bytes=3, processes=4, open_files=5, file_bytes=6, scratch_bytes=7
)


@pytest.fixture
def folder():
    """Make a folder that everybody may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made).resolve()


def refusal(check, *given):
    with pytest.raises(spec.GrantError) as caught:
        check(*given)
    return str(caught.value)


def made(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)
    return [folder / name for name in names]


def writing(workspace, **more):
    return ProcessGrants(workspace=workspace, access="workspace-write", **more)


def test_a_program_has_a_name():
    assert refusal(spec.check, [""], ProcessGrants()) == "there is no program to run"


@pytest.mark.parametrize(("name", "value"), [("", "b"), ("a=", "b"), ("a\0", "b"), ("a", "b\0")])
def test_variables_have_names_and_values_that_can_be_passed(name, value):
    grants = ProcessGrants(environment={name: value})
    assert refusal(spec.check, ["a"], grants) == (
        f"{name!r} is not the name of an environment variable with a value"
    )


@pytest.mark.parametrize("of", ["workspace", "writable", "cwd"])
def test_whoever_works_somewhere_works_in_a_directory_with_a_whole_path(of, folder):
    (folder / "file").touch()
    for path in (Path(), folder / "file", folder / "nowhere"):
        given = {"workspace": path, "access": "read-only"} if of == "workspace" else {}
        given |= {"writable": (path,)} if of == "writable" else {"cwd": path} if of == "cwd" else {}
        told = f"{path} is not an absolute path of a directory"
        assert refusal(spec.check, ["a"], ProcessGrants(**given)) == told


def test_what_is_readable_is_there_under_a_whole_path(folder):
    for path in (Path(), folder / "nowhere"):
        told = f"{path} is not an absolute path of a file or directory that exists"
        assert refusal(spec.check, ["a"], ProcessGrants(readable=(path,))) == told


@pytest.mark.parametrize("target", ["/", "/proc", "/proc/self", "/dev", "/dev/shm/.."])
def test_no_link_leads_to_what_nobody_is_granted(target, folder):
    link = folder / "link"
    link.symlink_to(target)
    for grants in (writing(link), ProcessGrants(writable=(link,)), ProcessGrants(readable=(link,))):
        assert refusal(spec.check, ["a"], grants) == f"{link} can never be granted"


def test_shared_memory_may_be_granted():
    spec.check(["a"], ProcessGrants(writable=(Path("/dev/shm"),)))


def test_nobody_works_where_paddock_keeps_its_own_files(folder):
    state, below, beside = made(folder, "state", "state/below", "beside")
    (folder / "link").symlink_to(below)
    own = (str(state),)
    for path in (state, below, folder / "link"):
        told = f"{path} is in {state}, where Paddock keeps its own files; work in another directory"
        for grants in (writing(path), ProcessGrants(writable=(path,))):
            assert refusal(spec.check, ["a"], grants, own) == told
    told = f"{below} is in {state}, where Paddock keeps its own files; work in another directory"
    assert refusal(spec.check, ["a"], ProcessGrants(cwd=below), own) == told
    spec.check(["a"], writing(beside, cwd=beside, readable=(below,)), own)
    spec.check(["a"], writing(below, cwd=below, fixed=(below,)), own)
    spec.check(["a"], writing(beside, cwd=below, fixed=(below,)), own)


@pytest.mark.usefixtures("as_root")
def test_whoever_becomes_another_user_can_enter_where_he_works(folder):
    workspace, closed = made(folder, "workspace", "closed")
    workspace.chmod(0o755)
    closed.chmod(0o700)
    told = (
        f"{closed} is out of reach: programs run as user {OTHER}, which may not enter {closed}; "
        f"let others through (chmod o+x {closed}), move it, or change sandbox.job_user"
    )
    for grants in (writing(closed), writing(workspace, cwd=closed), ProcessGrants(writable=(closed,))):
        assert refusal(spec.check_reach, grants, OTHER, "landlock") == told
    spec.check_reach(writing(workspace, cwd=workspace), OTHER, "landlock")
    spec.check_reach(ProcessGrants(workspace=closed), OTHER, "landlock")


@pytest.mark.usefixtures("as_root")
def test_a_job_that_stays_root_cannot_enter_what_is_another_users_alone(folder):
    (closed,) = made(folder, "closed")
    closed.chmod(0o700)
    os.chown(closed, OTHER, OTHER)
    assert refusal(spec.check_reach, writing(closed), None, "namespaces") == (
        f"{closed} is out of reach: programs run as root without its powers, and only its owner may enter {closed}; "
        f'set job_user = "{OTHER}" under [sandbox], or let others through (chmod o+x {closed})'
    )
    spec.check_reach(ProcessGrants(workspace=closed), None, "namespaces")
    spec.check_reach(ProcessGrants(), None, "namespaces")


@pytest.mark.usefixtures("as_root")
def test_whose_workspace_it_is_that_a_job_may_not_write_to(folder):
    workspace, gone = made(folder, "workspace", "gone")
    workspace.chmod(0o755)
    gone.rmdir()
    assert spec.foreign(writing(workspace), OTHER) == (
        f"{workspace} belongs to user 0, and programs run as user {OTHER}, which may not write to it; "
        f"let user {OTHER} write to it"
    )
    assert spec.foreign(writing(workspace), None) == ""
    os.chown(workspace, OTHER, OTHER)
    assert spec.foreign(writing(workspace), None) == (
        f"{workspace} belongs to user {OTHER}, and programs run as user 0, which may not write to it; "
        f'set job_user = "{OTHER}" under [sandbox]'
    )
    assert spec.foreign(writing(workspace), OTHER) == ""
    assert spec.foreign(ProcessGrants(workspace=workspace, access="read-only"), None) == ""
    assert spec.foreign(writing(gone), None) == ""
    for mode in (0o757, 0o775):
        workspace.chmod(mode)
        assert spec.foreign(writing(workspace), None) == ""


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "unconfined"])
def test_no_program_gets_at_a_file_of_paddocks_own(tier, folder):
    workspace, given = made(folder, "workspace", "given")
    for place, grants in (
        (workspace / "key", writing(workspace)),
        (workspace / "paddock.toml", writing(workspace)),
        (workspace / "key", ProcessGrants(workspace=workspace, access="read-only")),
        (given / "key", ProcessGrants(writable=(given,))),
        (given / "key", writing(workspace, readable=(given,))),
    ):
        told = (
            f"a program with these grants could read {place}, Paddock's own file (vault.key_file); move it to where "
            "no program has a grant"
        )
        files = [StateFile("vault.key_file", str(place))]
        assert refusal(spec.check_private, grants, (), tier, files) == told
    spec.check_private(writing(workspace), (), tier, [StateFile("vault.key_file", str(given / "key"))])
    spec.check_private(
        ProcessGrants(workspace=given), (), tier, [StateFile("vault.key_file", str(given / "key"))]
    )


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "unconfined"])
def test_what_may_be_read_is_changed_by_no_program(tier, folder):
    (workspace,) = made(folder, "workspace")
    place = workspace / "servers.json"
    files = [StateFile("servers.file", str(place), readable=True)]
    assert refusal(spec.check_private, writing(workspace), (), tier, files) == (
        f"a program that may write there could change {place}, Paddock's own file (servers.file); move it to where "
        "no program has a grant, or grant the workspace read-only"
    )
    spec.check_private(ProcessGrants(workspace=workspace, access="read-only"), (), tier, files)
    put_back = [StateFile("servers.file", str(workspace / ".mcp.json"), readable=True)]
    spec.check_private(writing(workspace), (), tier, put_back)


def test_which_tier_keeps_programs_from_directories_of_paddocks_own(folder):
    workspace, state = made(folder, "workspace", "workspace/state")
    told = "where Paddock keeps its own files; work in a directory that does not contain them"
    assert refusal(spec.check_private, writing(workspace), (str(state),), "landlock") == (
        f"a program that may write there could change {state}, {told}, make the tier namespaces available (paddock "
        "doctor says how), or grant the workspace read-only"
    )
    for tier in ("namespaces", "unconfined"):
        spec.check_private(writing(workspace), (str(state),), tier)
    for tier in ("namespaces", "landlock", "unconfined"):
        spec.check_private(ProcessGrants(workspace=workspace, access="read-only"), (str(state),), tier)


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_no_program_moves_a_link_that_leads_to_paddocks_own(tier, folder):
    workspace, state = made(folder, "workspace", "state")
    link = workspace / "link"
    link.symlink_to(state)
    own = (str(link), str(state))
    assert refusal(spec.check_private, writing(workspace), own, tier) == (
        f"a program that may write there could replace the link {link}, which leads to a directory where Paddock "
        "keeps its own files; work in a directory that does not contain them, or grant the "
        "workspace read-only"
    )
    spec.check_private(writing(workspace), own, "unconfined")


def test_a_file_of_paddock_is_not_protected_by_a_path_that_the_settings_give_free(folder):
    (workspace,) = made(folder, "workspace")
    file = StateFile("servers.config", f"{workspace}/.paddock/servers.json", readable=True)
    spec.check_private(writing(workspace), (), "landlock", (file,))
    rules = ProtectionRules(removed=(".paddock",))
    assert refusal(spec.check_private, writing(workspace), (), "landlock", (file,), rules) == (
        f"a program that may write there could change {file.path}, Paddock's own file (servers.config); move it to "
        "where no program has a grant, or grant the workspace read-only"
    )


def test_protected_paths_behind_links_cannot_be_refused(folder):
    (workspace,) = made(folder, "workspace")
    spec.check_protection(writing(workspace), "namespaces")
    (workspace / ".mcp.json").symlink_to("nowhere")
    assert refusal(spec.check_protection, writing(workspace), "namespaces") == (
        "sandbox.protected_paths is refuse, and .mcp.json of the workspace is a link or behind one, which no mount "
        "can protect; replace the link with its target, or grant the workspace read-only"
    )
    spec.check_protection(ProcessGrants(workspace=workspace, access="read-only"), "landlock")


def room(grants, tier="landlock"):
    return spec.build_jail_spec(
        grants, LIMITS, tier=tier, abi=3, scratch=Path("/scratch"), job_user=0, group="/group"
    )


def test_what_the_room_of_a_job_says(folder):
    (workspace,) = made(folder, "workspace")
    grants = writing(workspace, fixed=(workspace,))
    expected = JobSpec(
        scratch="/scratch",
        landlock_abi=3,
        filter="job",
        supervised="supervised",
        writable=[str(workspace), "/scratch"],
        devices=["/dev/null", "/dev/zero", "/dev/full"],
        guarded=[GuardedFolder(str(workspace), rules=tuple(ProtectionRules()))],
        searched=[str(workspace)],
        shown=(str(workspace),),
        fixed=[str(workspace)],
        group="/group",
        ceilings=Ceilings(scratch_bytes=7),
    )
    found = room(grants)
    assert found._replace(readable=()) == expected
    assert found.readable[-2:] == ["/dev/random", "/dev/urandom"]
    unconfined = expected._replace(landlock_abi=0, filter="", supervised="", searched=())
    assert room(grants, "unconfined")._replace(readable=()) == unconfined
    looking = room(ProcessGrants(workspace=workspace, access="read-only"))
    assert looking._replace(readable=()) == expected._replace(writable=["/scratch"], guarded=[], fixed=[])
    assert [*looking.readable] == [*found.readable[:-2], str(workspace), "/dev/random", "/dev/urandom"]


def test_which_calls_of_a_job_are_supervised(folder):
    def calls(grants, tier, **how):
        options = {"tier": tier, "abi": 3, "scratch": Path("/scratch"), "job_user": 0, "group": ""}
        return spec.build_jail_spec(grants, LIMITS, **options | how).supervised

    assert [calls(writing(folder), "landlock", supervised=able) for able in (True, False)] == [
        "supervised",
        "watches",
    ]
    if os.geteuid() == 0:
        assert calls(ProcessGrants(), "landlock") == "watches"
    given = {
        "": (
            ProcessGrants(),
            ProcessGrants(workspace=folder, access="read-only"),
            ProcessGrants(network="full"),
        ),
        "sockets": (writing(folder), ProcessGrants(writable=(folder,)), ProcessGrants(network="hosts")),
    }
    assert {name: [calls(one, "namespaces") for one in grants] for name, grants in given.items()} == {
        name: [name] * 3 for name in given
    }
    assert calls(writing(folder), "unconfined") == ""


def test_what_a_jail_is_given_below_its_own_directories_comes_once(folder):
    below, beside = made(folder, "below", "beside")
    given = room(ProcessGrants(writable=(below, folder), readable=(beside, Path("/usr"))), "namespaces")
    assert given.carried == [str(folder)]
    assert room(ProcessGrants(writable=(below, beside)), "namespaces").carried == [str(below), str(beside)]
    assert room(ProcessGrants(writable=(below, beside))).carried == ()


@pytest.mark.usefixtures("as_root")
def test_whom_a_job_becomes(folder):
    default = lockdown.JOB_UID
    assert default not in {0, lockdown.UNPRIVILEGED_UID, safe_copy.KEEPER_UID}
    for grants, found in (
        (ProcessGrants(), default),
        (ProcessGrants(workspace=folder), default),
        (ProcessGrants(readable=(folder,)), default),
        (ProcessGrants(writable=(folder,)), None),
        (ProcessGrants(workspace=folder, access="read-only"), None),
        (writing(folder), None),
    ):
        for tier in ("namespaces", "unconfined"):
            assert spec.user(grants, None, tier) == spec.user(grants, 0, tier) == found
        assert (spec.user(grants, None, "landlock"), spec.user(grants, 0, "landlock")) == (default, found)
        for tier in ("namespaces", "landlock", "unconfined"):
            assert spec.user(grants, OTHER, tier) == OTHER


def test_what_names_of_the_network_mean_is_read_by_who_has_a_network(folder):
    (workspace,) = made(folder, "workspace")
    alone = room(writing(workspace))
    local = ("hosts", "host.conf", "gai.conf", "protocols", "services")
    for network, filter_name, names in (
        ("loopback", "job-loopback", local),
        ("hosts", "job-loopback", local),
        ("full", "job-network", ("resolv.conf", *local)),
    ):
        connected = room(writing(workspace, network=network))
        more = {f"/etc/{name}" for name in names if Path(f"/etc/{name}").exists()}
        assert {*connected.readable} - {*alone.readable} == more
        assert {*alone.readable} <= {*connected.readable}
        expected = alone._replace(filter=filter_name, network=network, readable=())
        assert connected._replace(readable=()) == expected


def test_what_the_order_of_a_job_says():
    grants = ProcessGrants(environment={"PATH": "/mine", "HOME": "/root", "TMP": "/tmp", "A": "b"})
    assert spec.build_job_spec(
        JobSpec(scratch="/scratch"), ["a", "b"], grants, LIMITS, canary="canary"
    ) == JobSpec(
        scratch="/scratch",
        argv=["a", "b"],
        environment={
            "PATH": "/mine",
            "LANG": "C.UTF-8",
            "HOME": "/scratch/home",
            "TMP": "/scratch/tmp",
            "A": "b",
            "TMPDIR": "/scratch/tmp",
            "TEMP": "/scratch/tmp",
            "XDG_CACHE_HOME": "/scratch/home/.cache",
            "XDG_CONFIG_HOME": "/scratch/home/.config",
            "XDG_DATA_HOME": "/scratch/home/.local/share",
        },
        cwd="/scratch",
        canary="canary",
        ceilings=Ceilings(
            timeout_ms=1,
            cpu_ms=2,
            memory_bytes=3,
            processes=4,
            open_files=5,
            file_bytes=6,
            scratch_bytes=7,
        ),
    )


def test_where_a_job_begins(folder):
    workspace, below = made(folder, "workspace", "workspace/below")
    for grants, cwd in (
        (writing(workspace), workspace),
        (writing(workspace, cwd=below), below),
        (ProcessGrants(workspace=workspace), "/scratch"),
    ):
        assert spec.build_job_spec(JobSpec(scratch="/scratch"), ["a"], grants, LIMITS).cwd == str(cwd)


def test_a_room_stands_for_its_grants_until_something_appears_in_them(folder):
    workspace, own, _ = made(folder, "workspace", "workspace/a/state", "workspace/.git")
    known = []

    def is_new():
        known.append(spec.state(writing(workspace), (str(own),)))
        return known[-1] not in known[:-1]

    assert is_new()
    assert not is_new()
    (workspace / ".git" / "config").touch()  # can be covered by a mount now
    assert is_new()
    (workspace / "a" / "beside").touch()
    assert is_new()
    assert not is_new()
