"""Logins as files: uses at once, stolen files, too many of them, and a directory in which somebody has put things."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from paddock.model.errors import ConfigurationError
from paddock.surfaces.web.login import CODE_S, LOGIN_S, OWNER, Login, Logins

NOW = 1_800_000_000.0
PORT = 8710


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "ui"


@pytest.fixture
def logins(directory, clock):
    return Logins(directory, clock, PORT)


def test_of_many_uses_at_once_one_succeeds(logins):
    code = logins.make_code()
    with ThreadPoolExecutor(8) as threads:
        cookies = [*threads.map(logins.use_code, [code] * 32)]
    assert len([each for each in cookies if each is not None]) == 1


def test_the_files_have_hashes_only(logins, directory):
    code, cookie = logins.make_code(), logins.log_in("ann")
    files = {each.name: each.read_text() for each in directory.iterdir()}
    assert files == {
        locate(directory, code, ".code").name: f"{NOW + CODE_S:.0f} {OWNER}",
        locate(directory, cookie).name: f"{NOW + LOGIN_S:.0f} ann",
    }
    assert {each.stat().st_mode & 0o777 for each in (directory, *directory.iterdir())} == {0o700, 0o600}


def test_what_a_file_contains_logs_nobody_in(logins, directory):
    logins.log_in(OWNER)
    [file] = directory.iterdir()
    for stolen in (file.name, file.stem, file.read_text(), f"../{directory.name}/{file.stem}"):
        assert logins.find(stolen) is None


def test_revoking_ends_the_others_if_one_cannot_be_ended(logins, directory):
    cookie = logins.log_in(OWNER)
    blocked = directory / f"{'0' * 64}.login"
    blocked.mkdir()
    with pytest.raises(
        ConfigurationError, match=r"this login cannot be ended: Is a directory \(ui.directory\)"
    ):
        logins.revoke_all()
    assert logins.find(cookie) is None
    assert [*directory.iterdir()] == [blocked]


def test_a_person_has_a_limited_number_of_logins(logins, clock, directory):
    cookies = []
    for _ in range(30):
        cookies.append(logins.log_in("ann"))
        clock.now += 1
    other, code = logins.log_in("bob"), logins.make_code()
    valid = [each for each in cookies if logins.find(each) is not None]
    assert valid == cookies[10:]
    assert logins.find(other) == Login("bob", other)
    assert logins.use_code(code) is not None


def locate(directory, secret, suffix=".login"):
    return directory / (hashlib.sha256(f"{PORT} {secret}".encode()).hexdigest() + suffix)


def test_codes_and_logins_are_of_one_port(logins, directory, clock):
    other = logins.at_port(PORT + 1)
    code, cookie = logins.make_code(), logins.log_in(OWNER)
    assert other.use_code(code) is None
    assert other.find(cookie) is None
    assert logins.at_port(PORT).find(cookie) == Login(OWNER, cookie)
    assert logins.use_code(code) is not None
    assert other.revoke_all() == 2
    assert logins.find(cookie) is None


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "directory", "socket", "large"])
def test_something_else_in_place_of_a_file_is_no_login(logins, directory, tmp_path, kind):
    real = logins.log_in(OWNER)
    planted = locate(directory, "planted")
    match kind:
        case "link":
            elsewhere = tmp_path / "elsewhere"
            elsewhere.write_text(f"{NOW + 1000:.0f} {OWNER}")
            planted.symlink_to(elsewhere)
        case "dangling link":
            planted.symlink_to(tmp_path / "missing")
        case "pipe":
            os.mkfifo(planted)
        case "directory":
            planted.mkdir()
        case "socket":
            os.mknod(planted, 0o140600)
        case "large":
            planted.write_text(f"{NOW + 1000:.0f} {OWNER}" + " " * 1000)
    assert logins.find("planted") is None
    assert logins.find(real) == Login(OWNER, real)
    if kind != "directory":
        logins.make_code()
        assert not planted.is_symlink()
        assert not planted.exists()


@pytest.mark.parametrize(
    "text", ["", "x", " owner", "owner", "1e400 owner", "9" * 150, "-1 owner", "é owner", "\x00"]
)
def test_damaged_files_are_no_login(logins, directory, text):
    logins.log_in(OWNER)
    locate(directory, "planted").write_text(text)
    found = logins.find("planted")
    assert found is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_may_change_has_no_logins(logins, directory, mode):
    """Whoever may rename a file in it could give the name of another cookie to it."""
    cookie, code = logins.log_in(OWNER), logins.make_code()
    directory.chmod(mode)
    assert logins.find(cookie) is None
    assert logins.use_code(code) is None
    with pytest.raises(ConfigurationError, match="can be written to by others"):
        logins.make_code()


def test_a_link_in_place_of_the_directory_has_no_logins(logins, directory, tmp_path, clock):
    cookie = logins.log_in(OWNER)
    link = tmp_path / "link"
    link.symlink_to(directory)
    elsewhere = Logins(link, clock, PORT)
    assert elsewhere.find(cookie) is None
    with pytest.raises(ConfigurationError, match="a link"):
        elsewhere.make_code()
