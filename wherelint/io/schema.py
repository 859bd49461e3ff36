"""JSON schemas (draft 2020-12) of the table ``[tool.wherelint]`` and of the JSON report."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from wherelint.evidence.pieces import LEVELS
from wherelint.finding import Confirmation, Fix
from wherelint.io import config
from wherelint.rules import SITE

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: dict[str, Any] = {"type": "string"}
_TRUTH = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_CODES = {"type": "array", "items": {"type": "string", "pattern": "^(ALL|WL[0-9]*)$"}}
_LEVEL = {"enum": list(LEVELS)}
#: By what reads a key of the configuration.
_OF_READERS: dict[str, dict[str, Any]] = {
    "_path": _TEXT,
    "_codes": _CODES,
    "_boolean": _TRUTH,
    "_level": _LEVEL,
    "_strings": _TEXTS,
    "_per_file_ignores": {"type": "object", "additionalProperties": _CODES},
    "_aliases": {"type": "object", "additionalProperties": _TEXT},
}
_NUMBER = {"anyOf": [{"type": ["number", "boolean"]}, {"enum": ["nan", "inf", "-inf"]}]}
_NUMBERS = {"anyOf": [*_NUMBER["anyOf"], {"type": "array", "items": _NUMBER}]}
_PLACE = {
    "type": "object",
    "properties": {name: {"type": "integer", "minimum": 1} for name in ("row", "column", "cell")},
    "required": ["row", "column"],
}


def _record(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def configuration() -> dict[str, Any]:
    """What ``[tool.wherelint]`` may hold."""
    keys = {
        name: {**_OF_READERS[key.read.__name__], "description": key.description} for name, key in config.KEYS.items()
    }
    return {
        "$schema": _DRAFT, "title": "[tool.wherelint]", "$comment": SITE, "type": "object", "properties": keys,
        "additionalProperties": False,
    }  # fmt: skip


def report() -> dict[str, Any]:
    """What ``--output-format json`` prints."""
    span = {"location": _PLACE, "end_location": _PLACE}
    outcome = _record({"value": _NUMBERS, "gradient": {"type": "object", "additionalProperties": _NUMBERS}})
    by_name = {"type": "object", "additionalProperties": _NUMBERS}
    witness = _record(
        {"inputs": by_name, "value": _NUMBERS, "gradient": by_name, "conditions": _TEXTS, "unknown": _TEXTS}
    )
    edit = _record({"content": _TEXT, **span})
    grades = list(get_args(get_type_hints(Fix)["applicability"]))
    fix = _record(
        {"applicability": {"enum": grades}, "message": _TEXT, "edits": {"type": "array", "items": edit},
         "remaining": _TEXTS}, optional=("remaining",),
    )  # fmt: skip
    verdicts = list(get_args(get_type_hints(Confirmation)["verdict"]))
    confirmation = _record(
        {
            "verdict": {"enum": verdicts}, "reason": _or_null(_TEXT), "device": _or_null(_TEXT),
            "framework_version": _or_null(_TEXT), "at": by_name,
            "modes": {"type": "object", "additionalProperties": outcome},
            "after_fix": _or_null(_record({"value_unchanged": _TRUTH, "gradient_finite": _TRUTH})),
        }
    )  # fmt: skip
    related = {"type": "object", "properties": {**span, "filename": _TEXT, "message": _TEXT}, "required": list(span)}
    text, texts = _or_null(_TEXT), _TEXTS
    finding = {
        "code": text, "name": _TEXT, "severity": _LEVEL, "why": text, "message": _TEXT, "filename": _TEXT,
        "cell": _or_null({"type": "integer"}), **span, "select": _record({"kind": text, **span}),
        "related": {"type": "array", "items": related}, "function": text, "framework": text, "modes": texts, "op": text,
        "score": _or_null({"type": "number", "minimum": 0, "maximum": 1}), "evidence": texts,
        "witness": _or_null(witness), "noqa_row": _or_null({"type": "integer"}), "url": text, "fix": _or_null(fix),
        "confirmation": _or_null(confirmation),
    }  # fmt: skip
    title = "wherelint check --output-format json"
    return {"$schema": _DRAFT, "title": title, "type": "array", "items": _record(finding)}
