"""Which errors of the compiler count, and how they are worded."""

from paddock.engines.types.findings import Finding, read_findings

FRAME = "\n\n1 code\n  ~~~~\n"
DECLARED = "\n  servers.d.ts:3:5\n    3 x\n      ~\n    The expected type comes from property 'x'.\n"


def read(*errors, source="", **options):
    return [each[3:] for each in read_findings("\n".join(errors), source, **options)]


def error(code, message, chain="", declared=""):
    return f"program.ts:3:7 - error TS{code}: {message}{chain}{FRAME}{declared}"


def test_a_finding_has_its_file_place_code_and_last_reason():
    chain = "\n  Property 'time' is missing in type '{ zone: string; }' but required in type 'Arguments$a$b'."
    printed = (
        f"\x1b[96mprogram.ts\x1b[0m:3:7 - error TS2345: Argument of type.{chain}{FRAME}\nFound 1 error.\n"
    )
    reason = "Property 'time' is missing in type '{ zone: string; }' but required in type 'Arguments$a$b'."
    assert read_findings(printed, "") == [Finding("program", 3, 7, 2345, reason)]


def test_an_error_counts_if_it_involves_a_declaration():
    message = "Type 'number' is not assignable to type 'string | Date'."
    assert read(error(2322, message)) == []
    assert read(error(2322, message, declared=DECLARED)) == [(2322, message)]


def test_members_count_on_types_of_tools_promises_and_plain_values():
    def missing(kind):
        return error(2339, f"Property 'x' does not exist on type '{kind}'.")

    for kind in ("Result$a$b", "Server$a", "Servers$", "string", "Result$a$b$items[]"):
        assert read(missing(kind)) == [(2339, f"Property 'x' does not exist on type '{kind}'.")], kind
    for kind in ("{}", "{ a: number; }", "Result$a$b | string", "never", "Own", "typeof globalThis"):
        assert read(missing(kind)) == [], kind
    text = "Property 'x' does not exist on type 'Promise<any>'. Write `await` before the call."
    assert read(missing("Promise<any>")) == [(2339, text)]


def test_members_that_a_program_assigns_or_tests_do_not_count():
    printed = error(2339, "Property 'x' does not exist on type 'Result$a$b'.")
    for source in ("r.x = 1", "r.x?.y", "r.x ?? 1", 'if ("x" in r) r.x'):
        assert read(printed, source=source) == [], source
    for source in ("r.x == 1", "r.x => 1", "r.xs = 1"):
        assert len(read(printed, source=source)) == 1, source


def test_literals_that_lost_their_value_do_not_count():
    chain = "\n  Type 'string' is not assignable to type '\"a\" | \"b\"'."
    assert read(error(2345, "Argument of type '{ x: string; }'.", chain, DECLARED)) == []
    wrong = 'Type \'"c"\' is not assignable to type \'"a" | "b"\'.'
    assert read(error(2322, wrong, declared=DECLARED)) == [(2322, wrong)]


def test_names_that_do_not_exist_count_unless_a_program_may_have_made_them():
    printed = error(2591, "Cannot find name 'Buffer'. Do you need to install type definitions for node?")
    assert read(printed) == [(2591, "Cannot find name 'Buffer'.")]
    near = error(2552, "Cannot find name 'githb'. Did you mean 'github'?")
    assert read(near) == [(2552, "Cannot find name 'githb'. Did you mean 'github'?")]
    assert read(printed, in_session=True) == []
    for source in ("typeof Buffer", "globalThis.Buffer = 1", "this.Buffer"):
        assert read(printed, source=source) == [], source


def test_other_errors_and_other_text_do_not_count():
    noise = [error(code, "Parameter 'x' implicitly has an 'any' type.") for code in (7006, 18046, 2531, 1005)]
    assert read(*noise, "error TS5023: Unknown compiler option", "program.ts:x:1 - error TS1: x") == []


def test_long_and_hidden_text_is_cut_and_spelled_out():
    ((_, message),) = read(error(2345, "Argument of type 'Promise<\u202e" + "x" * 999))
    assert len(message) == 400
    assert message.startswith("Argument of type 'Promise<\\u{202e}xxx")
