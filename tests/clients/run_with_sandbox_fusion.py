"""The client `sandbox-fusion`: reads requests as JSON, and prints answers, summaries and errors."""

import asyncio
import json
import logging
import sys

import sandbox_fusion as client

logging.disable()
SUMMARY = client.SummaryMapping(
    Success="success", Failed="failed", CompileFailed="compile failed", CompileTimeout="compile timeout",
    RunFailed="run failed", RunTimeout="run timeout",
)  # fmt: skip

endpoint, requests = json.load(sys.stdin)
answers = []
for request in requests:
    try:
        if "cells" in request:
            given = client.RunJupyterRequest(**request)
            answer = client.run_jupyter(given, endpoint=endpoint, max_attempts=1, client_timeout=600)
            answers.append(json.loads(answer.json()))
            continue
        given = client.RunCodeRequest(**request)
        answer = client.run_code(given, endpoint=endpoint, max_attempts=1, client_timeout=600)
        again = asyncio.run(
            client.run_code_async(given, endpoint=endpoint, max_attempts=1, client_timeout=600)
        )
        same = [client.summary_run_code_result(each, SUMMARY) for each in (answer, again)]
        answers.append([same, json.loads(answer.json())])
    except Exception as error:  # noqa: BLE001 - whatever the client raises
        answers.append(str(error))
json.dump(answers, sys.stdout)
