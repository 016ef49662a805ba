"""Why is there no such topic or partition, though the log has heard of it?"""

from replay.why.answers.finding import Reply, at
from replay.why.history import History
from replay.why.words import ended, sentence


def about_absent(history: History) -> Reply:
    """What was asked or told last of a name that is nothing's."""
    subject, facts = history.subject, history.about_its_name()
    name = f"topic {subject.topic}"
    if subject.partition is not None:
        name = f"partition {subject.topic}-{subject.partition}"
    newest = facts[-1]
    return Reply(f"There is no {name}. At {at(newest)}: {ended(sentence(newest))}", facts)
