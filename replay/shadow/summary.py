"""The result of a shadow run."""

from msgspec import field

from replay.agreement.results import AgreementResult


class ShadowResult(AgreementResult):
    """The result of `refold run --mode shadow`: that of `refold agree`, over all logs of the run,
    with counts of what neither agrees nor differs.

    `unseen_decisions` are decisions whose reason is in no file. `unseen_versions` are versions of
    znodes that were overwritten before they were read. `records` is the number of records, `zxid`
    the last transaction.
    """

    logs: list[str] = field(default_factory=list)
    unseen_decisions: int = 0
    unseen_versions: int = 0
    records: int = 0
    zxid: int = 0

    @property
    def unjudged_decisions(self) -> int:
        """Unseen decisions are not judged."""
        return super().unjudged_decisions + self.unseen_decisions

    @property
    def is_whole(self) -> bool:
        """Whether all decisions and requests were judged."""
        return super().is_whole and not (self.unseen_decisions or self.unseen_versions)
