"""The format of `tool.yaml`, shared with other programs and accepted unchanged; two fields are Paddock's own."""

from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from paddock.engines.script_tools import yaml
from paddock.model.base import Json, Value
from paddock.model.languages import read_language
from paddock.model.network import NetworkRequest
from paddock.model.program import Access
from paddock.model.texts import explain

Trigger = Literal["schema_match", "explicit", "always", "never"]
Text = Annotated[str, Field(min_length=1)]

_TRIGGERS = {"parameter_match": "schema_match"}
"""Deprecated names."""
_MODES: dict[str, dict[str, Json]] = {
    "auto": {"trigger": "schema_match", "confirm": False},
    "manual": {"trigger": "explicit"},
    "confirm": {"confirm": True},
}
"""The meaning of the deprecated `mode`, if no newer field is set."""
_MAX_PROBLEMS = 10
_MESSAGES = {
    "missing": "is missing",
    "string_type": "must be a text; put it in quotes",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must be 1 to 100 letters, digits, `_`, `.` and `-`, and not begin with `.` or `-`",
}
"""Error texts that replace those of the library."""


def _rename_trigger(trigger: Json) -> Json:
    return _TRIGGERS.get(trigger, trigger) if isinstance(trigger, str) else trigger


class ManifestError(ValueError):
    """An invalid `tool.yaml`; the text lists the faults as `path: message`, joined by `; `."""


class _ManifestSection(Value):
    """Names are spelled as in YAML; unknown ones are kept separately."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, strict=True
    )


class ToolExecution(_ManifestSection):
    """`execution`: when the tool runs automatically, and whether a person is asked first."""

    trigger: Annotated[Trigger, BeforeValidator(_rename_trigger)] = "schema_match"
    confirm: bool = True
    strict: bool = False
    """Whether a match needs all required parameters, not only one."""
    confirm_message: str | None = None
    auto_approve_on_valid: bool = False


class ToolManifest(NetworkRequest, _ManifestSection):
    """One `tool.yaml`."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
    name: Text
    script: Text
    description: str | None = None
    runtime: Annotated[Text, AfterValidator(read_language)] = "auto"
    """`auto`, `python`, `node`, `shell`, or any other runtime; the engine checks it."""
    schema_file: str = "schema.json"
    description_file: str = "description.md"
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Milliseconds."""
    env: dict[str, str] = Field(default_factory=dict)
    working_dir: str | None = None
    enabled: bool = True
    execution: ToolExecution = ToolExecution()
    workspace: Access = "none"
    """Access of the script to the workspace; with `network` and `hosts`, Paddock's own field."""


def read(text: str) -> ToolManifest:
    """Return the manifest in a text. Raises ManifestError."""
    try:
        document = yaml.read(text)
    except yaml.YamlError as problem:
        raise ManifestError(str(problem)) from None
    if not isinstance(document, dict):
        raise ManifestError("expected a mapping of fields")
    try:
        return ToolManifest.model_validate(_migrate_document(cast("dict[str, Json]", document)))
    except ValidationError as problem:
        raise ManifestError("; ".join(explain(problem, messages=_MESSAGES, limit=_MAX_PROBLEMS))) from None


def unknown_fields(text: str) -> list[str]:
    """Return the unknown fields of a valid manifest, to find misspelled ones."""
    document = cast("dict[str, Any]", yaml.read(text))
    found = [str(name) for name in document if name not in _field_names(ToolManifest)]
    section = document.get("execution")
    known = _field_names(ToolExecution) | {"mode", "confidence"}
    if isinstance(section, dict):
        found += [f"execution.{name}" for name in cast("dict[Any, Json]", section) if name not in known]
    return found


def _field_names(section: type[_ManifestSection]) -> set[str]:
    return {field.alias or name for name, field in section.model_fields.items()}


def _migrate_document(document: dict[str, Json]) -> dict[str, Json]:
    section = document.get("execution")
    if not isinstance(section, dict):
        return {name: value for name, value in document.items() if value is not None}
    given = cast("dict[str, Json]", section)
    mode = given.get("mode")
    wanted = _MODES.get(mode, {}) if isinstance(mode, str) else {}
    return {**document, "execution": {**wanted, **given}}
