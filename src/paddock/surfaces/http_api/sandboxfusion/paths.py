"""The paths of these endpoints, for what treats their requests in another way."""

from typing import Final

RUN_CODE_PATH: Final = "/run_code"
RUN_JUPYTER_PATH: Final = "/run_jupyter"
TEST_PROGRAM_PATH: Final = "/test_program"
TEST_PROGRAM_STDIO_PATH: Final = "/test_program_stdio"
PATHS = frozenset({RUN_CODE_PATH, RUN_JUPYTER_PATH, TEST_PROGRAM_PATH, TEST_PROGRAM_STDIO_PATH})
