"""How many cores this process may use, and how many of them XLA does."""

import os

THREADS = "PJRT_NPROC"  # the variable that tells XLA for CPUs how many threads to start


def usable_cores() -> int:
    """Those that the system lets this process use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def computing_cores() -> int:
    """Those that XLA has a thread for."""
    told = os.environ.get(THREADS, "")
    return min(int(told), usable_cores()) if told.isdigit() and int(told) else usable_cores()
