"""What the site has from the code itself: the reference, the command line's pages, the table of
methods, the refusals, the pictures. So that what is new in the code is on the site."""

import ast
import hashlib
import inspect
import json
import os
import re
import tomllib
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from itertools import groupby
from pathlib import Path
from types import ModuleType

import pictures
from refusals import Refusal, refusals

import hnca
from hnca.estimators import REGISTRY
from hnca.lab.cli import COMMANDS
from hnca.lab.cli import run as run_command
from hnca.lab.experiments import EXPERIMENTS

HERE = Path(__file__).parent
SOURCE = Path(hnca.__file__).parent
BENCHMARKS = HERE.parent / "benchmarks"
# What is public beyond `import hnca`: all that these export, or define.
MODULES = (
    "hnca.models",
    "hnca.counterfactual",
    "hnca.estimators.base",
    "hnca.lab.experiments",
    "hnca.lab.training",
    "hnca.lab.data",
)


def write_all(place: Path) -> None:
    """Everything that pages include, in `_generated`."""
    out = place / "_generated"
    out.mkdir(exist_ok=True)
    for name, text in {
        "methods.md": methods(),
        "reference.md": reference(),
        "lab.md": lab_reference(),
        "commands.md": commands(),
        "refusals.md": refused(),
        "step_times.md": step_times(),
        "bars.md": bars(),
        "speed.md": speed(),
        "time_to_quality.md": time_to_quality(),
    }.items():
        _write(out / name, text)
    pictures.draw_all(out)


