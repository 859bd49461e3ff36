"""The functions that other programs call, and the recipe that maps them over a cluster."""

from __future__ import annotations

import pickle
import runpy
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, write

import wherelint
from wherelint.io.config import Configuration, Overrides

FIXED = UNSAFE.replace("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))")


def test_check_source() -> None:
    report = wherelint.check_source(UNSAFE, "a.py")
    assert [(f.code, f.filename, f.location.row, f.fix) for f in report.findings] == [("WL101", "a.py", 5, None)]
    assert wherelint.check_source(UNSAFE.encode("utf-16"), "a.py").problems
    assert wherelint.check_source("def f(:\n").problems[0].message.startswith("does not parse")
    (finding,) = wherelint.check_source(UNSAFE, fixes=True).findings
    assert finding.fix is not None
    assert finding.fix.applicability == "safe"


def test_fix_source() -> None:
    text, report = wherelint.fix_source(UNSAFE)
    assert (text, report.findings, len(report.fixed)) == (FIXED, (), 1)
    for same in (SAFE, "def f(:\n", "x = '\udcff'\n", UNSAFE.replace("\n", "\r\n").replace("jnp.sqrt(x)", "x")):
        assert wherelint.fix_source(same)[0] == same


def test_check_paths(project: Path) -> None:
    write(project, {"a.py": UNSAFE, "sub/b.py": UNSAFE, "c.py": SAFE})
    seen: list[tuple[int, int]] = []
    result = wherelint.check_paths([project, "missing.py"], progress=lambda done, total: seen.append((done, total)))
    assert [finding.filename for finding in result.findings] == ["a.py", "sub/b.py"]
    assert [problem.message for problem in result.problems] == ["no such file or directory"]
    assert seen == [(1, 3), (2, 3), (3, 3)]
    ignoring = Configuration(Overrides(ignore=("WL1",)))
    assert wherelint.check_paths(["."], ignoring).findings == ()
    assert wherelint.check_paths(["."], fix_mode="safe").reports[0].after == FIXED.encode()
    assert (project / "a.py").read_text() == UNSAFE
    with pytest.raises(TypeError, match="paths must be a list"):
        wherelint.check_paths("a.py")


def test_results_can_be_pickled(project: Path) -> None:
    write(project, {"a.py": UNSAFE, "b.py": "def f(:\n"})
    result = wherelint.check_paths(["."], fix_mode="offer")
    assert repr(pickle.loads(pickle.dumps(result))) == repr(result)  # nan is not equal to itself


def test_what_there_is() -> None:
    assert set(wherelint.__all__) <= {*dir(wherelint), *wherelint.__all__}
    for name in wherelint.__all__:
        assert getattr(wherelint, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'check'"):
        wherelint.check  # noqa: B018


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_recipe_on_a_local_cluster(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("dask.distributed")
    folders = []
    for i in range(4):
        write(project, {f"repository{i}/a.py": UNSAFE * (i % 2), f"repository{i}/b.py": SAFE})
        folders.append(str(project / f"repository{i}"))
    recipe = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "check_corpus.py"))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None
    ) as cluster:
        with distributed.Client(cluster) as client, client.get_executor() as executor:
            remote = list(executor.map(wherelint.check_paths, [[folder] for folder in folders]))
            assert len(client.scheduler_info()["workers"]) == 2
        local = [wherelint.check_paths([folder]) for folder in folders]
        assert repr([r.reports for r in remote]) == repr([r.reports for r in local])
        assert [len(r.findings) for r in local] == [0, 1, 0, 1]
        recipe["main"](folders, cluster)
    assert capsys.readouterr().out.splitlines() == [
        f"{folder}: {{'WL101': 1}}, 0 problems" if i % 2 else f"{folder}: {{}}, 0 problems"
        for i, folder in enumerate(folders)
    ]


def test_a_result_in_a_format(project: Path) -> None:
    (project / "a.py").write_text(UNSAFE)
    result = wherelint.check_paths(["."])
    assert result.render("pylint").startswith("a.py:5: [WL101(unmasked-sqrt), error] gradient is nan for sqrt")
    with pytest.raises(KeyError):
        result.render("full")
