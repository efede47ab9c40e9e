"""The same program and input emit the same bytes, whatever the machine; clock and chance have to be asked for."""

import json
import os
import time

from tests.support.command import run_paddock

from paddock.engines.javascript.computation import derive_seeds

EVERYTHING = """
const date = new Date();
emit([
  Date.now(), date.getTime(), Date(), `${date}`, date.toLocaleString(), date.getTimezoneOffset(), new Date(0).getHours(),
  new Date(1e12).toLocaleString(), Date.parse('2020-01-01T00:00'), new Date(2020, 0, 1).toISOString(), Date.UTC(1970, 0),
  Math.random(), Math.random(), (1234567.891).toLocaleString(), (123n).toLocaleString(), [1.5].toLocaleString(),
  'ä'.localeCompare('z'), 'I'.toLocaleLowerCase(), typeof Intl, new Error('x').stack, Math.sin(1), 2 ** 0.3,
  date.toTemporalInstant(), Date.name, Date.length, new Date(5).getTime(), new (class extends Date {})(6).getTime(),
].join('\\n'));
"""


def test_what_program_and_input_fix():
    assert derive_seeds("emit(1)", "") == (2811368485, 3807756717, 1565103244, 2795979439, 1592698507055)
    assert (
        len(
            {
                derive_seeds("ab", "c"),
                derive_seeds("a", "bc"),
                derive_seeds("abc", ""),
                derive_seeds("", "abc"),
            }
        )
        == 4
    )


def test_equal_runs_emit_the_same(answer):
    first = answer(EVERYTHING, "input").output
    instant = derive_seeds(EVERYTHING, "input")[4]
    assert first.split("\n")[:2] == [str(instant)] * 2
    assert [answer(EVERYTHING, "input").output for _ in range(5)] == [first] * 5
    assert answer(EVERYTHING, "another input").output.split("\n")[0] != str(instant)


def test_zone_and_language_of_the_machine_do_not_show(tmp_path, answer):
    body = json.dumps({"source": EVERYTHING, "input": "input", "limits": {"timeout_ms": 60_000}})
    environment = {
        **os.environ,
        "TZ": "Asia/Tokyo",
        "LC_ALL": "tr_TR.UTF-8",
        "LANG": "tr_TR.UTF-8",
        "PADDOCK_AUDIT_DIRECTORY": str(tmp_path / "audit"),
    }
    done = run_paddock(None, "compute", stdin=body, environment=environment)
    assert json.loads(done.stdout)["output"] == answer(EVERYTHING, "input").output


def test_zone_and_language(answer):
    source = "emit([new Date(0), new Date(0).toLocaleString(), (1234.5).toLocaleString()].join('|'))"
    told = "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)|1/1/1970, 12:00:00 AM|1,234.5"
    assert answer(source).output == told


NATIVE = """
const climb = new Set();
const dates = [Date, Date.prototype.constructor, new Date().constructor, Reflect.construct(Date, [], Object).constructor,
  (class extends Date {}).__proto__, Object.getPrototypeOf(new (class extends Date {})()).__proto__.constructor];
const now = Date.now();
emit(dates.map((D) => D === Object || (D.now() === now && +new D() === now && `${D()}` === `${new Date(now)}`)).join());
"""


def test_no_other_date_is_in_reach(answer):
    assert answer(NATIVE).output == "true,true,true,true,true,true"


def test_clock_and_chance_on_request(answer):
    source = "emit([Date.now(), typeof Intl, Math.random()].join('|'))"
    before = time.time() * 1000
    told = [answer(source, deterministic=False).output.split("|") for _ in range(2)]
    after = time.time() * 1000
    assert all(before - 1 <= int(now) <= after for now, _, _ in told)
    assert [intl for _, intl, _ in told] == ["object", "object"]
    assert told[0][2] != told[1][2]
