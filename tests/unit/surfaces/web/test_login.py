import stat

import pytest

from paddock.surfaces.web.login import CODE_S, LOGIN_S, OWNER, Login, Logins


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def logins(tmp_path, clock):
    return Logins(tmp_path / "ui", clock)


def test_a_code_gives_one_login_of_the_owner(logins):
    cookie = logins.use_code(code := logins.make_code())
    assert logins.find(cookie) == Login(OWNER, cookie)
    assert logins.use_code(code) is None


def test_a_code_is_no_cookie_and_a_cookie_no_code(logins):
    assert logins.find(logins.make_code()) is None
    assert logins.use_code(logins.log_in(OWNER)) is None


def test_a_code_expires(logins, clock):
    code = logins.make_code()
    clock.now += CODE_S
    assert logins.use_code(code) is None


def test_a_login_expires(logins, clock):
    cookie = logins.log_in(OWNER)
    clock.now += LOGIN_S - 1
    assert logins.find(cookie) == Login(OWNER, cookie)
    clock.now += 1
    assert logins.find(cookie) is None


def test_files_contain_neither_codes_nor_cookies_and_only_their_owner_reads_them(logins, tmp_path):
    secrets = [logins.make_code(), logins.log_in("0" * 64)]
    directory = tmp_path / "ui"
    files = sorted(directory.iterdir())
    texts = [each.name + each.read_text() for each in files]
    assert sorted(each.suffix for each in files) == [".code", ".login"]
    assert not any(secret in text for secret in secrets for text in texts)
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_expired_files_are_removed_by_the_next_login(logins, clock, tmp_path):
    logins.make_code()
    logins.log_in(OWNER)
    clock.now += LOGIN_S
    cookie = logins.log_in(OWNER)
    assert len([*(tmp_path / "ui").iterdir()]) == 1
    assert logins.find(cookie) == Login(OWNER, cookie)


def test_revoking_ends_logins_of_all_servers_and_codes(logins, tmp_path, clock):
    code, cookies = logins.make_code(), [logins.log_in(OWNER), logins.log_in("1" * 64)]
    assert Logins(tmp_path / "ui", clock).revoke_all() == 2
    assert [logins.find(each) for each in cookies] == [None, None]
    assert logins.use_code(code) is None
    assert logins.revoke_all() == 0


def test_logging_out_ends_one_login(logins):
    first, second = logins.log_in(OWNER), logins.log_in(OWNER)
    logins.log_out(first)
    assert (logins.find(first), logins.find(second)) == (None, Login(OWNER, second))


@pytest.mark.parametrize("text", ["", "x", "../login", "a/b", "\0", "x" * 101, "\udcff", "é"])
def test_a_text_that_is_no_cookie_finds_nothing(logins, text):
    logins.log_in(OWNER)
    assert logins.find(text) is None
    assert logins.use_code(text) is None


@pytest.mark.parametrize("content", [b"", b"\xff", b"soon owner", b"9" * 300, b" owner"])
def test_a_damaged_file_is_no_login(logins, tmp_path, content):
    cookie = logins.log_in(OWNER)
    (file,) = (tmp_path / "ui").iterdir()
    file.write_bytes(content)
    assert logins.find(cookie) is None


def test_csrf_tokens_differ_between_logins(logins):
    first, second = (logins.find(logins.log_in(OWNER)) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.csrf_token != second.csrf_token
    assert len(first.csrf_token) == 64
