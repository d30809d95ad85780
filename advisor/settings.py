"""Settings from the command line and the environment, in that order."""

from __future__ import annotations

import os
from dataclasses import dataclass

from advisor.resources import user_data_dir


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for one invocation, whatever the command."""

    database_url: str
    verbose: bool = False


def default_database_url() -> str:
    """Return ``ADVISOR_DB`` or the SQLite file in the user's data folder."""
    return os.environ.get("ADVISOR_DB") or f"sqlite:///{user_data_dir() / 'advisor.db'}"


def load_settings(database_url: str | None = None, *, verbose: bool = False) -> Settings:
    """Return the settings in force; an explicit ``database_url`` wins over the environment."""
    return Settings(database_url=database_url or default_database_url(), verbose=verbose)
