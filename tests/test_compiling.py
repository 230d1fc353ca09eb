"""Compiling: who asks to stop is heard meanwhile, and what is kept of it may be no good."""

import os
import signal
import threading
import warnings

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from hnca.lab.training import Interrupted, keep_compiled, leave
from hnca.lab.training.compiling import THREAD, elsewhere
from hnca.lab.training.signals import listening
from test_runs import Killed, trainer


def nothing():
    pass


@pytest.fixture(autouse=True)
def alone():
    """No test leaves a compiler at work."""
    yield
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()


@pytest.fixture
def endless(alone):
    """A compiler that goes on until the test is over."""
    over = threading.Event()
    yield over.wait
    over.set()


def test_what_is_made_elsewhere_comes_back():
    assert elsewhere(threading.get_ident, nothing) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        elsewhere(lambda: 1 // 0, nothing)


def test_a_request_is_obeyed_at_once_while_compiling(endless):
    interrupt = lambda: signal.raise_signal(signal.SIGINT)
    with listening() as request, pytest.raises(Interrupted), request.nothing_to_lose():
        elsewhere(endless, interrupt)


def test_among_several_processes_it_is_answered_at_once(endless):
    """The others have to be told before one can leave."""
    told, looks = [], iter([signal.SIGTERM, None, signal.SIGTERM])

    def look():
        if signum := next(looks):
            signal.raise_signal(signum)
        request.answer(told.append)

    with listening() as request, pytest.raises(Interrupted):  # of the second signal
        elsewhere(endless, look)
    assert len(told) == 1


def test_a_request_from_before_is_not_forgotten():
    with listening() as request:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted), request.nothing_to_lose():
            pytest.fail("began")


def test_who_waits_for_a_trainer_can_leave():
    def look():
        raise Killed

    with pytest.raises(Killed):
        trainer().compile([trainer().start()], look)


def test_a_process_does_not_wait_for_its_compiler(endless, monkeypatch):
    left = []
    monkeypatch.setattr(os, "_exit", left.append)
    with pytest.raises(SystemExit):
        leave(130)
    assert not left
    with pytest.raises(Killed):
        elsewhere(endless, lambda: (_ for _ in ()).throw(Killed))
    with pytest.raises(SystemExit):
        leave(130)
    assert left == [130]


@pytest.fixture
def own_cache(tmp_path):
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    compilation_cache.reset_cache()
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


def compile_anew() -> list[str]:
    """A program that is not in memory; returns the warnings."""

    def program_of_a_test(x):
        return 3 * x

    with warnings.catch_warnings(record=True) as caught:
        keep_compiled()
        jax.jit(program_of_a_test)(1.0)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("left", [0, 0.5])
def test_a_compiled_program_that_was_cut_short_is_deleted_and_named_once(own_cache, left):
    assert compile_anew() == []
    [entry] = own_cache.glob("jit_program_of_a_test-*-cache")
    whole = entry.read_bytes()
    entry.write_bytes(whole[: int(left * len(whole))])
    [said] = compile_anew()
    assert said == f"the compiled program {entry} was cut short: deleted, to be made anew"
    assert len(entry.read_bytes()) > len(whole) / 2  # JAX has written it again
    assert compile_anew() == []
