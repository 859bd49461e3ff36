"""What the folders, files, classes and functions of the field are called where nobody differentiates."""

import ast
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from wherelint.frontend.module import Module
from wherelint.frontend.screen import bases
from wherelint.frontend.syntax import methods
from wherelint.interpret.annotations import last_name

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: What tests, metrics and the like are called, as folders and files.
_PLACES = {
    "in a test": "test tests testing conftest",
    "in a metric": "metric metrics eval evaluation evaluate evaluator evaluators val validation",
    "in an environment": "env envs environment environments",
    "in a data pipeline": "data dataset datasets datapipe datapipes dataloader dataloaders"
    " preprocessing preprocessor preprocessors augmentation augmentations",
    "in an optimizer": "optimizer optimizers driver drivers schedule schedules scheduler schedulers",
    "in a sampler": "sampler samplers sampling hmc mcmc nuts random",
    "in a picture": "plot plots plotting plotter vis viz visualize visualise visualizer visualization visualisation",
    "in a postprocessing step": "postprocess postprocessing postprocessor",
    "in a demonstration": "demo demos tutorial tutorials",
    "in an example": "benchmark benchmarks example examples",
}
_PLACE_OF = {word: place for place, words in _PLACES.items() for word in words.split()}
#: The last word of the classes that do such work.
_CLASS_OF = {
    "Metric": "in a metric",
    "Evaluator": "in a metric",
    "Validator": "in a metric",
    "Env": "in an environment",
    "Environment": "in an environment",
    "Dataset": "in a data pipeline",
    "Optimizer": "in an optimizer",
    "Schedule": "in an optimizer",
    "Scheduler": "in an optimizer",
    "Constraint": "in a constraint",  # Keras calls it on the weights that an update has given
    "Constraints": "in a constraint",
    "Callback": "in a metric",
    "Sampler": "in a sampler",
    "Visualizer": "in a picture",
    "Plotter": "in a picture",
}
#: The first words of what metrics of how good something is have to do.
_MEASURING = frozenset(
    "accumulate add aggregate calculate call compute evaluate forward process reset result score update".split()
)
#: The first words of the functions that do.
_FUNCTION_OF = {
    **dict.fromkeys(("visualize", "visualise", "plot"), "in a picture"),
    **dict.fromkeys(("postprocess", "preprocess", "inference"), "in a postprocessing step"),
    "validate": "in a metric",
    **dict.fromkeys(("init", "initial", "initialize", "initialise", "reset", "precompute"), "at the start of a run"),
}
#: What is given and not learned, by the words that the field keeps for it.
DATA = frozenset(
    """batch target targets label labels gt truth truths index indices idx ids count counts num number reward rewards
    advantage advantages adv returns mask masks valid""".split()
)
#: Some of it, as what a function makes.
_MADE = DATA - set("batch count counts mask masks num number valid".split())
#: What optax, and what is like it, makes of an initial state and an update.
_TRANSFORMATION = "GradientTransformation"
#: Methods that a trainer calls without gradients.
_STEPS = frozenset({"validation_step", "test_step", "predict_step"})


def of(module: Module, functions: Iterable[str]) -> Iterator[str]:
    """What the place of code within some functions and classes says against a gradient, by the score's table."""
    if _of_file not in module.kept:
        module.kept[_of_file] = tuple(_of_file(module))
    yield from module.kept[_of_file]
    for name in functions:
        words = WORD.findall(name)
        if name[:1].isupper():
            if (_of_class, name) not in module.kept:
                module.kept[_of_class, name] = tuple(_of_class(name, module))
            yield from module.kept[_of_class, name]
        if name in _updates(module):
            yield "in an update"
        if name in _STEPS:
            yield "in a metric"
        if words and words[0] in _FUNCTION_OF:
            yield _FUNCTION_OF[words[0]]
        if words and words[-1] == "sampler":
            yield "in a sampler"
        if words and words[-1].lower() in _MADE:  # norm_targets makes targets; in target_loss it is another matter
            yield "makes data"


def _of_class(name: str, module: Module) -> Iterator[str]:
    """What the name of a class says, or else those that it inherits from: ``class Adam(torch.optim.Optimizer)``."""
    family = _family(name, module)
    for each in (name, *(last_name(base) for cls in family for base in cls.bases)):
        words = WORD.findall(each)
        if words and words[-1] in _CLASS_OF and (words[-1] != "Metric" or _measures(each, family)):
            yield _CLASS_OF[words[-1]]
            return


def _family(name: str, module: Module) -> list[ast.ClassDef]:
    """A class of a file and those of the project that it inherits from."""
    known = module.definitions.get(name)
    statement = known.statement if known is not None else None
    return [statement, *(base for _, base in bases(module, statement))] if isinstance(statement, ast.ClassDef) else []


def _measures(name: str, family: Iterable[ast.ClassDef]) -> bool:
    """Whether a metric is one of how good something is; a Riemannian one computes distances and no result."""
    named = (word for cls in family for method in methods(cls) for word in method.name.strip("_").split("_")[:1])
    return name == "Metric" or not _MEASURING.isdisjoint(named)


def _acts(cls: ast.ClassDef) -> bool:
    """Whether a class is an environment by its methods: it is reset, and steps where an action leads."""
    own = {method.name: [arg.arg for arg in method.args.args] for method in methods(cls)}
    return "reset" in own and any(arg.startswith("action") for arg in own.get("step", ()))


def _updates(module: Module) -> frozenset[str]:
    """The functions of a file that it makes a gradient transformation of: what optimizers do with gradients."""
    if _updates not in module.kept:
        calls = [node for statement, block in module.blocks if block.mentions(_TRANSFORMATION)
                 for node in ast.walk(statement) if isinstance(node, ast.Call)]  # fmt: skip
        made = [call for call in calls if last_name(call.func).startswith(_TRANSFORMATION)]
        given = [each for call in made for each in (*call.args, *(keyword.value for keyword in call.keywords))]
        module.kept[_updates] = frozenset(each.id for each in given if isinstance(each, ast.Name))
    known: frozenset[str] = module.kept[_updates]
    return known


def _of_file(module: Module) -> Iterator[str]:
    path = PurePath(os.path.relpath(module.filename, module.around))
    folders = () if ".." in path.parts else path.parts[:-1]
    stem = path.stem.lower()
    words = stem.split("_")
    if words[0] in ("test", "conftest"):  # test_model.py; env_mat.py is the matrix of an environment
        yield "in a test"
    if any(isinstance(statement, ast.ClassDef) and _acts(statement) for statement, _ in module.blocks):
        yield "in an environment"
    metrics = [name for name in module.definitions if name.endswith("Metric") and _family(name, module)]
    geometry = any(not _measures(name, _family(name, module)) for name in metrics)
    for part in (*module.package.split("."), *folders, stem, stem.replace("_", ""), words[-1]):
        if part in _PLACE_OF and not (geometry and part in ("metric", "metrics")):
            yield _PLACE_OF[part]
