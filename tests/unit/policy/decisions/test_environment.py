from paddock.policy.decisions.environment import child_environment


def test_only_allowed_variables_pass():
    environ = {
        "PATH": "/bin",
        "HOME": "/home/u",
        "LC_ALL": "C",
        "XDG_CACHE_HOME": "/c",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "AWS_SECRET_ACCESS_KEY": "k",
        "GITHUB_TOKEN": "t",
        "LD_PRELOAD": "evil.so",
        "NODE_OPTIONS": "--require evil",
        "PYTHONPATH": "evil",
        "HTTPS_PROXY": "http://user:password@proxy",
        "npm_config_registry": "https://user:password@registry",
        "SSH_AUTH_SOCK": "/tmp/agent",
    }
    assert child_environment(environ) == {
        "PATH": "/bin",
        "HOME": "/home/u",
        "LC_ALL": "C",
        "XDG_CACHE_HOME": "/c",
    }


def test_own_variables_come_on_top_and_need_no_permission():
    own = {"HOME": "/elsewhere", "GITHUB_TOKEN": "t"}
    assert child_environment({"HOME": "/home/u"}, own) == own


def test_shell_functions_are_dropped():
    assert child_environment({"TERM": "() { :; }; evil"}) == {}