def _write(path: Path, text: str) -> None:
    """Leaves alone what is the same: Sphinx builds anew what is newer."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def fingerprint() -> str:
    """Of the code that pages run. Comments and docstrings do not change what comes out."""
    digest = hashlib.sha256()
    for root in (SOURCE, HERE.parent / "examples"):
        for path in sorted(root.rglob("*.py")):
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                match node:
                    case ast.Module() | ast.ClassDef() | ast.FunctionDef() if ast.get_docstring(
                        node
                    ):
                        del node.body[0]
            digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


# Tables


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def methods() -> str:
    """Every method that has a name, and what it can do."""
    yes = lambda flag: "yes" if flag else "no"
    rows = []
    for name, method in REGISTRY.items():
        made = method.make()
        rows.append(
            [f"`{name}`", method.summary, yes(made.unbiased), yes(not made.needs_objective)]
        )
    return _table(["name", "what it does", "unbiased", "works with `Reward`"], rows)


def _measured(name: str) -> dict:
    return json.loads((BENCHMARKS / name).read_text())


def step_times() -> str:
    """Of benchmarks/results.json: a training step of each method, in backpropagations."""
    ratios = _measured("results.json")["ratios"]
    networks = [f"{kind}-{depth}" for kind in ("vae", "bandit") for depth in (1, 2, 3)]
    shown = lambda network, name: ratios.get(f"{network}: {name} / backpropagation")
    rows = []
    for name in REGISTRY:
        times = [shown(network, name) for network in networks]
        if any(times):
            rows.append([f"`{name}`", *("" if t is None else f"{t:.2f}" for t in times)])
    return _table(["method", *networks], rows)


def bars() -> str:
    """Of the same: what the project asks of itself, and with which kernels all was measured."""
    found = _measured("results.json")
    rows = [
        [name, f"{found['ratios'][name]:.2f}", f"{most:g}"] for name, most in found["bars"].items()
    ]
    by_kernel: dict[str, list[str]] = {}
    for part, kernel in found["kernels"].items():
        by_kernel.setdefault(kernel, []).append(f"`{part}`")
    told = "; ".join(f"{', '.join(parts)}: {kernel}" for kernel, parts in by_kernel.items())
    table = _table(["figure", "measured", "at most"], rows)
    return f"{table}\nKernels, by the parts of the benchmark: {told}.\n"


def speed() -> str:
    """Of the same: slower ways, and what depth adds."""
    ratios = _measured("results.json")["ratios"]
    textbook, brute = (
        1 / ratios[f"vae-1: hnca / {way}"] for way in ("textbook tables", "local-expectation")
    )
    added = {
        name: ratios[f"{name} / backpropagation, added by a layer, 3 to 16 layers"]
        for name in ("loo", "disarm", "hnca")
    }
    return (
        f"With textbook tables, one log-sigmoid for each example, output and input, the step of "
        f"`vae-1` takes {textbook:.0f} times as long as `hnca`; by brute force "
        f"(`local-expectation`), {brute:.0f} times.\n\n"
        f"`loo` and `disarm` sample the rest of the network anew for every layer: their cost grows "
        f"with the square of the depth, and that of HNCA with the depth. For `loo` and `disarm`, "
        f"each further layer adds {added['loo']:.2f} and {added['disarm']:.2f} to the ratio to "
        f"backpropagation; for HNCA, {added['hnca']:.2f}.\n"
    )


def time_to_quality() -> str:
    """Of benchmarks/time_to_quality.json: what a result costs by HNCA, and by DisARM."""
    found = _measured("time_to_quality.json")
    epochs, bound = found["epochs"], found["disarm's ELBO in the end"]
    share = found["share of disarm's time in which hnca+baseline has it"]
    steady = found["the same with the median time for every epoch"]
    rows = [
        [f"`{name}`", f"{seconds[-1]:.0f}", f"{elbo[-1]:.1f}"]
        for name, (seconds, elbo) in found["seconds and ELBO"].items()
    ]
    return (
        f"After {epochs} epochs, `disarm` has a training ELBO of {bound:.1f}. `hnca+baseline` has "
        f"it in **{share:.2f}** of the time; if every epoch took its method's median time, in "
        f"{steady:.2f}.\n\n"
        + _table(["method", f"seconds for {epochs} epochs", "training ELBO then"], rows)
        + f"\nKernel: {found['kernel']}.\n"
    )


# The command line


def commands() -> str:
    """What every command says of itself with --help."""
    parts = []
    for command in COMMANDS:
        parts.append(f"## hnca {command}\n\n{_help(command)}")
        for further in _further(command):
            parts.append(f"### hnca {command} {further}\n\n{_help(command, further)}")
    return "\n\n".join([_help(), *parts]) + "\n"


def _further(command: str) -> list[str]:
    """The commands of a command."""
    if command == "train":
        return list(EXPERIMENTS)
    if command == "compare":
        return ["vae"]  # as an example: other experiments have other settings
    module = import_module(f"hnca.lab.cli.{command}")
    return list(getattr(module, "COMMANDS", {}))


def _help(*arguments: str) -> str:
    os.environ |= {"COLUMNS": "88", "NO_COLOR": "1"}
    text = StringIO()
    with redirect_stdout(text), suppress(SystemExit):
        run_command([*arguments, "--help"])
    return f"```text\n{text.getvalue().strip()}\n```"


# The reference


def public(module: ModuleType) -> dict[str, object]:
    """The names that a module exports (`from .x import y as y`), or defines."""
    own = module.__name__
    exported = Path(module.__file__ or "").name == "__init__.py"
    inside = lambda value: getattr(value, "__module__", "").startswith(own)
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and (inside(value) if exported else value.__module__ == own)
    }


def reference() -> str:
    """All that `import hnca` gives, by the file that it is in."""
    file_of = lambda item: getattr(item[1], "__module__", "")
    order = list(dict.fromkeys(map(file_of, public(hnca).items())))
    parts = []
    for module, items in groupby(
        sorted(public(hnca).items(), key=lambda item: order.index(file_of(item))), file_of
    ):
        parts.append(_section(import_module(module), "hnca", dict(items)))
    return "\n".join(parts)


def lab_reference() -> str:
    """What is public beyond that."""
    known = set(public(hnca).values())
    parts = []
    for module in map(import_module, MODULES):
        further = {name: each for name, each in public(module).items() if each not in known}
        parts.append(_section(module, module.__name__, further))
    return "\n".join(parts)


def _section(module: ModuleType, prefix: str, names: dict[str, object]) -> str:
    entries = [_entry(f"{prefix}.{name}", value) for name, value in names.items()]
    return "\n\n".join([f"## {module.__name__}", _about(module), *entries]) + "\n"


def _about(module: ModuleType) -> str:
    """The first paragraph of what a module says of itself, as one line."""
    return " ".join((inspect.getdoc(module) or "").partition("\n\n")[0].split())


def _entry(name: str, value: object) -> str:
    kind = "autoclass" if inspect.isclass(value) else "autofunction"
    options = "   :members:\n   :show-inheritance:\n" if inspect.isclass(value) else ""
    return f"```{{eval-rst}}\n.. {kind}:: {name}\n{options}```"


def literal_blocks(app, what, name, obj, options, lines: list[str]) -> None:
    """Docstrings are Markdown: four spaces after an empty line are shown as they stand."""
    for i in range(len(lines) - 1, 0, -1):
        starts = lines[i].startswith("    ") and not lines[i - 1].strip()
        if starts and i > 1 and not lines[i - 2].startswith("    ") and ">>>" not in lines[i]:
            lines[i:i] = ["::", ""]


# The types that jaxtyping spells out, by the names that the source has for them.
ALIASES = {
    r"~?[\w.]*Array \| ~?[\w.]*ndarray \| ~?[\w.]*bool \| ~?[\w.]*number"
    r" \| bool \| int \| float \| complex": "ArrayLike",
    r"~?[\w.]*Key\[[^]]*\] \| ~?[\w.]*UInt32\[[^]]*\] \| ~?[\w.]*UInt32\[[^]]*\]": "PRNGKeyArray",
    r"jaxlib\._jax\.Array": "Array",
    r"\(<function chain\.<locals>[^)]*\)": "adam(1e-3)",
}


def short_signature(app, what, name, obj, options, arguments, returned) -> tuple:
    """The signature with the aliases of the source."""
    for long, short in ALIASES.items():
        arguments, returned = (text and re.sub(long, short, text) for text in (arguments, returned))
    return arguments, returned


def skip_member(app, what, name, obj, skip, options) -> bool | None:
    """Passes over members that say nothing: fields, and what a base class explains."""
    return True if not (getattr(obj, "__doc__", None) or "").strip() else None


# Refusals


def refused() -> str:
    """Every refusal, by file, with advice where the message has none."""
    advice = tomllib.loads((HERE / "advice.toml").read_text())
    parts = []
    for file, found in groupby(refusals(SOURCE), lambda refusal: refusal.file):
        module = import_module(f"hnca.{file.removesuffix('.py').replace('/', '.')}")
        about = _about(module).partition(". ")[0].rstrip(".")
        parts.append(f"### {about}\n\n`{file}`\n\n" + "\n".join(_refusal(r, advice) for r in found))
    return "\n\n".join(parts) + "\n"


def _refusal(refusal: Refusal, advice: dict[str, str]) -> str:
    words = next((text for key, text in advice.items() if key in refusal.message), "")
    message = f"`` {refusal.message} ``"
    return f"- {message}" + (f"\\\n  {words}" if words else "")
