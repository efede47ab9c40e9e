"""Two plain V8 contexts: one runs intake as its worker will, the other runs what intake made."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from py_mini_racer import MiniRacer

from paddock.engines.javascript import parse
from paddock.engines.javascript.child import parse_worker
from paddock.engines.javascript.parse import ParsedProgram, ProgramError
from paddock.engines.javascript.source_map import SourcePosition, find_place
from paddock.model.outcome import ErrorInfo

SCRIPTS = Path(parse.__file__).parent / "js"

STUBS = """
globalThis.servers = {github: {list: async (query) => [1, 2, 3].slice(0, query?.limit ?? 3)}};
globalThis.seen = [];
globalThis.__paddock = (program) => { globalThis.program = program };
globalThis.settle = (input) => {
  seen.length = 0;
  return program(JSON.parse(input), (thrown) => thrown).then(
    (value) => JSON.stringify({value: value === undefined ? "<undefined>" : value, seen}),
    (error) => JSON.stringify({error: String(error), stack: String(error?.stack)}),
  );
};
"""


class Host:
    """Stands in for the intake worker and for a program's worker."""

    def __init__(self, reader: MiniRacer, runner: MiniRacer) -> None:
        self.reader = reader
        self.runner = runner
        self.typescript_loads = 0
        for script in parse_worker.SCRIPTS:
            reader.eval((SCRIPTS / script).read_text("utf-8"))
        runner.eval(STUBS)

    def ask(self, source: str, language: str = "auto") -> bytes:
        """Return what parse.js answers, loading TypeScript when it says so."""
        request = parse.write_request(source, language).decode()  # pyright: ignore[reportArgumentType]
        response = str(self.reader.eval(f"intake({json.dumps(request)})"))
        if response == '{"ok":false,"needs":"typescript"}':
            self.load_typescript()
            return self.ask(source, language)
        return response.encode()

    def read(self, source: str, language: str = "auto") -> ParsedProgram | ErrorInfo:
        """Return the program, or why the text is none."""
        try:
            return parse.read_response(self.ask(source, language), source)
        except ProgramError as error:
            return error.info

    def load_typescript(self) -> None:
        """Do what the worker does upon `needs`."""
        self.typescript_loads += 1
        for script in parse_worker.TYPESCRIPT_SCRIPTS:
            self.reader.eval((SCRIPTS / script).read_text("utf-8"))
        wasm = (SCRIPTS / parse_worker.TYPESCRIPT_WASM).read_bytes()
        memory = self.reader.eval(f"globalThis.bytes = new ArrayBuffer({len(wasm)}); bytes")
        memory[:] = wasm
        self.reader.eval("loadTypeScript(bytes)")

    def run(self, program: ParsedProgram, argument: object = None) -> dict:
        """Run a program and return what it settled to."""
        self.runner.eval(program.code)
        return json.loads(self.runner.eval("settle")(json.dumps(argument)).get(timeout=10))

    def value(self, source: str, argument: object = None, language: str = "auto") -> object:
        """Return the value of a program that must succeed."""
        program = self.read(source, language)
        assert isinstance(program, ParsedProgram), program
        settled = self.run(program, argument)
        assert "value" in settled, settled
        return settled["value"]

    def refusal(self, source: str, language: str = "auto") -> ErrorInfo:
        """Return why a text is no program."""
        answer = self.read(source, language)
        assert isinstance(answer, ErrorInfo), answer
        return answer

    def thrown_at(self, source: str, argument: object = None, language: str = "auto") -> SourcePosition:
        """Return where in the source the innermost frame of the thrown error stands."""
        program = self.read(source, language)
        assert isinstance(program, ParsedProgram), program
        settled = self.run(program, argument)
        frame = re.search(r"paddock:program:(\d+):(\d+)", settled["stack"])
        assert frame, settled
        return find_place(int(frame[1]), int(frame[2]), program.positions, source)


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with MiniRacer() as reader, MiniRacer() as runner:
        yield Host(reader, runner)
