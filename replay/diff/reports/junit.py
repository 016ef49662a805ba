"""A comparison as JUnit XML: one test per log, which fails if it has unaccepted differences
or a version does not agree with itself."""

from xml.etree import ElementTree

from replay.diff.comparing import Comparison, Group, LogResult
from replay.diff.reports import sentences


def junit(comparison: Comparison, failing: list[Group]) -> str:
    """A log fails if it is in one of the groups `failing`."""
    failures = {
        one.log: [group for group in failing if one.log in group.logs] for one in comparison.logs
    }
    suite = ElementTree.Element(
        "testsuite",
        name=f"refold diff {comparison.base.reference} {comparison.head.reference}",
        tests=str(len(comparison.logs)),
        failures=str(sum(bool(failures[one.log] or one.nondeterminism) for one in comparison.logs)),
        errors=str(len(comparison.errors)),
    )
    for result in comparison.logs:
        _case(suite, result, failures[result.log])
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


def _text(group: Group, log: str) -> str:
    here = next(one for one in group.instances if one.log == log)
    lines = [
        f"{group.id}  {sentences.title(group)}",
        sentences.where(here),
        *sentences.details(here),
    ]
    return "\n".join(
        [*lines, *(one for one in (sentences.followers(here), *sentences.outcome(here)) if one)]
    )


def _legal(text: str) -> str:
    """Replace control characters that XML does not allow."""
    return "".join(one if one >= " " or one in "\n\t" else "?" for one in text)
