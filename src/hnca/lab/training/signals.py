"""Ctrl-C and a polite kill: finish the epoch, save, then leave."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The run was asked to stop, and did. What it had done by then, it has saved."""

    epochs: int | None = None  # done by then, if that is known

    def __init__(self, signum: int):
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


class StopRequest:
    """Whether someone asked to stop."""

    signum: int | None = None
    urgent: bool = False  # more than once
    answered: bool = False
    idle: bool = False  # nothing would be lost: the first request is obeyed at once

    def answer(self, tell: Callable[[str], None]) -> None:
        """Tells the user, once, that the request was heard. Not the signal handler's job: what it
        interrupted may be a line half printed."""
        if self.signum is not None and not self.answered:
            self.answered = True
            tell("stopping after this epoch; once more to stop at once")

    def check(self) -> None:
        """Leaves, if it was asked for."""
        if self.signum is not None:
            raise Interrupted(self.signum)

    @contextmanager
    def nothing_to_lose(self) -> Iterator[None]:
        """Inside, a request is obeyed at once."""
        self.check()
        self.idle = True
        try:
            yield
        finally:
            self.idle = False


@contextmanager
def listening(at_once: bool = True) -> Iterator[StopRequest]:
    """Notes SIGINT and SIGTERM instead of dying of them. The second one is obeyed at once, wherever
    the program is: what was saved stays. Without `at_once` it is noted as well, for a program that
    looks often, and has something to clear away."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # signals are the main thread's business
        return

    def note(signum: int, frame: object) -> None:
        request.urgent = request.signum is not None
        request.signum = request.signum or signum
        if request.idle or (request.urgent and at_once):
            raise Interrupted(signum)

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
