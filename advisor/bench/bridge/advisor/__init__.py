"""Stands in for advisor, as the package beside it does for microbench: a child there may use what needs the standard library alone."""

import os

__path__ = [os.environ["ADVISOR_FOLDER"]]
