"""A reporter of one's own: it says whenever a run is better than it ever was.

    hnca train examples/gates.py:Gates --reporter examples/best_reporter.py:Best

docs/reporters.md says what else a reporter gets.
"""


class Best:
    """Keeps the best test so far, of each run."""

    def __init__(self):
        self._best = {}  # by the directory of the run

    def begin(self, run, data):
        """A run starts, or goes on: `run.entries` has the epochs that are done."""
        self._best[run.directory.path] = float("-inf")
        for entry in run.entries:
            self._update(run, entry)

    def epoch(self, run, entry):
        """An epoch is over."""
        if self._update(run, entry):
            print(f"  the best so far, in {run.directory.path}")

    def end(self, run, summary):
        """The run is done, or stops before that: then there is no summary."""
        how = "done" if summary else "stopped"
        print(f"{how}: the best test was {self._best[run.directory.path]:.4f}")

    def _update(self, run, entry):
        """Whether an epoch is better than those before; not every one has a test."""
        tested = entry.get(f"test_{run.experiment.measure}", float("-inf"))
        better = tested > self._best[run.directory.path]
        if better:
            self._best[run.directory.path] = tested
        return better
