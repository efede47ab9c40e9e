"""Workers come from one isolate that was forked: what they must not share, and what the rehearsal must not leave."""

NUMBERS = "return [Math.random(), Math.random(), Math.random()]"


def test_no_two_programs_draw_the_same_numbers(guest):
    drawn = [tuple(guest.run(NUMBERS).value) for _ in range(8)]
    assert len({number for numbers in drawn for number in numbers}) == 24
    assert all(0 <= number < 1 for numbers in drawn for number in numbers)


def test_math_random_uses_all_its_bits_evenly(guest):
    source = """
    const counts = new Array(16).fill(0);
    let low = 0;
    for (let i = 0; i < 16000; i++) {
      const number = Math.random();
      counts[Math.floor(number * 16)]++;
      low += (number * 2 ** 53) % 2;
    }
    return [Math.min(...counts) > 800, Math.max(...counts) < 1200, low > 7500 && low < 8500];
    """
    assert guest.run(source).value == [True, True, True]


def test_math_random_is_a_property_like_the_original(guest):
    source = "return [Object.getOwnPropertyDescriptor(Math, 'random'), Math.random.name, Math.random.length]"
    assert guest.run(source).value == [
        {"writable": True, "enumerable": False, "configurable": True},
        "random",
        0,
    ]


def test_the_rehearsal_leaves_nothing_behind(guest):
    source = """
    return [typeof input, paddock.vars, paddock.workspace.path, "input" in paddock, setTimeout(() => {}, 0),
      typeof __paddock, servers.rehearsal === servers.rehearsal];
    """
    outcome = guest.run(source)
    assert outcome.value == ["undefined", {}, str(guest.workspace), False, 1, "undefined", True]
    assert outcome.console == ()
    assert outcome.usage.host_calls == 0


def test_call_numbers_and_limits_start_anew(guest):
    outcome = guest.run("return (await servers.odd.call('echo', {text: 'x'}), input)", given={"a": 1})
    assert outcome.value == {"a": 1}
    assert outcome.usage.host_calls == 1


def test_the_zone_and_the_clock_are_the_present_ones(guest):
    source = "const a = Date.now(); await sleep(5); return [Date.now() > a, a > 1.7e12]"
    assert guest.value(source) == [True, True]
