"""The schemas agree with what the program reads and prints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Run, write
from jsonschema import Draft202012Validator

from wherelint.io.config import KEYS, ConfigError, load, tomllib  # type: ignore[attr-defined]

EXAMPLES = Path(__file__).parents[2] / "examples"


def validator(wherelint: Run, of: str) -> Draft202012Validator:
    status, text, errors = wherelint("schema", of)
    assert (status, errors) == (0, "")
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("key", KEYS)
def test_the_configuration(wherelint: Run, project: Path, key: str) -> None:
    known = validator(wherelint, "configuration")
    write(project, {"known.json": "{}", "gradients.json": "{}"})
    for value, is_right in ((KEYS[key].example, True), ("3.5", False), ("[[1]]", False)):
        table = f"{key} = {value}"
        assert known.is_valid(tomllib.loads(table)) is is_right
        if key != "extend":  # which names a file
            write(project, {"pyproject.toml": f"[tool.wherelint]\n{table}\n"})
            if is_right:
                assert load(project / "pyproject.toml") is not None
            else:
                with pytest.raises(ConfigError):
                    load(project / "pyproject.toml")
    assert not known.is_valid({"selct": []})


def test_the_report(wherelint: Run, project: Path) -> None:
    known = validator(wherelint, "report")
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, project)
    write(project, {"broken.py": "def f(:\n", "mask.py": "import torch\n\n\ndef f(x, m):\n    return x.sqrt() * m\n"})
    status, text, _ = wherelint("check", "--level", "note", "--output-format", "json")
    found = json.loads(text)
    assert status == 2
    assert len(found) > 6
    known.validate(found)
    assert not known.is_valid([{**found[0], "severity": "bad"}])
    assert not known.is_valid([{**found[0], "more": 1}])
    del found[0]["witness"]
    assert not known.is_valid(found)


def test_a_confirmed_report(wherelint: Run, project: Path) -> None:
    from real_gradients import require

    require("jax")
    shutil.copy(EXAMPLES / "angle.py", project)
    found = json.loads(wherelint("check", "--confirm", "--output-format", "json")[1])
    assert found[0]["confirmation"]["verdict"] == "confirmed"
    validator(wherelint, "report").validate(found)
