"""Check many repositories on a cluster that you have already: ``python examples/check_corpus.py FOLDER...``

Every folder is one task. ``wherelint.check_paths`` returns plain data, so that any engine with the interface of
``concurrent.futures`` can run it; here it is dask's, on this machine unless you name a scheduler.
"""

import sys
from collections import Counter

from dask.distributed import Client

import wherelint


def check(folder):
    """The findings of one repository, and what could not be checked of it."""
    result = wherelint.check_paths([folder], jobs=1)
    return result.findings, result.problems


def main(folders, scheduler=None):
    with Client(scheduler) as client, client.get_executor() as executor:
        for folder, (findings, problems) in zip(folders, executor.map(check, folders)):
            counts = Counter(finding.code for finding in findings)
            print(f"{folder}: {dict(sorted(counts.items()))}, {len(problems)} problems")


if __name__ == "__main__":
    main(sys.argv[1:])
