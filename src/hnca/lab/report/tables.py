"""The results as tables: test bounds beside the paper's, and the last values of every group."""

from .colors import color
from .comparison import Comparison, compare
from .grouping import Group, Panel
from .paper import published_bounds
from .table import MISSING, Cell, Table, number, spread
from .words import METRICS, words


def bounds_table(panels: list[Panel]) -> Table | None:
    """Ours beside the paper's; none without a VAE."""
    if not (rows := compare(panels)):
        return None
    columns = ["layers", "method", "epochs", "seeds", "ours", "paper", "difference"]
    columns += ["do they agree?", "samples", "measured by", "data"]
    published = published_bounds()
    note = (
        f"Ours: mean over seeds and 95% confidence interval (none of one seed). The paper's: "
        f"{published.about}, after {published.epochs} epochs. {published.source}."
    )
    return Table("Test bounds beside the paper's", columns, list(map(_bounds_row, rows)), note)


def _bounds_row(row: Comparison) -> list[Cell]:
    paper, gap = row.paper, row.difference
    ours = row.ours.interval if row.ours else None
    style = "doubtful number" if row.differences else "number"
    printed = paper and f"{paper.mean:g} ± {paper.half:g}"
    return [
        number(row.layers),
        Cell(row.label, color=color(row.estimator)),
        number(row.epochs),
        number(ours and ours.n),
        spread(ours, 2)._replace(style=style),
        number(paper and paper.mean, printed or ""),
        number(gap, f"{gap:+.2f}" if gap is not None else "")._replace(style=style),
        Cell(row.verdict, style="text"),
        number(row.ours and row.ours.samples),
        Cell(row.ours.source if row.ours else MISSING),
        Cell(row.data),
    ]


def final_tables(panels: list[Panel]) -> list[Table]:
    """The last values of every group, a table for each task."""
    tables = []
    for task in dict.fromkeys(panel.key.task for panel in panels):
        ours = [panel for panel in panels if panel.key.task == task]
        groups = [(panel, group) for panel in ours for group in panel.groups if group.runs]
        metrics = [name for name in METRICS if any(group.final(name) for _, group in groups)]
        columns = ["layers", "method", "epochs", "seeds", *map(words, metrics)]
        rows = [_final_row(panel, group, metrics) for panel, group in groups]
        if rows:
            tables.append(Table(task, [*columns, "s/epoch", "data"], rows))
    return tables


def _final_row(panel: Panel, group: Group, metrics: list[str]) -> list[Cell]:
    seconds = group.curve("seconds")
    pace = float(seconds.mean.mean()) if seconds else None
    seeds = f"{len(group.runs)}"
    if group.unfinished:
        seeds += f" (and {len(group.unfinished)} unfinished)"
    return [
        number(panel.key.layers),
        Cell(group.label, color=color(group.estimator)),
        number(panel.key.epochs),
        number(len(group.runs), seeds),
        *(spread(group.final(name), METRICS[name][1]) for name in metrics),
        number(pace, "" if pace is None else f"{pace:.1f}"),
        Cell(panel.data),
    ]
