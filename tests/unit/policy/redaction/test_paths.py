"""Paths that are values of `PWD` and similar names."""

import pytest

from .test_scanner import redact


@pytest.mark.parametrize(
    "line",
    [
        "PWD=/tmp/ada/p1",
        "PWD=/project1",
        "OLDPWD=/tmp/paddock-0b16b7e5956ea2db/3b4797a1dac65e78/work",
        'export PWD="/tmp/ada/p1"',
        "declare -x OLDPWD='/app1x'",
        '{"PWD": "/tmp/ada/p1", "OLDPWD": "/app1x"}',
        "a\\nPWD=/tmp/0a1b2c3d4e5f6a7b8c/x",
        "os.environ['PWD'] = '/tmp/ada/p1'",
        "\x1b[31mPWD\x1b[0m=/tmp/ada/p1",
        "PWD=.",
        "PWD=../project1",
        "pwd: ./project1/src",
        "BUILD_PWD=/home/ada/project2",
        "INIT_PWD=~/project2/x1",
        "tool --pwd /srv/app1/data2",
        "<pwd>/srv/app1/data2</pwd>",
    ],
)
def test_working_directories_are_no_passwords(line: str) -> None:
    assert redact(line) == line


@pytest.mark.parametrize(
    ("line", "redacted"),
    [
        ("DB_PWD=/s3cr3t1x", "DB_PWD=[REDACTED:secret]"),
        ("DB_PWD=/s3cr3tXy9/9Kd82msQx1", "DB_PWD=[REDACTED:secret]"),
        ("DB_PWD=/9j4AAQSkZJRgABAQ/kd93jf82Qm1", "DB_PWD=[REDACTED:secret]"),
        ("DB_OLDPWD=/hunter22", "DB_OLDPWD=[REDACTED:secret]"),
        ("PWD=hunter22", "PWD=[REDACTED:secret]"),
        ("PWD=hunter22/x1", "PWD=[REDACTED:secret]"),
        ("pwd=/hunter22", "pwd=[REDACTED:secret]"),
        ("pwd=~hunter22", "pwd=[REDACTED:secret]"),
        ("pwd=/etc/p1!x$2", "pwd=[REDACTED:secret]"),
        ("password=/tmp/ada/p1", "password=[REDACTED:secret]"),
        ('{"pwd": "/hunter22"}', '{"pwd": "[REDACTED:secret]"}'),
        ("tool --pwd /hunter22", "tool --pwd [REDACTED:secret]"),
        ("<pwd>/hunter22</pwd>", "<pwd>[REDACTED:secret]</pwd>"),
    ],
)
def test_passwords_with_a_slash_are_no_paths(line: str, redacted: str) -> None:
    assert redact(line) == redacted
