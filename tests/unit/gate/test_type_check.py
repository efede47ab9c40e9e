"""Which servers a program uses, as far as its text shows that."""

import pytest

from paddock.gate.type_check import find_used_servers


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("await servers.time.now()", {"time"}),
        ("servers?.time?.now()", {"time"}),
        ("servers\n  .time\n  .now()", {"time"}),
        ("servers['my-server'].now(); servers[`b`].x()", {"my-server", "b"}),
        ('servers?.["a b"].x()', {"a b"}),
        ("const time = 1; Object.keys(servers)", set()),
        ("myservers.time.now()", set()),
        ("servers[name].x()", set()),
    ],
)
def test_a_name_after_servers_is_that_of_a_used_server(text, names):
    assert find_used_servers(text) == names
