"""What to do about a refusal whose reason does not say so itself.

The reasons are texts of the systems that the compat names come from. Therefore the remedy is a hint of its own, which
those names do not show.
"""

from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun
from paddock.policy.programs import Catalogue
from paddock.settings.schema import Settings


def suggest_remedy(request: ExecutionRequest, rule: str, settings: Settings, catalogue: Catalogue) -> str:
    """Return what to do about the refusal of a request by `rule`; empty where its reason says it."""
    match rule, request.work:
        case "code-size", GuestRun(raw_results=False) as work:
            size = len(work.source.encode("utf-8", "surrogatepass"))
            key = f"limits.{work.profile}.code_bytes"
            return f"the program has {size} bytes; shorten it, or raise `{key}` in paddock.toml"
        case "runtimes.compatible", RuntimeRun(runtime=runtime):
            known = catalogue(runtime)
            others = sorted(known.compatible - {name.lower() for name in known.candidates})
            names = ", ".join([*known.candidates, *others])
            return (
                f"compatible are {names}; without one named, the first that is installed is used"
                if names
                else ""
            )
        case "runtimes.timeout_ms", RuntimeRun():
            most = settings.runtimes.timeout_ms
            return f"ask for at most {most} ms, or raise `runtimes.timeout_ms` in paddock.toml"
        case _:
            return ""
