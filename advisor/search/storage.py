"""Where Optuna's studies are kept: a file beside the results database, or the same PostgreSQL; always in Optuna's own tables.

A study of measured plans is written trial by trial through Optuna's RDB storage, so that a search that was killed goes on where it
ended and several workers share one. An analytic study is tiny and priced in memory; its best trials are written in one transaction
(``keep``): through the storage's interface each trial costs 25 ms and opening it half a second.
"""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING

import optuna

from advisor.errors import DatabaseError
from advisor.results.address import Address, parse_url, prepare_file

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from optuna.study import Study

#: A worker signs on every so many seconds; one that has not for ``GRACE_S`` is taken for dead, and its trial may be measured again.
HEARTBEAT_S, GRACE_S = 10, 60
#: How long a writer waits for another one of the same SQLite file.
BUSY_S = 30
SUFFIX = ".studies.db"
#: Optuna's version of the tables that ``keep`` writes (``optuna.storages._rdb.models.SCHEMA_VERSION``).
_KNOWN_SCHEMA = 12


def studies_url(database_url: str) -> str:
    """Return the URL of Optuna's storage for a results database: ``results.db`` has ``results.studies.db`` beside it."""
    address = parse_url(database_url)
    return address.url or f"sqlite:///{_file(address)}"


def open_storage(database_url: str) -> RDBStorage:
    """Open (and create) the storage with heartbeats; DatabaseError where it cannot be."""
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import SQLAlchemyError

    address = parse_url(database_url)
    _prepare(address)
    arguments = {"connect_args": {"timeout": BUSY_S}} if address.dialect == "sqlite" else {"pool_pre_ping": True}
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return RDBStorage(studies_url(database_url), engine_kwargs=arguments, heartbeat_interval=HEARTBEAT_S, grace_period=GRACE_S)
    except (SQLAlchemyError, RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DatabaseError("DB-STUDIES", f"the studies in {_shown(address)} cannot be opened: {reason}") from error


def _file(address: Address) -> str:
    return str(address.path.with_suffix(SUFFIX)) if address.path is not None else ""


def _shown(address: Address) -> str:
    return _file(address) or address.shown


def _prepare(address: Address) -> None:
    if address.path is not None and not prepare_file(address.path.with_suffix(SUFFIX), create=True):
        raise DatabaseError("DB-READONLY", f"{_file(address)} cannot be written", "name another with --db sqlite:////FOLDER/FILE")


def keep(study: Study, name: str, database_url: str, most: int) -> bool:
    """Write the best ``most`` trials of an in-memory ``study`` under ``name`` in one transaction; False where ``name`` is there already.

    DatabaseError where the storage cannot be written.
    """
    import sqlalchemy as sa
    from optuna.storages._rdb import models
    from sqlalchemy.exc import SQLAlchemyError

    address = parse_url(database_url)
    _prepare(address)
    chosen = sorted((t for t in study.trials if t.values is not None), key=lambda t: t.number)[:most]
    if models.SCHEMA_VERSION != _KNOWN_SCHEMA:
        return _keep_slowly(study, chosen, name, database_url)
    engine = sa.create_engine(studies_url(database_url), connect_args={"timeout": BUSY_S} if address.dialect == "sqlite" else {})
    try:
        with engine.begin() as connection:
            if not sa.inspect(connection).has_table(models.VersionInfoModel.__tablename__):
                # Optuna adds the mark of its migrations when it opens tables of its newest version without one.
                models.BaseModel.metadata.create_all(connection)
                version = {"version_info_id": 1, "schema_version": models.SCHEMA_VERSION, "library_version": optuna.__version__}
                connection.execute(sa.insert(models.VersionInfoModel), [version])
            table = models.StudyModel
            if connection.execute(sa.select(table.study_id).where(table.study_name == name)).first() is not None:
                return False
            _insert(connection, models, study, chosen, name)
    except (SQLAlchemyError, OSError) as error:
        raise DatabaseError("DB-STUDIES", f"the studies in {_shown(address)} cannot be written: {str(error).splitlines()[0]}") from error
    finally:
        engine.dispose()
    return True


def _insert(connection, models, study, trials, name) -> None:  # type: ignore[no-untyped-def]
    """Insert a study with its trials; one statement a table."""
    import json

    import sqlalchemy as sa
    from optuna.distributions import distribution_to_json

    connection.execute(sa.insert(models.StudyModel), [{"study_name": name}])
    study_id = connection.execute(sa.select(models.StudyModel.study_id).where(models.StudyModel.study_name == name)).scalar_one()
    rows: dict[object, list[dict[str, object]]] = {
        models.StudyDirectionModel: [
            {"study_id": study_id, "objective": index, "direction": direction} for index, direction in enumerate(study.directions)
        ],
        models.StudyUserAttributeModel: [
            {"study_id": study_id, "key": key, "value_json": json.dumps(value)} for key, value in study.user_attrs.items()
        ],
    }
    heads = [
        {
            "study_id": study_id, "number": number, "state": trial.state,
            "datetime_start": trial.datetime_start, "datetime_complete": trial.datetime_complete,
        }
        for number, trial in enumerate(trials)
    ]  # fmt: skip
    connection.execute(sa.insert(models.TrialModel), heads)
    numbered = sa.select(models.TrialModel.number, models.TrialModel.trial_id).where(models.TrialModel.study_id == study_id)
    ids = {row.number: row.trial_id for row in connection.execute(numbered)}
    finite = models.TrialValueModel.TrialValueType.FINITE
    for number, trial in enumerate(trials):
        own = {"trial_id": ids[number]}
        rows.setdefault(models.TrialParamModel, []).extend(
            {**own, "param_name": key, "param_value": d.to_internal_repr(trial.params[key]), "distribution_json": distribution_to_json(d)}
            for key, d in trial.distributions.items()
        )
        rows.setdefault(models.TrialValueModel, []).extend(
            {**own, "objective": index, "value": value, "value_type": finite} for index, value in enumerate(trial.values)
        )
        for model, attributes in (
            (models.TrialUserAttributeModel, trial.user_attrs),
            (models.TrialSystemAttributeModel, trial.system_attrs),
        ):
            rows.setdefault(model, []).extend({**own, "key": key, "value_json": json.dumps(value)} for key, value in attributes.items())
    for model, entries in rows.items():
        if entries:
            connection.execute(sa.insert(model), entries)


def _keep_slowly(study: Study, trials: list[optuna.trial.FrozenTrial], name: str, database_url: str) -> bool:
    """Write through the storage's own interface: for a version of Optuna whose tables are not known here."""
    storage = open_storage(database_url)
    if name in optuna.study.get_all_study_names(storage):
        return False
    kept = optuna.create_study(study_name=name, storage=storage, directions=study.directions)
    for key, value in study.user_attrs.items():
        kept.set_user_attr(key, value)
    kept.add_trials(trials)
    return True
