"""A thread that writes files: the log, or the records of a broker of the 0.8 design."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class WriterThread(Executor):
    """An executor that runs one call at a time, in order.

    A call that never returns, for example on a dead file system, does not prevent the process from
    exiting: Python does not join this thread at exit, as it joins those of a ThreadPoolExecutor.
    """

    def __init__(self, name: str) -> None:
        """`name` is that of the thread, for people who debug the process."""
        # Bounded by its one user, which limits the calls that wait.
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call, as `Executor.submit`."""
        future: Future[T] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = fn(*args, **kwargs)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)

        self._calls.put(call)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread after its last call, without waiting for it."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
