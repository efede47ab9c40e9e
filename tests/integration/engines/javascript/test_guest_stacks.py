"""Stacks as a program reads them: at the places of the text that the user wrote, and without a way to V8's call sites."""

import re
from typing import Any

PLACES = re.compile(r"paddock:program:(\d+):(\d+)")
COMPILED = """enum Colour { Red, Green }
namespace Paint { export const dry = (colour: Colour) => { throw new Error("wet " + Colour[colour]) } }
class Pot { constructor(private readonly colour: Colour) {}
  open(): never { return Paint.dry(this.colour) as never }
}
async function work(): Promise<never> {
  await null;
  return new Pot(Colour.Green).open();
}
"""


def places(stack: str) -> list[tuple[int, int]]:
    return [(int(line), int(column)) for line, column in PLACES.findall(stack)]


def test_compiled_typescript_reads_its_stacks_at_its_own_lines(guest: Any) -> None:
    read = guest.value(f"{COMPILED}try {{ await work() }} catch (e) {{ return (e as Error).stack }}")
    outcome = guest.run(f"{COMPILED}await work()")
    assert read.startswith("Error: wet Green\n    at ")
    assert [line for line, _ in places(read)][:4] == [2, 4, 8, 10]
    assert places(read)[0] == (outcome.error.line, outcome.error.column)
    assert [line for line, _ in places(read)][:4] == [frame.line for frame in outcome.error.frames][:4]


def test_a_stack_that_was_read_says_where_an_error_that_leaves_was_thrown(guest: Any) -> None:
    plain = guest.run(f"{COMPILED}await work()").error
    read = guest.run(f"{COMPILED}try {{ await work() }} catch (e) {{ (e as Error).stack; throw e }}").error
    assert (read.line, read.column, read.frames[:3]) == (plain.line, plain.column, plain.frames[:3])


def test_a_call_that_fails_has_its_place_in_the_stack(guest: Any) -> None:
    source = "enum E { A }\nconst call = () =>\n  servers.odd.call('fail');\n"
    read = guest.value(f"{source}try {{ await call() }} catch (e) {{ return e.stack }}")
    assert read.startswith("ToolError: error -32603\n    at ")
    assert places(read)[0][0] == 3
    error = guest.run(f"{source}try {{ await call() }} catch (e) {{ e.stack; throw e }}").error
    assert (error.line, error.column) == places(read)[0]


def test_a_stack_that_a_program_writes_is_its_own(guest: Any) -> None:
    source = "enum E { A }\nconst e = new Error('x'); e.stack; e.stack = 'mine'; "
    assert guest.value(f"{source}return e.stack") == "mine"
    assert guest.run(f"{source}throw e").error.line is None


def test_errors_that_are_odd_have_a_stack(guest: Any) -> None:
    source = """enum E { A }
      const odd = new Error("x");
      Object.defineProperty(odd, "name", {get() { throw new Error("no") }});
      const holder: any = {};
      Error.captureStackTrace(holder);
      Error.stackTraceLimit = 0;
      return [odd.stack.split("\\n")[0], holder.stack.split("\\n")[0], new Error("bare").stack];
    """
    assert guest.value(source) == ["Error", "Error", "Error: bare"]


def test_what_writes_stacks_gives_no_call_sites_away(guest: Any) -> None:
    source = """enum E { A }
      const seen: string[] = [];
      const note = (value: any) => { seen.push(Object.prototype.toString.call(value)); return "noted" };
      for (const name of ["valueOf", "toString"]) (Object.prototype as any)[name] = function () { return note(this) };
      const write = (Error as any).prepareStackTrace;
      const stack = new Error("x").stack;
      const changed = Reflect.defineProperty(Error, "prepareStackTrace", {value: (e: any, sites: any) => note(sites)});
      return [seen, typeof stack, changed, write(new Error("y"), ["paddock:program:1:1"]), Object.isFrozen(write)];
    """
    seen, kind, changed, written, frozen = guest.value(source)
    assert [each for each in seen if "CallSite" in each] == []
    assert (kind, changed, frozen) == ("string", False, True)
    assert written == "Error: y\n    at paddock:program:1:1"


def test_a_program_may_switch_stacks_off(guest: Any) -> None:
    source = "enum E { A }\nError.stackTraceLimit = undefined; return await servers.nope.call('t').catch((e) => e.stack)"
    assert guest.value(source) == "ToolError: Unknown server: nope; known: odd, even."
