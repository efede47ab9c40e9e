"""Tool directories on disk."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeTool = Callable[..., Path]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def make_tool(workspace: Path) -> MakeTool:
    """Return a maker of tool directories below the workspace."""

    def make(
        name: str = "count",
        *,
        folder: str = ".paddock/tools",
        manifest: str = "",
        schema: dict[str, Any] | str | None = None,
        description: str | None = None,
        script: str = "print(1)",
    ) -> Path:
        directory = workspace / folder / name
        directory.mkdir(parents=True)
        text = f"id: {name}\nname: The {name}\nscript: script.py\n{manifest}"
        (directory / "tool.yaml").write_text(text)
        (directory / "script.py").write_text(script)
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            (directory / "schema.json").write_text(text)
        if description is not None:
            (directory / "description.md").write_text(description)
        return directory

    return make
