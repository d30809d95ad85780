"""The backend shown in the documentation is short, and runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.bench.children import run_round
from microbench.protocol import Case, Request

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to-add-a-backend.md"


def test_the_documented_backend_measures(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) < 60
    file = tmp_path / "toy.py"
    file.write_text(code)
    cases = tuple(
        Case(benchmark=name, dtype=dtype, params={"m": 16, "n": 16, "k": 16}) for name, dtype in (("gemm", "fp32"), ("gemm", "bf16"))
    )
    rows = run_round(
        Request(backend=str(file), device="cpu", threads=1, cases=cases, budget_s=20.0, quick=True, options={"max_samples": 3})
    )
    assert rows[0]["status"] in ("ok", "contended"), rows[0]
    assert (rows[1]["status"], "bf16" in rows[1]["reason"]) == ("unsupported", True)
