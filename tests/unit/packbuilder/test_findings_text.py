"""Findings are told to a person, a program and a pull request."""

import json

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding, Severity
from dpone_packbuilder.findings_text import FindingsFormat, render_findings

ERROR = Finding("a.yaml", 3, 5, ErrorCode.MANIFEST_INVALID, "unknown key 'x'", "did you mean 'y'?")
WARNING = Finding("b,c.yaml", 0, 0, ErrorCode.BACKFILL_OVERLAP, "100% overlap", "", Severity.WARNING)


def test_text_has_the_place_first_and_the_counts_last():
    assert render_findings((ERROR, WARNING), 2, FindingsFormat.TEXT) == (
        "a.yaml:3:5  error  DPONE_MANIFEST_INVALID  unknown key 'x'\n"
        "    fix: did you mean 'y'?\n"
        "b,c.yaml  warning  DPONE_BACKFILL_OVERLAP  100% overlap\n"
        "checked 2 workloads: 1 error, 1 warning"
    )


def test_no_findings_are_said_too():
    assert render_findings((), 1, FindingsFormat.TEXT) == "checked 1 workload: no findings"


def test_json_has_every_field():
    document = json.loads(render_findings((ERROR,), 1, FindingsFormat.JSON))
    assert document == {
        "schema": "dpone.check.v1",
        "workloads": 1,
        "errors": 1,
        "warnings": 0,
        "findings": [
            {
                "path": "a.yaml",
                "line": 3,
                "column": 5,
                "severity": "error",
                "code": "DPONE_MANIFEST_INVALID",
                "message": "unknown key 'x'",
                "next_step": "did you mean 'y'?",
            }
        ],
    }


def test_github_annotations_escape_what_would_end_them():
    assert render_findings((ERROR, WARNING), 2, FindingsFormat.GITHUB).splitlines()[:2] == [
        "::error file=a.yaml,line=3,col=5,title=DPONE_MANIFEST_INVALID::unknown key 'x'%0Afix: did you mean 'y'?",
        "::warning file=b%2Cc.yaml,title=DPONE_BACKFILL_OVERLAP::100%25 overlap",
    ]
