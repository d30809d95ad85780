"""Stands in for microbench in an environment where it is not installed: it leads to the folder the parent names, and to nothing beside it.

The parent puts the folder above this one on PYTHONPATH. Its own folder of packages stays off the path, so that no package of the
parent's environment is found in place of the managed environment's.
"""

import os

__path__ = [os.environ["MICROBENCH_FOLDER"]]
