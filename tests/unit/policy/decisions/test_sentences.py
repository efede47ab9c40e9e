"""What an agent may do, in sentences."""

from paddock.model.network import NetworkRule
from paddock.model.program import ACCESSES
from paddock.policy.decisions.sentences import Sentence, describe_policy
from paddock.policy.settings.flow import FlowLabel, FlowRule, FlowSettings
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import (
    GrantSettings,
    NetworkSettings,
    RuntimeSettings,
    SdkSettings,
    Settings,
)


def read(settings, title, **options):
    return next(
        (topic.sentences for topic in describe_policy(settings, **options) if topic.title == title), ()
    )


def test_without_settings_everything_but_hosts_and_flow_is_said():
    assert [topic.title for topic in describe_policy(Settings())] == [
        "Programs in other languages",
        "JavaScript and methods of the SDK",
        "Tools of servers",
        "Rules",
        "Limits",
    ]


def test_programs_that_are_switched_off_take_one_sentence():
    assert read(Settings(runtimes=RuntimeSettings(enabled=False)), "Programs in other languages") == (
        Sentence("Agents may run no programs in other languages.", "runtimes.enabled"),
    )


def test_every_access_and_network_has_a_sentence():
    for access in ACCESSES:
        found = read(Settings(runtimes=RuntimeSettings(access=access)), "Programs in other languages")
        assert [each.source for each in found].count("runtimes.access") == 1


def test_granted_servers_are_named():
    settings = Settings(grants=GrantSettings(servers=("git", "mail"), calls="read_only"))
    assert read(settings, "Tools of servers") == (
        Sentence("Programs may call the servers git, mail.", "grants.servers"),
        Sentence("They may call only tools that their server marks as read-only.", "grants.calls"),
    )
    assert read(Settings(grants=GrantSettings(servers=())), "Tools of servers") == (
        Sentence("Programs may call no servers.", "grants.servers"),
    )


def test_the_methods_that_a_person_is_asked_about_are_named():
    title, either = (
        "JavaScript and methods of the SDK",
        "A person is asked before it accepts or undoes changes",
    )
    assert Sentence(f"{either}, unless a rule allows it.", "") in read(Settings(), title)
    only = Settings(sdk=SdkSettings(execute=("changes.undo",)))
    assert read(only, title)[2].text == "A person is asked before it undoes changes, unless a rule allows it."
    for settings in (
        Settings(sdk=SdkSettings(execute=("exec",))),
        Settings(grants=GrantSettings(calls="read_only")),
    ):
        assert "A person" not in " ".join(each.text for each in read(settings, title))


def test_rules_are_numbered_within_their_file_and_paths_can_be_left_out():
    rules = (
        Rule(effect="deny", tool="git/push", reason="no pushes", origin="user"),
        Rule(effect="ask", kind="guest", workspace="/home/me/*", origin="user"),
        Rule(effect="allow", server="git", origin="workspace"),
    )
    settings = Settings(policy=PolicySettings(rule=rules))
    only = "and others of its kind are refused unless another rule of this file names them"
    assert read(settings, "Rules") == (
        Sentence('A call of a server with tool "git/push" is denied (no pushes).', "user rule 1"),
        Sentence('JavaScript with workspace "/home/me/*" waits for a person.', "user rule 2"),
        Sentence(f'A call of a server with server "git" is allowed, {only}.', "workspace rule 1"),
    )
    assert read(settings, "Rules", with_paths=False)[1] == (
        Sentence('JavaScript with workspace "..." waits for a person.', "user rule 2")
    )


def test_headers_of_host_rules_are_named_without_their_values():
    rule = NetworkRule(
        host="api.example.com",
        effect="allow",
        ports=(8443,),
        methods=("GET",),
        paths=("/v1/*",),
        header=(("Authorization", "Bearer secret"),),
        origin="user",
    )
    assert read(Settings(network=NetworkSettings(rule=(rule,))), "Hosts") == (
        Sentence(
            "Sending to api.example.com on port 8443 with GET for /v1/* is allowed, with added Authorization.",
            "user network rule 1",
        ),
    )


def test_labels_count_only_with_a_flow_rule():
    label = FlowLabel(server="mail", source=("private", "untrusted"), sink="external")
    rule = FlowRule(source=("private",), sink="external", effect="mark", origin="user")
    assert read(Settings(flow=FlowSettings(label=(label,))), "Flow of data") == ()
    assert read(Settings(flow=FlowSettings(label=(label,), rule=(rule,))), "Flow of data") == (
        Sentence(
            "A call that can send data to others is marked once its run has read private data.",
            "user flow rule 1",
        ),
        Sentence(
            'Calls with server "mail" return private and untrusted data and can send data to others.',
            "flow.label",
        ),
    )
