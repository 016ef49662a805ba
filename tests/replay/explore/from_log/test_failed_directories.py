"""The replicas in failed log directories, from an imported log."""

from controller.core.configuration import Configuration
from replay.explore.from_log.failed_directories import FailedDirectories
from replay.explore.from_log.schedule import Schedule
from replay.explore.from_log.start import START_MS
from replay.world.inputs import FailLogDirectory

SECOND_NS = 1_000_000_000
A, B = ("t", 0), ("t", 1)


def begun() -> tuple[Schedule, FailedDirectories]:
    """An incident with broker 2 that begins at 0."""
    schedule = Schedule(Configuration(broker_id=100))
    schedule.begin(0, {}, [2])
    return schedule, FailedDirectories(schedule)


def test_replicas_that_the_controller_logs_are_in_the_directory_that_was_reported() -> None:
    schedule, directories = begun()
    directories.reported(SECOND_NS, 2)
    directories.logged(2 * SECOND_NS, 2, [A])
    directories.logged(3 * SECOND_NS, 2, [A, B])
    directories.end()
    assert schedule.inputs == [FailLogDirectory(START_MS + 1_000, 2, (A, B), None)]


def test_replicas_that_are_logged_without_a_report_are_a_failure() -> None:
    schedule, directories = begun()
    directories.logged(SECOND_NS, 2, [A])
    assert schedule.inputs == [FailLogDirectory(START_MS + 1_000, 2, (A,), None)]


def test_replicas_that_fail_again_after_a_start_of_the_broker_survive_it() -> None:
    schedule, directories = begun()
    directories.logged(SECOND_NS, 2, [A])
    directories.started(2)
    directories.logged(2 * SECOND_NS, 2, [A])
    directories.started(2)
    failed = FailLogDirectory(START_MS + 1_000, 2, (A,), None, survives_restart=True)
    assert schedule.inputs == [failed]


def test_replicas_that_leave_the_isr_have_failed_unless_the_log_says_which_have() -> None:
    schedule, directories = begun()
    directories.reported(SECOND_NS, 2)
    directories.left_isr(2 * SECOND_NS, 2, A)
    directories.is_logged = True
    directories.left_isr(2 * SECOND_NS, 2, B)
    directories.end()
    assert schedule.inputs == [FailLogDirectory(START_MS + 1_000, 2, (A,), None)]


def test_directory_without_a_known_replica_is_no_input() -> None:
    schedule, directories = begun()
    directories.reported(SECOND_NS, 2)
    directories.end()
    assert schedule.inputs == []
