"""Write a stored answer as launch files, each checked before it is handed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError, EnvironmentLacks, UsageError
from advisor.export import Answer, Exporter, Files, all_exporters, exporter
from advisor.plan.records import Plan
from advisor.search.records import Recommendation


def export_stored(plan_id: str | None, formats: Sequence[str], out: str, database_url: str, *, check_only: bool = False) -> dict[str, Any]:
    """Write the stored plan ``plan_id`` (None: the latest recommendation) in ``formats`` below ``out``.

    With ``check_only`` the files that are in ``out`` are checked instead of written. UsageError for an unknown plan or
    format, a plan that the format cannot say, or a folder that cannot be written.
    """
    from advisor.results.store import Store

    with Store.open(database_url) as store:
        if plan_id is None:
            latest = store.latest_recommendation()
            if latest is None or not latest["document"].get("recommendation"):
                raise UsageError("no stored answer has a plan", "`advisor recommend` makes one", code="NO-PLAN")
            document, stored = latest["document"], latest["document"]["recommendation"]
        else:
            found = store.find_plan(plan_id)
            if found is None:
                raise UsageError(
                    f"no stored answer has the plan {plan_id!r}", "`advisor recommend` prints the ids it stores", code="UNKNOWN-PLAN"
                )
            document, stored = found["recommendation"]["document"], found
    answer = answer_of(document, stored)
    return check_folder(answer, formats, out) if check_only else write_files(answer, formats, out)


def export_answer(answer: Recommendation, formats: Sequence[str], out: str) -> list[dict[str, Any]]:
    """Write a fresh recommendation in ``formats``; returns what was written."""
    if answer.recommendation is None:
        raise UsageError("nothing fits, so there is nothing to export", code="NO-PLAN")
    document = answer.to_dict()
    written: list[dict[str, Any]] = write_files(answer_of(document, document["recommendation"]), formats, out)["exported"]
    return written


def answer_of(document: Mapping[str, Any], stored: Mapping[str, Any]) -> Answer:
    """Return the Answer an exporter reads, from an answer's document and one of its plans."""
    return Answer(
        plan_id=str(stored["plan_id"]),
        plan=Plan(**stored["plan"]),
        task=str(document["task"]),
        model=document["model"],
        hardware=document["hardware"],
        workload=document["workload"],
        estimate=stored["estimate"],
        transformer=_sizes(document["model"]),
        versions=_versions(),
        target=_target(document["hardware"]),
        hub=_hub(str(document["model"]["name"])),
    )


def _target(hardware: Mapping[str, Any]) -> str:
    """What the devices are programmed through; the local CPU where the profile is no sheet of ours."""
    from advisor.hardware.load import find_profile

    found = find_profile(str(hardware.get("profile") or ""))
    return found.target if found is not None else "cpu-x86"


def _hub(name: str) -> str | None:
    from advisor.model.registry import model as find

    if "/" in name:
        return None  # a path, or an id already
    try:
        return next((alias for alias in find(name).aliases if "/" in alias), None)
    except AdvisorError:
        return None


def _sizes(model: Mapping[str, Any]) -> dict[str, Any]:
    from dataclasses import asdict

    from advisor.model.registry import model as find

    sizes = model.get("transformer")
    if sizes:
        return dict(sizes)
    try:
        transformer = find(str(model["name"])).transformer
    except AdvisorError:
        return {}  # a model that was read from a file which is not there any more
    return asdict(transformer) if transformer is not None else {}


def _versions() -> dict[str, str]:
    from importlib import metadata

    from advisor.frameworks import all_frameworks

    found: dict[str, str] = {}
    for spec in all_frameworks():
        for name in spec.distributions:
            try:
                found[spec.name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
            break
    return found


def write_files(answer: Answer, formats: Sequence[str], out: str) -> dict[str, Any]:
    """Write ``answer`` in every format below ``out`` (one folder a format when there are several), all of them or none."""
    made = [(one, *_made(one, answer)) for one in _chosen(formats, answer)]
    exported = []
    for one, files, validators in made:
        folder = Path(out) / one.name if len(made) > 1 else Path(out)
        paths = [_write(folder, name, text) for name, text in files.items()]
        exported.append({"format": one.name, "targets": one.targets, "files": paths, "validators": list(validators)})
    return {"schema_version": 1, "plan_id": answer.plan_id, "exported": exported}


def _chosen(formats: Sequence[str], answer: Answer) -> list[Exporter]:
    """Return the exporters of these names, once each; UsageError if one cannot say the plan."""
    chosen = [exporter(name) for name in dict.fromkeys(name.strip() for name in formats) if name]
    if not chosen:
        raise UsageError("--format needs a name", f"one of {', '.join(e.name for e in all_exporters())}", code="NO-FORMAT")
    for one in chosen:
        obstacle = one.obstacle(answer)
        if obstacle is not None:
            raise UsageError(f"{one.name}: {obstacle}", _fitting(answer), code="CANNOT-EXPORT")
    return chosen


def _made(one: Exporter, answer: Answer) -> tuple[Files, tuple[str, ...]]:
    files = one.write(answer)
    checked = one.check(files, answer)
    if checked.problems:
        raise UsageError(f"{one.name}: the plan does not pass its check: {'; '.join(checked.problems)}", code="CANNOT-EXPORT")
    return files, checked.validators


def _fitting(answer: Answer) -> str | None:
    names = [e.name for e in all_exporters() if e.obstacle(answer) is None]
    return f"this plan can be written as {', '.join(names)}" if names else None


def _write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            path.chmod(0o755)
    except OSError as error:
        raise EnvironmentLacks(
            "CANNOT-WRITE", f"cannot write {path}: {error.strerror or error}", "name another folder with --out"
        ) from error
    return str(path)


def check_folder(answer: Answer, formats: Sequence[str], out: str) -> dict[str, Any]:
    """Check the files of each format that lie in ``out`` against ``answer``."""
    from advisor.yamlio import read_text

    checked = []
    for one in _chosen(formats, answer):
        folder = Path(out) / one.name if (Path(out) / one.name).is_dir() else Path(out)
        files = {file: read_text(folder / file) for file in one.write(answer)}
        verdict = one.check(files, answer)
        checked.append(
            {"format": one.name, "folder": str(folder), "validators": list(verdict.validators), "problems": list(verdict.problems)}
        )
    return {"schema_version": 1, "plan_id": answer.plan_id, "checked": checked, "ok": not any(c["problems"] for c in checked)}


def list_formats() -> dict[str, Any]:
    """Return every format with the tool and versions it targets."""
    return {"schema_version": 1, "formats": [{"name": e.name, "title": e.title, "targets": e.targets} for e in all_exporters()]}
