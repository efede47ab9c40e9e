"""verl's own client of SandboxFusion: reads calls of `check_correctness` as JSON, and prints what each returns.

The module is loaded from its file alone, because the package imports torch.
"""

import importlib.util
import json
import logging
import sys
import sysconfig
from pathlib import Path

logging.disable()
FILE = Path(sysconfig.get_path("purelib"), "verl/utils/reward_score/sandbox_fusion/utils.py")
spec = importlib.util.spec_from_file_location("verl_sandbox_fusion", FILE)
verl = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verl)

url, calls = json.load(sys.stdin)
answers = []
for call in calls:
    results, metadata = verl.check_correctness(url, **call)
    answers.append([results, [[each["status"], each.get("api_request_error")] for each in metadata]])
json.dump(answers, sys.stdout)
