"""The file of a program that Paddock stores shadows no module of its language's library."""

import sys
from pathlib import Path

import pytest

from paddock import BlockingPaddock
from paddock.engines.programs.recipe import recipes

ONCE = "import doctest, pdb; print('once')"


@pytest.mark.parametrize("files", [None, {"a.txt": b"1"}])
def test_a_python_program_that_imports_code_runs_once(
    workspace: Path, files: dict[str, bytes] | None
) -> None:
    with BlockingPaddock(workspace) as p:
        assert p.exec("python", ONCE, files=files).text == "once\n"


def test_no_module_of_python_has_the_name_of_the_stored_program() -> None:
    recipe = recipes({})["python"]
    assert (recipe.stem, recipe.stem in sys.stdlib_module_names) == ("program", False)


SEARCHED = {
    "ruby": "puts $LOAD_PATH.select { |each| each == '.' || each.start_with?(File.dirname(ENV['TMPDIR'])) }",
    "perl": "use File::Basename; my $own = dirname($ENV{TMPDIR}); print grep { $_ eq '.' || /^\\Q$own\\E/ } @INC;",
    "node": "console.log(require.resolve.paths('x').filter((each) => !/(node_modules|node_libraries|lib.node)$/.test(each)).join())",
}


@pytest.mark.parametrize("language", SEARCHED)
def test_a_language_does_not_search_the_folder_of_the_program(workspace: Path, language: str) -> None:
    with BlockingPaddock(workspace) as p:
        assert p.exec(language, SEARCHED[language]).text.strip() == ""


def test_what_a_recipe_writes_is_found_by_a_program_with_files(workspace: Path) -> None:
    with BlockingPaddock(workspace) as p:
        code = "puts Dir.children('.').sort.inspect"
        assert p.exec("ruby", code, files={"a.txt": b"1"}).text == '["a.txt", "code.rb"]\n'
