"""Write the types of the TypeScript client from the OpenAPI document: python scripts/typescript_client.py [--check].

It needs the packages of the client: `npm ci --ignore-scripts` in clients/typescript, or `--modules DIR` for another
place where they are installed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from paddock.surfaces.http_api.app import ROUTERS
from paddock.surfaces.http_api.openapi import build_document
from paddock.surfaces.http_api.service_routes import OPEN_PATHS

CLIENT = Path(__file__).resolve().parents[1] / "clients" / "typescript"
TYPES = CLIENT / "src" / "schema.ts"
FLAGS = ("--root-types", "--root-types-no-schema-prefix", "--alphabetize", "--default-non-nullable=false")


def describe_api() -> dict[str, Any]:
    """Return the OpenAPI document, without a server."""
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    return build_document(app, OPEN_PATHS)


def generate_types(modules: Path) -> str:
    """Return the types that the generator in `modules`, a `node_modules`, makes of the document."""
    with tempfile.TemporaryDirectory() as directory:
        document, types = Path(directory) / "openapi.json", Path(directory) / "schema.ts"
        document.write_text(json.dumps(describe_api()))
        generator = modules / "openapi-typescript" / "bin" / "cli.js"
        command = ["node", generator, document, "--output", types, *FLAGS]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return types.read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--modules", type=Path, default=CLIENT / "node_modules")
    options = parser.parse_args()
    types = generate_types(options.modules)
    if options.check:
        if TYPES.read_text() == types:
            return 0
        print(f"{TYPES} differs from the OpenAPI document; run: python scripts/typescript_client.py")
        return 1
    TYPES.write_text(types)
    return 0


if __name__ == "__main__":
    sys.exit(main())
