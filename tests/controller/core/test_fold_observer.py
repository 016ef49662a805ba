"""An observer that does not distinguish pauses from ends."""

from controller.core.fold_observer import FoldObserver
from controller.core.triggers import Startup, Trigger


class Noting(FoldObserver):
    """Notes the procedures that run."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def begins(self, trigger: Trigger) -> None:
        self.noted.append(type(trigger).__name__)

    def ends(self) -> None:
        self.noted.append("end")


def test_paused_procedure_ends_and_begins_again() -> None:
    observer = Noting()
    observer.begins(Startup())
    observer.pauses()
    observer.resumes(Startup())
    assert observer.noted == ["Startup", "end", "Startup"]
