"""A check of Schemathesis's that sends each request again with each key, and checks each answer.

The process that starts Schemathesis names this file in SCHEMATHESIS_HOOKS, and in EVERY_CALLER a folder with
`callers.json`, which maps the name of each caller to a key or to none. Each answer is a line of `answers.jsonl` in that
folder.
"""

import json
import os
from pathlib import Path

import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

FOLDER = Path(os.environ["EVERY_CALLER"])
KEYS: dict[str, str | None] = json.loads((FOLDER / "callers.json").read_text())
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
# Whether valid data is accepted depends on the key, so that these are for the caller with every right.
CHECKS_OF_DATA = [checks.positive_data_acceptance, checks.negative_data_rejection]
SESSION = requests.Session()


@schemathesis.check
def answers_to_every_caller(_, first, case):
    """Check the answer to each caller; `first` is the answer without a key."""
    failures = []
    with (FOLDER / "answers.jsonl").open("a") as file:
        for caller, key in KEYS.items():
            headers = {"Authorization": f"Bearer {key}"}
            answer = first if key is None else case.call(session=SESSION, headers=headers)
            problem = ""
            try:
                case.validate_response(answer, checks=CHECKS + CHECKS_OF_DATA * (caller == "admin"))
            except FailureGroup as group:
                problem = str(group)
                failures.extend(group.exceptions)
            file.write(json.dumps({"caller": caller, "status": answer.status_code, "problem": problem}) + "\n")
    if failures:
        raise FailureGroup(failures)
