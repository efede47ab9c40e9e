"""Grade five candidate solutions of one task: each is judged by the same tests, of which one is hostile.

python grade.py
"""

import tempfile

from paddock import BlockingPaddock, Case, Program, ProgramResult

TESTS = [
    Case(name="small", stdin="3\n4 1 3\n", expect="1 3 4\n"),
    Case(name="equal", stdin="2\n7 7\n", expect="7 7\n"),
    Case(
        name="large",
        stdin="2000\n" + " ".join(map(str, range(2000, 0, -1))),
        expect=" ".join(map(str, range(1, 2001))),
    ),
]
CANDIDATES = {
    "sorted": "input()\nprint(*sorted(map(int, input().split())))\n",
    "forgets equal numbers": "input()\nprint(*sorted(set(map(int, input().split()))))\n",
    "does not compile": "input()\nprint(*sorted(map(int, input().split()))\n",
    "in C++": "#include <algorithm>\n#include <iostream>\n#include <vector>\nint main() { int n; std::cin >> n; "
    "std::vector<int> v(n); for (int &x : v) std::cin >> x; std::sort(v.begin(), v.end()); "
    'for (int x : v) std::cout << x << " "; }\n',
    "searches for the answers": "import glob\nfor folder in ('.', '/tmp', '/home'):\n"
    " for path in glob.glob(f'{folder}/**/*expect*', recursive=True): print(open(path).read())\n"
    "print('verdict: accepted')\n",
}


def main() -> None:
    """Judge the candidates and print their grades, the best first."""
    programs = [
        Program(id=name, language="cpp" if name == "in C++" else "python", code=code, tests=TESTS)
        for name, code in CANDIDATES.items()
    ]
    with tempfile.TemporaryDirectory() as workspace, BlockingPaddock(workspace) as p:
        results = list(p.map(programs))
    for result in sorted(results, key=lambda result: (-count_accepted(result), result.id)):
        verdicts = ", ".join(f"{case.name}: {case.verdict}" for case in result.tests)
        print(f"{count_accepted(result)} of {len(TESTS)}  {result.id} ({verdicts})")


def count_accepted(result: ProgramResult) -> int:
    """Return the number of tests that a candidate passed."""
    return sum(case.verdict == "accepted" for case in result.tests)


if __name__ == "__main__":
    main()
