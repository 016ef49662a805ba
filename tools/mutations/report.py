"""The output of a run."""

from collections import Counter

from rich.console import Console

from tools.mutations.run import MutationResults
from tools.mutations.suite import TIME_OUT
from tools.mutations.survivors import MISSING, UNREVIEWED, Reviewed, reason_of, test_named


def report(result: MutationResults, listed: Reviewed, console: Console) -> bool:
    """Print a run's result. Return whether all surviving mutations are in the reviewed list."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    states: Counter[str] = Counter()
    new = []
    noticed_although_listed = []
    for mutant, verdict in result.mutants:
        reason = reason_of(listed, mutant)
        if verdict.error:
            states["impossible"] += 1
            say(f"cannot be tried: {mutant.name}: {verdict.error}")
        elif verdict.noticed_by:
            states[TIME_OUT if verdict.noticed_by == TIME_OUT else "noticed"] += 1
            is_listed = mutant.key in listed.get(mutant.function.short_name, {})
            if is_listed and not test_named(listed, mutant):
                noticed_although_listed.append(mutant.name)
        elif reason is None:
            new.append(mutant.name)
        else:
            states[_state(reason)] += 1
    for name in noticed_although_listed:
        say(f"noticed now, its line in the list of survivors can go: {name}")
    for rule in result.broken_rules:
        say(f"rule: {rule}")
    for test in result.unnoticing:
        say(f"named by a page, and notices no mutant: {test}")
    for name, test in result.outside_sample.items():
        say(f"noticed by a test that is not in the sample; name it to save time: {name}: {test}")
    for name in new:
        say(f"new survivor: {name}")
    if result.cut_short:
        say(f"no time to run all tests for {result.cut_short} of the new survivors")
    tried = len(result.mutants) - states["impossible"]
    noticed = states["noticed"] + states[TIME_OUT]
    share = 100 * noticed / tried if tried else 0.0
    rate = 60 * (tried - result.uncovered) / max(result.trial_seconds, 0.001)
    say(
        f"score {share:.1f} %: {noticed} of {tried} mutants are noticed"
        f" ({states[TIME_OUT]} by a time-out)"
    )
    say(
        f"survivors: {len(new)} new, {states['justified']} justified,"
        f" {states[MISSING]} without a test that is wanted, {states[UNREVIEWED]} unreviewed;"
        f" no test runs {result.uncovered}"
    )
    if result.rules:
        say(f"rules by hand: {result.rules}, {len(result.broken_rules)} of them not noticed")
    if result.page_tests:
        unnoticing = len(result.unnoticing)
        say(
            f"tests that pages name: {result.page_tests}, {unnoticing} notice no mutant,"
            f" no time for {result.page_tests_left}"
        )
    if result.left:
        say(f"no time for {result.left} mutants of this run")
    say(
        f"coverage map {result.map_seconds:.0f} s, trials {result.trial_seconds:.0f} s,"
        f" {rate:.0f} mutants a minute"
    )
    return not (new or result.broken_rules or result.unnoticing)


def _state(reason: str) -> str:
    if reason == UNREVIEWED:
        return UNREVIEWED
    return MISSING if reason.startswith(f"{MISSING}:") else "justified"
