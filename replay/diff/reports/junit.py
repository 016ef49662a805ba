"""A comparison as JUnit XML: one test per log, which fails if it has unaccepted differences
or a version does not agree with itself."""

from xml.etree import ElementTree

from replay.diff.comparing import Comparison, Group, Instance, LogResult
from replay.diff.reports import sentences


def junit(comparison: Comparison, failing: list[Group], uncovered: list[str]) -> str:
    """A log fails if it is in one of the groups `failing`. The changes `uncovered`, if there are
    any, are one more case that fails."""
    failures = {one.log: _groups_of_log(one.log, failing) for one in comparison.logs}
    suite = ElementTree.Element(
        "testsuite",
        name=f"refold diff {comparison.base.reference} {comparison.head.reference}",
        tests=str(len(comparison.logs) + bool(uncovered)),
        failures=str(
            sum(bool(failures[one.log] or one.nondeterminism) for one in comparison.logs)
            + bool(uncovered)
        ),
        errors=str(len(comparison.errors)),
    )
    for result in comparison.logs:
        _case(suite, result, failures[result.log])
    if uncovered:
        case = ElementTree.SubElement(
            suite, "testcase", classname="refold.diff", name="changed code"
        )
        message = f"{len(uncovered)} changes that the logs do not show"
        failure = ElementTree.SubElement(case, "failure", message=message)
        failure.text = _legal("\n".join(uncovered))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, result: LogResult, failing: list[Group]) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname="refold.diff", name=_legal(result.log)
    )
    if result.error:
        ElementTree.SubElement(case, "error", message=_legal(result.error))
    elif failing or result.nondeterminism:
        unstable = [sentences.of_nondeterminism(one) for one in result.nondeterminism]
        message = "; ".join([*unstable, *(sentences.title(one) for one in failing)])
        failure = ElementTree.SubElement(case, "failure", message=_legal(message))
        texts = [*unstable, *(_text(one, result.log) for one in failing)]
        failure.text = _legal("\n\n".join(texts))


def _groups_of_log(log: str, failing: list[Group]) -> list[Group]:
    """The groups of a log, the one that comes first in it at the beginning."""
    return sorted(
        (group for group in failing if log in group.logs),
        key=lambda group: _instance_in(group, log).is_later,
    )


def _instance_in(group: Group, log: str) -> Instance:
    """The instance of a group that a log shows first."""
    return min((one for one in group.instances if one.log == log), key=lambda one: one.is_later)


def _text(group: Group, log: str) -> str:
    here = _instance_in(group, log)
    lines = [
        f"{group.id}  {sentences.title(group)}",
        *([sentences.AFTER] if here.is_later else []),
        sentences.first_cause_place(here),
        *sentences.details(here),
    ]
    return "\n".join(
        [*lines, *(one for one in (sentences.followers(here), *sentences.outcome(here)) if one)]
    )


def _legal(text: str) -> str:
    """Replace control characters that XML does not allow."""
    return "".join(one if one >= " " or one in "\n\t" else "?" for one in text)
