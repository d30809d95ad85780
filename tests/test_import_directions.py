"""An import points down or sideways inside its own part, never up; nothing heavy is imported at module top."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

#: Parts from the top down. A part may import its own and those in later rows, and nothing else of the project.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli", "web"),
    ("api",),
    ("usecases",),
    ("claims", "export", "report"),
    ("trial",),
    ("bench", "accuracy"),
    ("search",),
    ("cost",),
    ("plan",),
    ("model",),
    ("hardware",),
    ("probe",),
    ("results", "frameworks"),
    ("units", "errors", "settings", "resources", "plugins", "yamlio"),
)
LEVEL = {part: level for level, row in enumerate(LAYERS) for part in row}
BOTTOM = len(LAYERS) - 1

#: What may be imported from microbench: the records that cross the border, and the child with a deadline.
FROM_MICROBENCH = ("microbench.protocol", "microbench.child")

#: Packages that cost time or memory to import; only an adapter that runs in a child may have them at module top.
HEAVY = {"torch", "jax", "onnxruntime", "onnx", "tensorflow", "openvino", "ray", "fastapi", "scipy", "pyarrow", "pandas"}

#: Adapters: they are imported only in a child process that works with the framework of their name (web: only by `advisor serve`).
ADAPTERS = ("*/importers/_*_child.py", "microbench/networks/*_model.py", "microbench/backends/_torch_*.py", "advisor/web/*.py")

#: Imports against the direction that are meant, each with its reason.
EXCEPTIONS = {
    ("advisor/__init__.py", "advisor.api"): "the package offers its Python interface",
    ("advisor/probe/__init__.py", "advisor.api"): "the package is callable: advisor.probe()",
    ("advisor/cli/serve.py", "advisor.web"): "the command starts the server",
}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path, *, top_only: bool = False) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(module: str) -> str | None:
    words = module.split(".")
    return words[1] if words[0] == "advisor" and len(words) > 1 else None


def test_imports_point_down() -> None:
    wrong = []
    for path in sources("advisor"):
        name = path.relative_to(ROOT).as_posix()
        own = part_of(".".join(path.relative_to(ROOT).with_suffix("").parts)) or ""
        for module in imports(path):
            part = part_of(module)
            if part is None or part == own or any(name == f and module.startswith(m) for f, m in EXCEPTIONS):
                continue
            if own not in LEVEL:
                continue
            if part not in LEVEL or LEVEL[part] < LEVEL[own] or (LEVEL[part] == LEVEL[own] and LEVEL[own] != BOTTOM):
                wrong.append(f"{name} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_every_part_has_a_level() -> None:
    parts = {p.name for p in (ROOT / "advisor").iterdir() if (p / "__init__.py").is_file()}
    assert parts <= set(LEVEL), parts - set(LEVEL)


def test_advisor_knows_only_the_border_of_microbench() -> None:
    """The children of claims are measuring children themselves: they time with the same loop, and nothing imports them."""
    children = ROOT / "advisor" / "claims" / "children"
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources("advisor")
        if path.parent != children
        for module in imports(path)
        if module.split(".")[0] == "microbench" and not module.startswith(FROM_MICROBENCH)
    ]
    assert not wrong, "\n".join(wrong)


def test_microbench_stands_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources("microbench")
        for module in imports(path)
        if module.split(".")[0] == "advisor"
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_heavy_at_module_top() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in [*sources("advisor"), *sources("microbench")]
        if not any(path.match(pattern) for pattern in ADAPTERS)
        for module in imports(path, top_only=True)
        if module.split(".")[0] in HEAVY
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("arguments", [["--help"], ["recommend", "--help"], ["probe", "--help"]])
def test_help_loads_no_numerics(arguments: list[str]) -> None:
    code = (
        "import sys; from advisor.cli.main import run; run(sys.argv[1:]); "
        "print([m for m in ('numpy', 'sqlalchemy', 'optuna', 'torch', 'jax', 'alembic') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Example" in done.stdout
