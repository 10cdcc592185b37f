"""What is told of nodes that differ, and of what is wrong with a cluster."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from routebook.audit.compare import Comparison, Difference
from routebook.audit.findings import Finding, Severity
from routebook.audit.survey import Survey
from routebook.documents.columns import Column, documents_of

DIFFERENCES = (
    Column[Difference]("kind", "difference", lambda difference: difference.kind),
    Column[Difference]("broker", "broker", lambda difference: difference.broker),
    Column[Difference]("topics", None, lambda difference: list(difference.topics)),
    Column[Difference](
        "says", None, lambda difference: {str(n): text for n, text in difference.says.items()}
    ),
)


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    return {
        "nodes": [str(node) for node in comparison.nodes],
        "topics": comparison.topic_count,
        "complete": comparison.complete,
        "differences": documents_of(DIFFERENCES, comparison.differences),
        "failures": {str(node): reason for node, reason in comparison.failures.items()},
        "unanswered": {str(node): dict(e) for node, e in comparison.unanswered.items()},
    }


def diagnosis_document(survey: Survey, findings: Sequence[Finding]) -> dict[str, Any]:
    counts = Counter(finding.severity for finding in findings)
    return {
        "nodes": [str(node) for node in survey.views],
        "counts": {severity.value: counts[severity] for severity in Severity},
        "findings": [
            {
                "check": finding.check,
                "severity": finding.severity.value,
                "subject": finding.subject,
                "evidence": list(finding.evidence),
                "remedy": finding.remedy,
            }
            for finding in findings
        ],
    }
